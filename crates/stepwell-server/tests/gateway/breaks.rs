//! Connections that break, fall silent or come back.

use std::time::Duration;

use stepwell_ports::ToolReport;
use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{Hello, attach_response};
use stepwell_server::gateway::GatewayOptions;
use tonic::Code;

use crate::proxy::Proxy;
use crate::world::{
    RawWorker, SHORT, World, assert_ok, busy, held, hello, patient, report, request, soon,
};

/// As if the worker's connection had broken.
async fn broken(world: &World, worker: RawWorker) {
    drop(worker);
    world.until(|it| it.workers().is_empty()).await;
}

#[tokio::test]
async fn a_worker_that_does_not_come_back_loses_its_call() {
    let world = World::new(GatewayOptions { reconnect_grace: SHORT, ..patient() });
    let (worker, running, _) = busy(&world).await;
    drop(worker);
    let reason = running.lost().await;
    assert!(reason.contains("worker w") && reason.contains("did not come back"), "{reason}");
    assert!(world.gateway.workers().is_empty());
}

#[tokio::test]
async fn a_silent_worker_is_noticed_within_the_lease() {
    let world = World::new(GatewayOptions { lease: SHORT, ..patient() });
    let (mut worker, running, _) = busy(&world).await;
    let reason = running.lost().await;
    assert!(reason.contains("no sign of life"), "{reason}");
    assert_eq!(worker.closed().await.0, Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_vanished_host_is_noticed_within_the_lease() {
    let world = World::new(GatewayOptions { lease: SHORT, reconnect_grace: SHORT, ..patient() });
    let proxy = Proxy::to(world.address).await;
    let mut worker = RawWorker::join(&proxy.url, hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    worker.call().await;
    // No packet passes and nothing is closed.
    proxy.silence();
    let reason = running.lost().await;
    assert!(reason.contains("worker w"), "{reason}");
}

#[tokio::test]
async fn heartbeats_keep_a_call_longer_than_the_lease() {
    // Each beat is heard within a lease; the call takes four of them.
    let lease = Duration::from_secs(2);
    let world = World::new(GatewayOptions { lease, ..patient() });
    let (worker, running, call) = busy(&world).await;
    let twice_as_long = tokio::time::sleep_until(tokio::time::Instant::now() + 2 * lease);
    worker.beating(lease / 10, twice_as_long).await;
    worker.report(report(&call, Outcome::Ok, "long")).await;
    assert_ok(&running.end().await, "long");
}

#[tokio::test]
async fn a_worker_that_comes_back_with_its_call_goes_on() {
    let world = World::new(patient());
    let (worker, running, call) = busy(&world).await;
    broken(&world, worker).await;
    let back = Hello { held: vec![held(&call)], ..hello("w", "1") };
    let mut worker = RawWorker::join(&world.url(), back).await.unwrap();
    worker.output(&call, "still here").await;
    running.until_output("still here").await;
    worker.report(report(&call, Outcome::Ok, "kept")).await;
    assert_ok(&running.end().await, "kept");
    assert_eq!(worker.acknowledged().await, call.fence);
}

#[tokio::test]
async fn a_worker_that_comes_back_without_its_call_is_asked() {
    let world = World::new(patient());
    let (worker, running, call) = busy(&world).await;
    broken(&world, worker).await;
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    assert_eq!(worker.asked().await, call.fence);
    worker.report(report(&call, Outcome::Running, "")).await;
    worker.report(report(&call, Outcome::Ok, "late but fine")).await;
    assert_ok(&running.end().await, "late but fine");
}

#[tokio::test]
async fn a_call_that_got_lost_on_its_way_is_sent_again_and_is_no_new_attempt() {
    let world = World::new(patient());
    let (worker, running, call) = busy(&world).await;
    broken(&world, worker).await;
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    assert_eq!(worker.asked().await, call.fence);
    worker.report(report(&call, Outcome::NeverStarted, "it did not arrive")).await;
    assert_eq!(worker.call().await, call);
    worker.report(report(&call, Outcome::Ok, "second way")).await;
    assert_ok(&running.end().await, "second way");
}

#[tokio::test]
async fn what_showed_output_did_begin() {
    let world = World::new(patient());
    let (worker, running, call) = busy(&world).await;
    worker.output(&call, "x").await;
    running.until_output("x").await;
    broken(&world, worker).await;
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    worker.asked().await;
    worker.report(report(&call, Outcome::NeverStarted, "honest")).await;
    let reason = running.lost().await;
    assert!(reason.contains("no longer knows"), "{reason}");
}

#[tokio::test]
async fn another_process_of_the_name_loses_the_call_at_once() {
    let world = World::new(patient());
    let (worker, running, _) = busy(&world).await;
    broken(&world, worker).await;
    let _next = RawWorker::join(&world.url(), hello("w", "2")).await.unwrap();
    let reason = running.lost().await;
    assert!(reason.contains("started again"), "{reason}");
}

#[tokio::test]
async fn the_newer_stream_of_a_process_replaces_the_older() {
    let world = World::new(patient());
    let (mut old, running, call) = busy(&world).await;
    let back = Hello { held: vec![held(&call)], ..hello("w", "1") };
    let worker = RawWorker::join(&world.url(), back).await.unwrap();
    assert_eq!(old.closed().await.0, Code::Aborted);
    worker.report(report(&call, Outcome::Ok, "from the new one")).await;
    assert_ok(&running.end().await, "from the new one");
    assert_eq!(world.gateway.workers().len(), 1);
}

#[tokio::test]
async fn a_place_outlives_a_break_that_comes_before_the_call() {
    let world = World::new(patient());
    let worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let slot = world.reserve(&request("a", 1)).await;
    broken(&world, worker).await;
    let running = world.run_on(slot, request("a", 1));
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let call = worker.call().await;
    worker.report(report(&call, Outcome::Ok, "one attempt")).await;
    assert_ok(&running.end().await, "one attempt");
}

#[tokio::test]
async fn a_place_of_a_worker_that_is_gone_starts_nothing() {
    let world = World::new(GatewayOptions { reconnect_grace: SHORT, ..patient() });
    let worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let slot = world.reserve(&request("a", 1)).await;
    broken(&world, worker).await;
    let ended = world.run_on(slot, request("a", 1)).end().await;
    assert!(matches!(ended, ToolReport::NeverStarted { .. }), "{ended:?}");
}

#[tokio::test]
async fn a_cancel_reaches_a_worker_that_was_away() {
    let world = World::new(patient());
    let (worker, running, call) = busy(&world).await;
    broken(&world, worker).await;
    running.cancel.cancel();
    let back = Hello { held: vec![held(&call)], ..hello("w", "1") };
    let mut worker = RawWorker::join(&world.url(), back).await.unwrap();
    assert_eq!(worker.cancelled().await, call.fence);
    worker.report(report(&call, Outcome::Error, "stopped")).await;
    let ended = running.end().await;
    assert!(matches!(ended, ToolReport::Finished { .. }), "{ended:?}");
}

#[tokio::test]
async fn a_closing_server_tells_its_workers_to_come_back() {
    let world = World::new(patient());
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    world.gateway.close();
    assert_eq!(worker.closed().await.0, Code::Unavailable);
    let refused = RawWorker::join(&world.url(), hello("w", "1")).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn a_worker_that_does_not_read_is_not_waited_for() {
    let world = World::new(GatewayOptions { cancel_grace: SHORT, ..patient() });
    let worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(4).await;
    let mut request = request("a", 1);
    // More than the pipe takes.
    request.arguments = format!("{{\"a\":\"{}\"}}", "x".repeat(20_000_000));
    let running = world.run(request).await;
    world.until(|it| it.workers()[0].running_calls == 1).await;
    running.cancel.cancel();
    let reason = worker.beating(SHORT / 10, running.lost()).await;
    assert!(reason.contains("was cancelled"), "{reason}");
}

#[tokio::test]
async fn the_first_word_after_the_welcome_is_not_lost() {
    let world = World::new(patient());
    let request = request("a", 1);
    let run = world.run(request);
    let join = async {
        let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
        worker.credit(1).await;
        let message = worker.hear().await;
        (worker, message)
    };
    let (_running, (_worker, message)) = soon(Box::pin(async { tokio::join!(run, join) })).await;
    assert!(matches!(message, attach_response::Message::Call(_)), "{message:?}");
}
