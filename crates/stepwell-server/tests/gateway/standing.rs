//! What people are told of calls beside the log: workers that are away, calls that are alive after all.

use std::time::Duration;

use stepwell_core::SessionId;
use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{Call, Hello};
use stepwell_server::gateway::{GatewayOptions, WorkerGateway};

use crate::world::{RawWorker, SHORT, World, busy, held, hello, patient, report, request, soon};

fn session_id() -> SessionId {
    request("a", 1).session_id
}

/// What is told of the session's calls; empty for nothing.
fn news(gateway: &WorkerGateway) -> String {
    gateway.news(None).get(&session_id()).cloned().unwrap_or_default()
}

fn holder(gateway: &WorkerGateway, attempt: u32) -> Option<String> {
    gateway.holder(session_id(), "1.1".parse().unwrap(), attempt)
}

/// A worker that lost its call to the lease and is back, with it.
async fn back_with_its_call(world: &World) -> (RawWorker, Call) {
    let (mut worker, running, call) = busy(world).await;
    running.lost().await;
    worker.closed().await;
    world.until(|it| it.workers().is_empty()).await;
    assert_eq!(holder(&world.gateway, 1), None, "nobody knows whether it lives");
    let again = Hello { held: vec![held(&call)], ..hello("w", "1") };
    (RawWorker::join(&world.url(), again).await.unwrap(), call)
}

#[tokio::test]
async fn of_a_call_that_a_connected_worker_runs_there_is_nothing_to_say() {
    let world = World::new(GatewayOptions { heartbeat: Duration::from_secs(600), ..patient() });
    let (_worker, _running, _) = busy(&world).await;
    assert_eq!(news(&world.gateway), "");
    assert_eq!(holder(&world.gateway, 1).as_deref(), Some("w@1"));
    assert_eq!(holder(&world.gateway, 2), None, "that is another attempt");
}

#[tokio::test]
async fn a_worker_that_is_gone_is_named_with_the_end_of_its_lease() {
    let world = World::new(patient());
    let (worker, _running, _) = busy(&world).await;
    drop(worker);
    world.until(|it| it.workers().is_empty()).await;
    let news = news(&world.gateway);
    for part in [
        "worker w@1 is gone, seen last at ",
        "its lease ends in 1",
        " s: then call 1.1 counts as lost",
    ] {
        assert!(news.contains(part), "{part:?} is not in {news:?}");
    }
    let of_one = world.gateway.news(Some(session_id()));
    assert!(of_one.keys().eq([&session_id()]), "{of_one:?}");
    assert!(world.gateway.news(Some(SessionId::from_random([8; 16]))).is_empty());
    assert_eq!(holder(&world.gateway, 1), None);
}

#[tokio::test]
async fn a_silent_worker_is_named_before_its_lease_ends() {
    let world = World::new(patient());
    let (worker, _running, _) = busy(&world).await;
    world.until(|it| news(it).contains("worker w@1 is silent, seen last at ")).await;
    assert!(news(&world.gateway).contains("its lease ends in 1"), "{}", news(&world.gateway));
    let beat = worker.beating(Duration::from_millis(10), world.until(|it| news(it).is_empty()));
    beat.await;
}

#[tokio::test]
async fn a_worker_that_did_not_come_back_to_a_new_server_is_named() {
    let mut world = World::new(patient());
    let (worker, running, call) = busy(&world).await;
    drop(running);
    world.restart(patient());
    drop(worker);
    let running = world.probe("w@1", request("a", 1));
    let absent =
        "worker w@1 has not come back to this server, and if it does not, call 1.1 is lost in 1";
    world.until(|it| news(it).contains(absent)).await;
    let again = Hello { held: vec![held(&call)], ..hello("w", "1") };
    let mut worker = RawWorker::join(&world.url(), again).await.unwrap();
    let fence = worker.asked().await;
    assert!(!news(&world.gateway).contains("has not come back"), "{}", news(&world.gateway));
    worker.report(report(&Call { fence, ..call }, Outcome::Ok, "done")).await;
    running.end().await;
    assert_eq!(worker.acknowledged().await, fence);
    assert_eq!((news(&world.gateway).as_str(), holder(&world.gateway, 1)), ("", None));
}

#[tokio::test]
async fn a_call_that_was_given_up_and_is_back_is_alive_until_its_report_is_settled() {
    let quick = GatewayOptions { lease: SHORT, reconnect_grace: SHORT, ..patient() };
    let world = World::new(quick);
    let mut late = world.gateway.late_reports().unwrap();
    let (mut worker, call) = back_with_its_call(&world).await;
    let alive = "worker w@1 is connected and still has call 1.1: its result is awaited";
    let ended = worker.beating(SHORT / 10, async {
        assert_eq!(holder(&world.gateway, 1).as_deref(), Some("w@1"));
        assert_eq!(news(&world.gateway), alive);
        worker.report(report(&call, Outcome::Ok, "done")).await;
        let late = soon(late.recv()).await.unwrap();
        // Not in the log yet: it still is the answer.
        assert_eq!(holder(&world.gateway, 1).as_deref(), Some("w@1"));
        late.acknowledge();
        (holder(&world.gateway, 1), news(&world.gateway))
    });
    assert_eq!(ended.await, (None, String::new()));
    assert_eq!(worker.acknowledged().await, call.fence);
}
