//! Coming, staying, coming back and leaving.

use std::net::SocketAddr;
use std::time::Duration;

use stepwell_proto::v1::attach_request;
use stepwell_proto::v1::call_report::Outcome;
use stepwell_worker::host::HostError;
use tonic::Status;

use crate::script::{Gate, Host, ScriptedServer, assert_said, call, soon};

#[tokio::test]
async fn a_host_says_who_it_is_and_what_it_can_do() {
    let mut server = ScriptedServer::start().await;
    let _host = Host::start(&server.url(), Gate::new());
    let stream = server.stream().await;
    let hello = &stream.hello;
    assert_eq!((hello.name.as_str(), hello.concurrency), ("w", 2));
    assert!(hello.instance.len() == 16 && hello.held.is_empty(), "{hello:?}");
    let [tool] = hello.tools.as_slice() else { panic!("{hello:?}") };
    assert_eq!((tool.name.as_str(), tool.effect.as_str()), ("gate", "idempotent"));
    assert_eq!((tool.timeout_ms, tool.concurrency), (9_000, 3));
    assert_eq!(tool.parameters, r#"{"type":"object"}"#);
    assert_eq!(tool.output_schema, r#"{"type":"string"}"#);
}

#[tokio::test]
async fn heartbeats_come_as_the_server_asks() {
    let mut server = ScriptedServer::start().await;
    let _host = Host::start(&server.url(), Gate::new());
    let mut stream = server.stream().await;
    stream.welcome(Duration::from_millis(20), 0).await;
    let mut beats = 0;
    while beats < 10 {
        if let attach_request::Message::Heartbeat(beat) = stream.hear().await.unwrap() {
            assert_eq!(beat.running_calls, 0);
            beats += 1;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_waited_for() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let host = Host::start(&format!("http://{address}"), Gate::new());
    let mut server = ScriptedServer::at(address, None).await;
    let first = server.welcomed().await;
    let instance = first.hello.instance.clone();
    first.end_with(Status::unavailable("going down")).await;
    let again = server.welcomed().await;
    assert_eq!(again.hello.instance, instance, "it is the same process");
    drop(host);
}

#[tokio::test]
async fn a_refusal_ends_the_host_with_the_servers_words() {
    for status in [
        Status::invalid_argument("tool \"x\": its schema is no schema"),
        Status::unauthenticated("a token is needed"),
        Status::unimplemented("what is a worker?"),
    ] {
        let server = ScriptedServer::refusing(status.clone()).await;
        let error = Host::start(&server.url(), Gate::new()).end().await.unwrap_err();
        assert!(matches!(error, HostError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(status.message()), "{error}");
        assert!(error.to_string().contains(&server.url()), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_address_is_said_at_once() {
    for address in ["", "not an address", "127.0.0.1:7171", "/tmp/socket"] {
        let error = Host::start(address, Gate::new()).end().await.unwrap_err();
        assert!(matches!(error, HostError::Address { .. }), "{address:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_host_that_leaves_says_so_and_ends_its_calls_first() {
    let mut server = ScriptedServer::start().await;
    let host = Host::start(&server.url(), Gate::new());
    let mut stream = server.welcomed().await;
    stream.call(call(1, 10)).await;
    let is_output = |it| matches!(it, attach_request::Message::Output(_)).then_some(());
    soon(stream.until(is_output)).await;
    host.shutdown.cancel();
    let is_drain = |it| matches!(it, attach_request::Message::Drain(_)).then_some(());
    soon(stream.until(is_drain)).await;
    stream.call(call(2, 11)).await;
    assert_said(&stream.report().await, Outcome::NeverStarted, 11, "leaving");
    // The line breaks: it comes back to tell its last result.
    drop(stream);
    host.gate.release();
    let mut stream = server.welcomed().await;
    assert!(matches!(stream.hear().await, Some(attach_request::Message::Drain(_))));
    assert_said(&stream.report().await, Outcome::Ok, 10, "done");
    stream.ack(call(1, 10)).await;
    soon(async {
        while let Some(message) = stream.hear().await {
            assert!(matches!(message, attach_request::Message::Heartbeat(_)), "{message:?}");
        }
    })
    .await;
    drop(stream);
    assert_eq!(host.gate.starts(), 1);
    host.end().await.unwrap();
}

#[tokio::test]
async fn a_host_without_a_server_leaves_at_once() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let host = Host::start(&format!("http://{nowhere}"), Gate::new());
    host.shutdown.cancel();
    host.end().await.unwrap();
}
