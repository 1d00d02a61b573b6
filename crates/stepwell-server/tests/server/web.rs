//! The web viewer's files, and gRPC as a web page speaks it.

use stepwell_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::get;
use crate::world::{PLAIN, Turn, World, within};

/// The address of the script that a page loads.
fn script_of(page: &str) -> &str {
    let (_, from) = page.split_once("src=\"/assets/").unwrap();
    let end = from.find('"').unwrap();
    let start = page.len() - from.len() - "/assets/".len();
    &page[start..page.len() - from.len() + end]
}

#[tokio::test]
async fn every_view_is_the_page_and_nothing_comes_from_elsewhere() {
    let world = World::new(&[]).await;
    let page = get(world.address, "/", &[]).await.text().await;
    for path in [
        "/",
        "/s/01ABC",
        "/s/01ABC@17",
        "/approvals",
        "/agents",
        "/workers",
        "/new",
        "/compare/a/b",
    ] {
        let answer = get(world.address, path, &[]).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        let policy = answer.header("content-security-policy").unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(answer.text().await, page, "{path}");
    }
    assert!(!page.contains("<script>") && !page.contains("<style"), "nothing inline: {page}");
    assert!(!page.contains("https://"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn files_are_kept_by_browsers_as_long_as_they_are_true() {
    let world = World::new(&[]).await;
    let page = get(world.address, "/", &[]).await;
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let tag = page.header("etag").unwrap().to_owned();
    let again = get(world.address, "/approvals", &[("if-none-match", &tag)]).await;
    assert_eq!(again.status, 304);
    assert_eq!(again.text().await, "");
    let script = script_of(&page.text().await).to_owned();
    let answer = get(world.address, &script, &[]).await;
    assert_eq!(answer.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let tag = answer.header("etag").unwrap().to_owned();
    assert!(answer.text().await.len() > 1_000);
    let packed = get(world.address, &script, &[("accept-encoding", "br;q=1, gzip")]).await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(packed.header("vary"), Some("accept-encoding"));
    assert_ne!(packed.header("etag"), Some(tag.as_str()));
    let plain = get(world.address, &script, &[("accept-encoding", "gzip;q=0, br")]).await;
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.header("etag"), Some(tag.as_str()));
    for path in ["/assets/index-0.js", "/assets/", "/assets/../index.html", "/elsewhere"] {
        assert_eq!(get(world.address, path, &[]).await.status, 404, "{path}");
    }
    world.stop().await;
}

/// Calls `ListSessions` with an empty request as a page would: over HTTP/1.1, framed as gRPC-web.
async fn list_as_page(world: &World, origin: &str) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST /stepwell.v1.SessionService/ListSessions HTTP/1.1\r\nhost: {}\r\norigin: {origin}\r\n\
         content-type: application/grpc-web+proto\r\nx-grpc-web: 1\r\ncontent-length: 5\r\n\
         connection: close\r\n\r\n",
        world.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&[0; 5]).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_page_of_this_server_speaks_grpc_and_one_of_another_does_not() {
    let world = World::new(&[Turn::Say(&["Done."])]).await;
    let id = world.create(PLAIN).await;
    world.until_status(&id, v1::SessionStatus::Completed).await;
    let answer = list_as_page(&world, &format!("http://{}", world.address)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("application/grpc-web+proto"), "{answer}");
    assert!(answer.contains(&id) && answer.contains("grpc-status:0"), "{answer}");
    let refused = list_as_page(&world, "http://evil.example").await;
    assert!(!refused.contains(&id) && refused.contains("evil.example"), "{refused}");
    world.stop().await;
}
