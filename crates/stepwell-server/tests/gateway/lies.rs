//! Workers that say what cannot be. They hurt nothing but their own stream.

use stepwell_ports::ToolGateway;
use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{
    AttachRequest, Call, CallReport, Credit, Heartbeat, Hello, OutputChunk, attach_request,
};
use stepwell_server::gateway::GatewayOptions;
use tonic::Code;

use crate::world::{RawWorker, World, assert_ok, held, hello, patient, report, request};

const LIES_MAX: usize = 16;

#[tokio::test]
async fn a_report_counts_only_with_its_fence_session_call_and_attempt() {
    let world = World::new(patient());
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    let right = report(&call, Outcome::Ok, "lie");
    let other_session = stepwell_core::SessionId::from_random([8; 16]).to_string();
    for wrong in [
        CallReport { fence: call.fence - 1, ..right.clone() },
        CallReport { fence: call.fence + 1, ..right.clone() },
        CallReport { fence: 0, ..right.clone() },
        CallReport { attempt: 2, ..right.clone() },
        CallReport { call_id: "1.2".to_owned(), ..right.clone() },
        CallReport { call_id: "one".to_owned(), ..right.clone() },
        CallReport { session_id: other_session, ..right.clone() },
        CallReport { session_id: "\u{0}".to_owned(), ..right.clone() },
        CallReport { outcome: 0, ..right.clone() },
        CallReport { outcome: 77, ..right.clone() },
        CallReport::default(),
    ] {
        worker.report(wrong).await;
    }
    worker.report(report(&call, Outcome::Ok, "true")).await;
    assert_ok(&running.end().await, "true");
}

#[tokio::test]
async fn a_worker_cannot_end_anothers_call() {
    let world = World::new(patient());
    let mut honest = RawWorker::join(&world.url(), hello("honest", "1")).await.unwrap();
    honest.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = honest.call().await;
    let mut late_reports = world.gateway.late_reports().unwrap();
    // It even claims to have brought the call back.
    let claims = Hello { held: vec![held(&call)], ..hello("liar", "1") };
    let mut liar = RawWorker::join(&world.url(), claims).await.unwrap();
    liar.output(&call, "lie").await;
    liar.report(report(&call, Outcome::Ok, "lie")).await;
    assert_eq!(liar.acknowledged().await, call.fence, "void: it may forget it");
    honest.output(&call, "true").await;
    running.until_output("true").await;
    honest.report(report(&call, Outcome::Ok, "true")).await;
    assert_ok(&running.end().await, "true");
    assert!(late_reports.try_recv().is_err());
}

#[tokio::test]
async fn a_worker_that_keeps_lying_is_cut_off() {
    let world = World::new(patient());
    let mut liar = RawWorker::join(&world.url(), hello("liar", "1")).await.unwrap();
    liar.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = liar.call().await;
    for fence in 0..LIES_MAX as u64 {
        let lie = report(&Call { fence, ..call.clone() }, Outcome::Ok, "lie");
        if !liar.try_say(attach_request::Message::Report(lie)).await {
            break;
        }
    }
    let (code, message) = liar.closed().await;
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("16 times"), "{message}");
    // What it really runs is not lost by that.
    let back = Hello { held: vec![held(&call)], ..hello("liar", "1") };
    let worker = RawWorker::join(&world.url(), back).await.unwrap();
    worker.report(report(&call, Outcome::Ok, "true")).await;
    assert_ok(&running.end().await, "true");
}

#[tokio::test]
async fn running_and_never_started_is_neither() {
    let world = World::new(patient());
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    worker.report(report(&call, Outcome::Running, "")).await;
    worker.report(report(&call, Outcome::NeverStarted, "")).await;
    let reason = running.lost().await;
    assert!(reason.contains("no longer knows"), "{reason}");
}

#[tokio::test]
async fn the_first_last_word_counts() {
    let world = World::new(patient());
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    worker.report(report(&call, Outcome::Ok, "first")).await;
    worker.report(report(&call, Outcome::Error, "second")).await;
    worker.report(report(&call, Outcome::NeverStarted, "third")).await;
    assert_ok(&running.end().await, "first");
    assert_eq!(worker.acknowledged().await, call.fence);
}

#[tokio::test]
async fn a_flood_does_not_keep_others_waiting() {
    let world = World::new(patient());
    let mut honest = RawWorker::join(&world.url(), hello("honest", "1")).await.unwrap();
    honest.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = honest.call().await;
    let mut noisy = RawWorker::join(&world.url(), hello("noisy", "1")).await.unwrap();
    noisy.credit(1).await;
    let flooded = world.run(request("a", 2)).await;
    let its_call = noisy.call().await;
    let chunk = OutputChunk {
        session_id: its_call.session_id.clone(),
        call_id: its_call.call_id.clone(),
        fence: its_call.fence,
        text: "x".repeat(10_000),
    };
    for _ in 0..1_000 {
        noisy.say(attach_request::Message::Output(chunk.clone())).await;
        noisy.say(attach_request::Message::Heartbeat(Heartbeat { running_calls: 9 })).await;
    }
    honest.report(report(&call, Outcome::Ok, "in between")).await;
    assert_ok(&running.end().await, "in between");
    noisy.report(report(&its_call, Outcome::Ok, "after the flood")).await;
    assert!(flooded.output().len() < 10_000 * 1_000, "not all of it is handed on");
    assert_ok(&flooded.end().await, "after the flood");
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_stream_with_the_limit_named() {
    let world = World::new(GatewayOptions { message_bytes_max: 100_000, ..patient() });
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    assert_eq!(worker.welcome.message_bytes_max, 100_000);
    let huge = CallReport { output: "x".repeat(200_000), ..CallReport::default() };
    worker.report(huge).await;
    let (code, message) = worker.closed().await;
    assert_eq!(code, Code::OutOfRange);
    assert!(message.contains("100000"), "{message}");
    RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
}

#[tokio::test]
async fn what_means_nothing_is_passed_over() {
    let world = World::new(patient());
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    let nowhere = OutputChunk {
        session_id: "\u{fffd}".repeat(1_000),
        call_id: "x".to_owned(),
        fence: u64::MAX,
        text: "y".to_owned(),
    };
    worker.say(attach_request::Message::Output(nowhere)).await;
    worker.say(attach_request::Message::Credit(Credit { calls: 0 })).await;
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    worker.report(report(&call, Outcome::Ok, "fine")).await;
    assert_ok(&running.end().await, "fine");
    // A message of a release to come.
    assert!(worker.say_nothing().await);
    assert!(world.gateway.offers("a"));
}

impl RawWorker {
    async fn say_nothing(&self) -> bool {
        self.send(AttachRequest { message: None }).await
    }
}
