//! Calls that come in, are asked about, and end.

use std::time::Duration;

use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{Call, attach_request};

use crate::script::{Gate, Host, ScriptedServer, Stream, assert_said, call, soon};

async fn connected(gate: Gate) -> (ScriptedServer, Stream, Host) {
    let mut server = ScriptedServer::start().await;
    let host = Host::start(&server.url(), gate);
    let mut stream = server.welcomed().await;
    assert_eq!(stream.credit().await, 2);
    (server, stream, host)
}

/// Waits until the call has begun.
async fn began(stream: &mut Stream, step: u32, fence: u64) {
    let chunk = soon(stream.until(|message| match message {
        attach_request::Message::Output(chunk) => Some(chunk),
        _ => None,
    }))
    .await;
    assert_eq!((chunk.text, chunk.fence), (format!("began {{\"step\":{step}}}"), fence));
}

#[tokio::test]
async fn a_call_runs_and_its_place_is_granted_again() {
    let (_server, mut stream, host) = connected(Gate::new()).await;
    stream.call(call(1, 10)).await;
    began(&mut stream, 1, 10).await;
    assert!(host.root.path().join("workspaces/S").is_dir());
    host.gate.release();
    assert_said(&stream.report().await, Outcome::Ok, 10, "done S/1.1");
    assert_eq!(stream.credit().await, 1);
}

#[tokio::test]
async fn what_cannot_run_here_never_starts() {
    let (_server, mut stream, host) = connected(Gate::new()).await;
    let mut fence = 0;
    let mut bad = |change: fn(&mut Call)| {
        fence += 1;
        let mut call = call(1, fence);
        change(&mut call);
        call
    };
    let calls = [
        bad(|it| it.tool = "saw".to_owned()),
        bad(|it| it.workspace = "../S".to_owned()),
        bad(|it| it.workspace = String::new()),
    ];
    for call in calls {
        let fence = call.fence;
        stream.call(call).await;
        assert_said(&stream.report().await, Outcome::NeverStarted, fence, "no ");
    }
    assert_eq!(host.gate.starts(), 0);
    // It was not started, so it may be started later.
    stream.call(call(1, 9)).await;
    began(&mut stream, 1, 9).await;
}

#[tokio::test]
async fn more_calls_than_places_are_refused() {
    let (_server, mut stream, host) = connected(Gate::new()).await;
    for step in 1..=2 {
        stream.call(call(step, u64::from(step))).await;
        began(&mut stream, step, u64::from(step)).await;
    }
    stream.call(call(3, 3)).await;
    assert_said(&stream.report().await, Outcome::NeverStarted, 3, "no free place");
    assert_eq!(host.gate.starts(), 2);
}

#[tokio::test]
async fn a_call_that_comes_twice_is_started_once() {
    let (_server, mut stream, host) = connected(Gate::new()).await;
    stream.call(call(1, 10)).await;
    began(&mut stream, 1, 10).await;
    stream.call(call(1, 11)).await;
    assert_said(&stream.report().await, Outcome::Running, 11, "");
    host.gate.release();
    assert_said(&stream.report().await, Outcome::Ok, 11, "done");
    stream.ack(call(1, 11)).await;
    stream.call(call(1, 12)).await;
    assert_said(&stream.report().await, Outcome::Ok, 12, "done");
    assert_eq!(host.gate.starts(), 1);
    // Another attempt is another call.
    stream.call(Call { attempt: 2, ..call(1, 13) }).await;
    began(&mut stream, 1, 13).await;
}

#[tokio::test]
async fn a_question_is_answered_with_what_is_known() {
    let (_server, mut stream, host) = connected(Gate::new()).await;
    stream.probe(call(1, 10)).await;
    assert_said(&stream.report().await, Outcome::NeverStarted, 10, "");
    stream.call(call(1, 11)).await;
    began(&mut stream, 1, 11).await;
    stream.probe(call(1, 12)).await;
    assert_said(&stream.report().await, Outcome::Running, 12, "");
    host.gate.release();
    assert_said(&stream.report().await, Outcome::Ok, 12, "done");
    stream.probe(call(1, 13)).await;
    assert_said(&stream.report().await, Outcome::Ok, 13, "done");
}

#[tokio::test]
async fn a_cancel_counts_with_its_fence_only() {
    let (_server, mut stream, host) = connected(Gate::new()).await;
    stream.call(call(1, 10)).await;
    began(&mut stream, 1, 10).await;
    stream.cancel(call(1, 9)).await;
    stream.cancel(call(2, 10)).await;
    stream.probe(call(1, 11)).await;
    assert_said(&stream.report().await, Outcome::Running, 11, "");
    stream.cancel(call(1, 11)).await;
    assert_said(&stream.report().await, Outcome::Error, 11, "cancelled");
    assert_eq!(host.gate.starts(), 1);
}

#[tokio::test]
async fn what_was_not_acknowledged_is_repeated_after_a_break() {
    let (mut server, mut stream, host) = connected(Gate::new()).await;
    for step in 1..=2 {
        stream.call(call(step, u64::from(step))).await;
        began(&mut stream, step, u64::from(step)).await;
    }
    host.gate.release();
    let first = stream.report().await;
    drop(stream);
    let stream = server.stream().await;
    let mut held: Vec<(String, u64)> =
        stream.hello.held.iter().map(|it| (it.call_id.clone(), it.fence)).collect();
    held.sort();
    assert_eq!(held, [("1.1".to_owned(), 1), ("2.1".to_owned(), 2)]);
    let mut stream = stream;
    stream.welcome(Duration::from_millis(100), 0).await;
    assert_eq!(stream.credit().await, 1, "for the place that is free");
    assert_eq!(stream.report().await, first);
    stream.ack(call(if first.fence == 1 { 1 } else { 2 }, first.fence)).await;
    // Heard and answered, so the acknowledgement before it was heard too.
    stream.probe(call(9, 90)).await;
    stream.report().await;
    drop(stream);
    let stream = server.stream().await;
    assert_eq!(stream.hello.held.len(), 1, "{:?}", stream.hello.held);
    assert_eq!(stream.hello.held[0].fence, 3 - first.fence);
}

#[tokio::test]
async fn a_server_that_never_acknowledges_gets_places_all_the_same() {
    let (mut server, mut stream, host) = connected(Gate::new()).await;
    for step in 1..=10 {
        stream.call(call(step, u64::from(step))).await;
        began(&mut stream, step, u64::from(step)).await;
        host.gate.release();
        assert_said(&stream.report().await, Outcome::Ok, u64::from(step), "done ");
        assert_eq!(stream.credit().await, 1);
    }
    // All of them are still there.
    stream.end_with(tonic::Status::unavailable("a break")).await;
    let mut stream = server.welcomed().await;
    for step in 1..=10 {
        assert_said(&stream.report().await, Outcome::Ok, step, "done ");
    }
}

#[tokio::test]
async fn a_report_is_cut_to_what_the_server_takes() {
    let mut server = ScriptedServer::start().await;
    let host = Host::start(&server.url(), Gate::saying("x".repeat(100_000)));
    let mut stream = server.stream().await;
    stream.welcome(Duration::from_millis(100), 50_000).await;
    stream.call(call(1, 10)).await;
    host.gate.release();
    let report = stream.report().await;
    assert_said(&report, Outcome::Ok, 10, "[cut: the output has 100,006 bytes");
    assert!(report.output.len() < 50_000);
}
