//! A call's life on a connection that holds: places, credits, order, limits.

use std::time::Duration;

use futures_util::FutureExt;
use stepwell_core::Effect;
use stepwell_core::event::ToolOutcome;
use stepwell_ports::{ToolGateway, ToolReport};
use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{CallReport, Drain, attach_request};
use stepwell_server::gateway::GatewayOptions;
use tokio::task::JoinSet;

use crate::world::{
    RawWorker, SHORT, World, assert_ok, hello, offer, patient, report, request, soon, spec,
};

async fn joined(world: &World) -> RawWorker {
    RawWorker::join(&world.url(), hello("w", "1")).await.unwrap()
}

#[tokio::test]
async fn a_call_goes_out_and_its_report_comes_back() {
    let world = World::new(patient());
    let mut worker = joined(&world).await;
    worker.credit(1).await;
    let request = request("a", 3);
    let running = world.run(request.clone()).await;
    assert_eq!(running.label, "w@1");
    let call = worker.call().await;
    assert_eq!(call.session_id, request.session_id.to_string());
    assert_eq!((call.call_id.as_str(), call.attempt, call.tool.as_str()), ("3.1", 1, "a"));
    assert_eq!(call.idempotency_key, format!("{}/3.1", request.session_id));
    assert_eq!((call.arguments.as_str(), call.timeout_ms), (r#"{"a":1}"#, 3_600_000));
    assert_eq!(call.workspace, "work");
    worker.output(&call, "half ").await;
    worker.output(&call, "done").await;
    running.until_output("half done").await;
    let full_output = vec![0xff, 0x00].into();
    worker.report(CallReport { full_output, ..report(&call, Outcome::Ok, "fine") }).await;
    let (outcome, output, duration_ms) = (ToolOutcome::Ok, "fine".to_owned(), 5);
    let full_output = Some(vec![0xff, 0x00]);
    let expected = ToolReport::Finished { outcome, output, full_output, duration_ms };
    assert_eq!(running.end().await, expected);
    assert_eq!(worker.acknowledged().await, call.fence);
}

#[tokio::test]
async fn an_error_and_a_refusal_are_told_apart() {
    let world = World::new(patient());
    let mut worker = joined(&world).await;
    worker.credit(2).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    worker.report(report(&call, Outcome::Error, "no such file")).await;
    let ended = running.end().await;
    assert!(
        matches!(&ended, ToolReport::Finished { outcome: ToolOutcome::Error, output, .. } if output == "no such file"),
        "{ended:?}"
    );
    assert_eq!(worker.acknowledged().await, call.fence);
    let running = world.run(request("a", 2)).await;
    let call = worker.call().await;
    worker.report(report(&call, Outcome::NeverStarted, "no room")).await;
    let ended = running.end().await;
    assert!(
        matches!(&ended, ToolReport::NeverStarted { reason } if reason.contains("no room")),
        "{ended:?}"
    );
}

#[tokio::test]
async fn without_a_credit_there_is_no_place() {
    let world = World::new(patient());
    let request = request("a", 1);
    let mut reserve = Box::pin(world.gateway.reserve(&request));
    assert!(reserve.as_mut().now_or_never().is_none());
    assert!(!world.gateway.offers("a"), "so that the session can say why it waits");
    let worker = joined(&world).await;
    assert!(reserve.as_mut().now_or_never().is_none());
    assert!(world.gateway.offers("a"));
    worker.credit(1).await;
    assert_eq!(soon(reserve).await.worker, "w@1");
}

#[tokio::test]
async fn more_credit_than_capacity_is_not_believed() {
    let world = World::new(patient());
    let one = stepwell_proto::v1::Hello { concurrency: 1, ..hello("w", "1") };
    let worker = RawWorker::join(&world.url(), one).await.unwrap();
    worker.credit(u32::MAX).await;
    worker.credit(u32::MAX).await;
    let _slot = world.reserve(&request("a", 1)).await;
    let second = request("a", 2);
    assert!(world.gateway.reserve(&second).now_or_never().is_none());
}

#[tokio::test]
async fn a_place_that_is_not_used_is_given_back() {
    let world = World::new(patient());
    let worker = joined(&world).await;
    worker.credit(1).await;
    let slot = world.reserve(&request("a", 1)).await;
    let (second, third) = (request("a", 2), request("b", 3));
    let mut waits = Box::pin(world.gateway.reserve(&second));
    let mut waits_too = Box::pin(world.gateway.reserve(&third));
    assert!(waits.as_mut().now_or_never().is_none());
    assert!(waits_too.as_mut().now_or_never().is_none());
    // Granted to the one that waits longest, which is dropped before it looks.
    drop(slot);
    assert!(waits_too.as_mut().now_or_never().is_none());
    drop(waits);
    assert_eq!(soon(waits_too).await.worker, "w@1");
    let _again = world.reserve(&request("a", 4)).await;
}

#[tokio::test]
async fn places_go_to_those_who_wait_longest() {
    let world = World::new(patient());
    let worker = joined(&world).await;
    let mut waiting = JoinSet::new();
    for (step, tool) in [(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "a")] {
        let (gateway, request) = (world.gateway.clone(), request(tool, step));
        let mut reserve = Box::pin(async move { (step, gateway.reserve(&request).await) });
        // In the queue now, in this order.
        assert!(reserve.as_mut().now_or_never().is_none());
        waiting.spawn(reserve);
    }
    let mut order = Vec::new();
    worker.credit(1).await;
    while let Some(granted) = soon(waiting.join_next()).await {
        let (step, slot) = granted.unwrap();
        order.push(step);
        drop(slot);
    }
    assert_eq!(order, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_tools_own_limit_holds() {
    let world = World::new(patient());
    let mut one = hello("w", "1");
    one.tools[0].concurrency = 1;
    let mut worker = RawWorker::join(&world.url(), one).await.unwrap();
    worker.credit(4).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    let second = request("a", 2);
    let mut waits = Box::pin(world.gateway.reserve(&second));
    assert!(waits.as_mut().now_or_never().is_none());
    let _other_tool = world.reserve(&request("b", 3)).await;
    worker.report(report(&call, Outcome::Ok, "")).await;
    assert_ok(&running.end().await, "");
    soon(waits).await;
}

#[tokio::test]
async fn the_least_busy_worker_is_taken() {
    let world = World::new(patient());
    let first = RawWorker::join(&world.url(), hello("one", "1")).await.unwrap();
    let second = RawWorker::join(&world.url(), hello("two", "1")).await.unwrap();
    second.credit(3).await;
    assert_eq!(world.reserve(&request("a", 1)).await.worker, "two@1");
    first.credit(1).await;
    let mut slots = Vec::new();
    for step in 2..6 {
        slots.push(world.reserve(&request("a", step)).await);
    }
    let mut labels: Vec<&str> = slots.iter().map(|it| it.worker.as_str()).collect();
    assert_eq!(labels[..2], ["two@1", "two@1"]);
    labels.sort_unstable();
    assert_eq!(labels, ["one@1", "two@1", "two@1", "two@1"]);
}

#[tokio::test]
async fn a_call_over_its_time_is_cancelled_and_then_lost() {
    let quick = GatewayOptions { timeout_grace: SHORT, cancel_grace: SHORT, ..patient() };
    let world = World::new(quick);
    let mut worker = joined(&world).await;
    worker.credit(1).await;
    let mut request = request("a", 1);
    request.tool.timeout_ms = 1;
    let running = world.run(request).await;
    let call = worker.call().await;
    assert_eq!(call.timeout_ms, 1, "the deadline travels with the call");
    assert_eq!(worker.cancelled().await, call.fence);
    let reason = running.lost().await;
    assert!(reason.contains("time limit"), "{reason}");
}

#[tokio::test]
async fn an_endless_time_limit_is_sane() {
    let world = World::new(patient());
    let mut worker = joined(&world).await;
    worker.credit(1).await;
    let mut request = request("a", 1);
    request.tool.timeout_ms = u64::MAX;
    let running = world.run(request).await;
    let call = worker.call().await;
    assert_eq!(Duration::from_millis(call.timeout_ms), Duration::from_secs(30 * 24 * 60 * 60));
    worker.report(report(&call, Outcome::Ok, "ok")).await;
    assert_ok(&running.end().await, "ok");
}

#[tokio::test]
async fn a_cancelled_call_ends_with_what_its_worker_says() {
    let world = World::new(patient());
    let mut worker = joined(&world).await;
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    running.cancel.cancel();
    assert_eq!(worker.cancelled().await, call.fence);
    worker.report(report(&call, Outcome::Error, "cancelled")).await;
    let ended = running.end().await;
    assert!(matches!(&ended, ToolReport::Finished { output, .. } if output == "cancelled"));
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_was_sent_never_starts() {
    let world = World::new(patient());
    let worker = joined(&world).await;
    worker.credit(1).await;
    let slot = world.reserve(&request("a", 1)).await;
    let running = {
        let gateway = world.gateway.clone();
        let cancel = tokio_util::sync::CancellationToken::new();
        cancel.cancel();
        let sink = std::sync::Arc::new(crate::world::Seen::default());
        soon(async move { gateway.run(slot, request("a", 1), sink, cancel).await }).await
    };
    assert!(matches!(running, ToolReport::NeverStarted { .. }), "{running:?}");
    let _given_back = world.reserve(&request("a", 2)).await;
}

#[tokio::test]
async fn the_late_report_of_a_deaf_tool_is_offered_to_the_engine() {
    let world = World::new(GatewayOptions { cancel_grace: SHORT, ..patient() });
    let mut late_reports = world.gateway.late_reports().unwrap();
    assert!(world.gateway.late_reports().is_none(), "there is one receiver");
    let mut worker = joined(&world).await;
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    running.cancel.cancel();
    let reason = running.lost().await;
    assert!(reason.contains("was cancelled"), "{reason}");
    assert_eq!(worker.cancelled().await, call.fence);
    assert_eq!(world.gateway.workers()[0].running_calls, 1, "it still holds its place");
    worker.report(report(&call, Outcome::Ok, "after all")).await;
    let late = soon(late_reports.recv()).await.unwrap();
    assert_eq!((late.call_id.to_string().as_str(), late.attempt), ("1.1", 1));
    assert_eq!(late.worker, "w@1");
    assert_ok(&late.report, "after all");
    late.acknowledge();
    assert_eq!(worker.acknowledged().await, call.fence);
    assert_eq!(world.gateway.workers()[0].running_calls, 0);
    // Repeated, because the acknowledgement was on its way: it is no lie.
    worker.report(report(&call, Outcome::Ok, "after all")).await;
    assert_eq!(worker.acknowledged().await, call.fence);
}

#[tokio::test]
async fn a_draining_worker_ends_its_calls_and_gets_no_more() {
    let world = World::new(patient());
    let mut leaving = joined(&world).await;
    leaving.credit(2).await;
    let running = world.run(request("a", 1)).await;
    let call = leaving.call().await;
    leaving.say(attach_request::Message::Drain(Drain {})).await;
    world.until(|it| it.workers().iter().all(|worker| worker.is_draining)).await;
    assert!(!world.gateway.offers("a"));
    let second = request("a", 2);
    let mut waits = Box::pin(world.gateway.reserve(&second));
    assert!(waits.as_mut().now_or_never().is_none());
    let other = RawWorker::join(&world.url(), hello("other", "1")).await.unwrap();
    other.credit(1).await;
    assert_eq!(soon(waits).await.worker, "other@1");
    leaving.report(report(&call, Outcome::Ok, "last")).await;
    assert_ok(&running.end().await, "last");
    assert_eq!(leaving.acknowledged().await, call.fence);
    drop(leaving);
    world.until(|it| it.workers().len() == 1).await;
}

#[tokio::test]
async fn a_worker_whose_tool_does_more_than_the_session_knows_is_not_used() {
    let world = World::new(patient());
    let worker = joined(&world).await;
    worker.credit(1).await;
    let mut request = request("a", 1);
    request.tool = spec("a", Effect::Read);
    let ended = world.run(request.clone()).await.end().await;
    let ToolReport::Finished { outcome: ToolOutcome::Error, output, .. } = ended else {
        panic!("{ended:?}")
    };
    assert!(output.contains("was not run"), "{output}");
    let _given_back = world.reserve(&request).await;
}

#[tokio::test]
async fn what_is_shown_of_a_worker_is_true() {
    let world = World::new(patient());
    let mut worker = joined(&world).await;
    assert_eq!(worker.welcome.heartbeat_ms, 100);
    worker.credit(4).await;
    let _running = world.run(request("a", 1)).await;
    worker.call().await;
    let infos = world.gateway.workers();
    let [info] = infos.as_slice() else { panic!("{infos:?}") };
    assert_eq!((info.name.as_str(), info.instance.as_str()), ("w", "1"));
    assert_eq!((info.running_calls, info.capacity, info.is_draining), (1, 4, false));
    assert_eq!(info.tools, ["a", "b"]);
    assert!(info.seen_at >= info.connected_at);
    assert_eq!(world.gateway.workers_of("b"), ["w"]);
    assert!(world.gateway.workers_of(&offer("c").name).is_empty());
}
