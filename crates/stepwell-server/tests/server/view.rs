//! Exported files that are only looked at.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::get;
use crate::import::exported;
use crate::world::{World, within};

/// Sends a POST over HTTP/1.1; gives the whole answer.
async fn post(address: SocketAddr, path: &str, headers: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: {}\r\nconnection: \
         close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The JSON that an answer ends with.
fn json(answer: &str) -> Value {
    let start = answer.find("\r\n\r\n").unwrap();
    let (from, to) = (answer[start..].find('{').unwrap(), answer.rfind('}').unwrap());
    serde_json::from_str(&answer[start + from..=to]).unwrap()
}

/// Calls a method of the sessions below `base` with an empty request, as a page does.
async fn call(address: SocketAddr, base: &str, method: &str) -> String {
    let path = format!("{base}/stepwell.v1.SessionService/{method}");
    post(address, &path, "content-type: application/grpc-web+proto\r\n", &[0; 5]).await
}

#[tokio::test]
async fn a_file_is_shown_beside_the_store_and_never_changed() {
    let (bytes, session_id) = exported().await;
    let id = session_id.to_string();
    let world = World::new(&[]).await;
    let opened = post(world.address, "/view?name=a.stepwell", "", &bytes).await;
    let address = json(&opened)["address"].as_str().unwrap().to_owned();
    let (base, session) = address.split_once("/s/").unwrap();
    assert_eq!(session, id);
    assert!(call(world.address, base, "ListSessions").await.contains(&id));
    assert!(!call(world.address, "", "ListSessions").await.contains(&id), "it is not in the store");
    for method in ["CreateSession", "CancelSession", "DeleteSessions", "SendMessage"] {
        let refused = call(world.address, base, method).await;
        assert!(refused.contains("grpc-status: 9") && refused.contains("read%20only"), "{refused}");
    }
    let page = get(world.address, &address, &[]).await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let again = post(world.address, "/view", "", &bytes).await;
    assert_eq!(json(&again)["address"], address, "the same file has the same address");
    world.stop().await;
}

#[tokio::test]
async fn what_is_no_file_or_no_longer_open_is_refused_in_words() {
    let world = World::new(&[]).await;
    let refused = post(world.address, "/view", "", b"no archive").await;
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    assert_eq!(json(&refused)["error"]["code"], "INVALID_ARGUMENT");
    let words = json(&refused)["error"]["message"].as_str().unwrap().to_owned();
    assert!(words.starts_with("the file was not opened: this is no exported session"), "{words}");
    let strange = post(world.address, "/view", "origin: http://evil.example\r\n", b"").await;
    assert!(strange.starts_with("HTTP/1.1 403 "), "{strange}");
    let gone = call(world.address, "/view/00ff", "ListSessions").await;
    assert!(gone.contains("grpc-status: 5") && gone.contains("not%20open%20here"), "{gone}");
    world.stop().await;
}
