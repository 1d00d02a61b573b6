//! What a web page in somebody's browser can do with the port: nothing.

use stepwell_ports::memory::MemoryStore;
use stepwell_proto::v1;
use stepwell_proto::v1::session_service_client::SessionServiceClient;
use stepwell_server::ServerOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Channel;

use crate::world::{World, within};

/// Status line, headers and body of the answer to a request over HTTP/1.
async fn asked(world: &World, method: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let request = format!("{method} /v1/sessions HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

#[tokio::test]
async fn a_page_of_another_site_gets_nothing_by_any_name() {
    let world = World::new(&[]).await;
    let here = world.address;
    let own = format!("host: {here}\r\norigin: http://{here}\r\n");
    for headers in [own, format!("host: localhost:{}\r\n", here.port())] {
        let answer = asked(&world, "GET", &headers).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let rebound = format!("host: evil.example:{}\r\n", here.port());
    let cross_site = format!("host: {here}\r\norigin: http://evil.example\r\n");
    for (headers, says) in [(rebound, "--allow-host"), (cross_site, "a page of")] {
        for method in ["GET", "POST", "OPTIONS"] {
            let answer = asked(&world, method, &headers).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(answer.contains("PERMISSION_DENIED") && answer.contains(says), "{answer}");
            assert!(answer.contains("evil.example") && !answer.contains("access-control"));
        }
    }
    world.stop().await;
}

/// Lists sessions over gRPC under another name, as a page with that origin would.
async fn list_as(world: &World, name: &str, origin: Option<&str>) -> Result<(), tonic::Status> {
    let connection = Channel::from_shared(format!("http://{}", world.address)).unwrap();
    let connection = connection.origin(format!("http://{name}").parse().unwrap());
    let mut client = SessionServiceClient::new(connection.connect().await.unwrap());
    let mut request = tonic::Request::new(v1::ListSessionsRequest::default());
    if let Some(origin) = origin {
        request.metadata_mut().insert("origin", origin.parse().unwrap());
    }
    client.list_sessions(request).await.map(|_| ())
}

#[tokio::test]
async fn grpc_is_guarded_in_its_own_words_and_allowed_names_are_let_in() {
    let options =
        ServerOptions { allowed_hosts: vec!["gpu.example".into()], ..ServerOptions::default() };
    let world = World::over(std::sync::Arc::new(MemoryStore::new()), &[], options).await;
    for name in ["localhost:7171", "gpu.example:7171", "192.168.1.5", "[::1]:7171"] {
        list_as(&world, name, None).await.unwrap();
    }
    list_as(&world, "localhost", Some("http://gpu.example")).await.unwrap();
    let cross_site = list_as(&world, "localhost", Some("http://evil.example")).await;
    for refused in [list_as(&world, "evil.example", None).await, cross_site] {
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
        assert!(status.message().contains("evil.example"), "{status}");
        assert!(status.message().contains("--allow-host"), "{status}");
    }
    world.stop().await;
}
