//! A server that was started again asks what became of the calls.

use stepwell_ports::ToolReport;
use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{Call, CallReport, Hello};
use stepwell_server::gateway::{EMBEDDED_NAME, GatewayOptions};

use crate::world::{
    RawWorker, SHORT, World, assert_ok, held, hello, patient, report, request, soon,
};

/// A call of `w@1` whose server is gone. The engine's side of it went with the server.
async fn orphan(world: &mut World) -> Call {
    orphan_with(world, patient()).await
}

async fn orphan_with(world: &mut World, options: GatewayOptions) -> Call {
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    drop(running);
    world.restart(options);
    call
}

#[tokio::test]
async fn a_running_call_is_adopted_and_reported_once() {
    let mut world = World::new(patient());
    let call = orphan(&mut world).await;
    let running = world.probe("w@1", request("a", 1));
    let back = Hello { held: vec![held(&call)], ..hello("w", "1") };
    let mut worker = RawWorker::join(&world.url(), back).await.unwrap();
    let fence = worker.asked().await;
    assert!(fence > call.fence, "fences grow over restarts");
    let adopted = Call { fence, ..call.clone() };
    worker.report(report(&adopted, Outcome::Running, "")).await;
    // The report under the old number was on its way when the question came.
    worker.report(report(&call, Outcome::Ok, "old number")).await;
    worker.output(&adopted, "new number").await;
    running.until_output("new number").await;
    worker.report(report(&adopted, Outcome::Ok, "new number")).await;
    assert_ok(&running.end().await, "new number");
}

#[tokio::test]
async fn a_call_that_ended_meanwhile_is_told() {
    let mut world = World::new(patient());
    let call = orphan(&mut world).await;
    let back = Hello { held: vec![held(&call)], ..hello("w", "1") };
    let mut worker = RawWorker::join(&world.url(), back).await.unwrap();
    let running = world.probe("w@1", request("a", 1));
    let fence = worker.asked().await;
    worker.report(report(&Call { fence, ..call }, Outcome::Ok, "done")).await;
    assert_ok(&running.end().await, "done");
    assert_eq!(worker.acknowledged().await, fence);
}

#[tokio::test]
async fn a_call_that_never_arrived_may_run_elsewhere() {
    let mut world = World::new(patient());
    let call = orphan(&mut world).await;
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let running = world.probe("w@1", request("a", 1));
    let fence = worker.asked().await;
    worker.report(report(&Call { fence, ..call }, Outcome::NeverStarted, "")).await;
    let ended = running.end().await;
    assert!(matches!(ended, ToolReport::NeverStarted { .. }), "{ended:?}");
}

#[tokio::test]
async fn a_call_that_its_worker_forgot_is_lost() {
    let mut world = World::new(patient());
    let call = orphan(&mut world).await;
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    let running = world.probe("w@1", request("a", 1));
    let fence = worker.asked().await;
    worker.report(report(&Call { fence, ..call }, Outcome::Unknown, "")).await;
    let reason = running.lost().await;
    assert!(reason.contains("no longer knows"), "{reason}");
}

#[tokio::test]
async fn a_worker_that_was_started_again_knows_nothing_and_is_not_asked() {
    let mut world = World::new(patient());
    orphan(&mut world).await;
    let _other = RawWorker::join(&world.url(), hello("w", "2")).await.unwrap();
    let reason = world.probe("w@1", request("a", 1)).lost().await;
    assert!(reason.contains("started again"), "{reason}");
}

#[tokio::test]
async fn a_worker_that_stays_away_loses_the_call() {
    let mut world = World::new(patient());
    let quick = GatewayOptions { reconnect_grace: SHORT, ..patient() };
    orphan_with(&mut world, quick).await;
    let reason = world.probe("w@1", request("a", 1)).lost().await;
    assert!(reason.contains("did not come back"), "{reason}");
}

#[tokio::test]
async fn a_cancelled_question_does_not_wait_long() {
    let world = World::new(GatewayOptions { cancel_grace: SHORT, ..patient() });
    let running = world.probe("w@1", request("a", 1));
    running.cancel.cancel();
    running.lost().await;
}

#[tokio::test]
async fn a_worker_that_does_not_answer_loses_the_call() {
    let world = World::new(GatewayOptions { lease: 5 * SHORT, ..patient() });
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    let running = world.probe("w@1", request("a", 1));
    worker.asked().await;
    let reason = worker.beating(SHORT / 3, running.lost()).await;
    assert!(reason.contains("did not answer"), "{reason}");
}

#[tokio::test]
async fn the_worker_inside_a_server_that_is_gone_is_known_to_be_gone() {
    let own = GatewayOptions { embedded_instance: Some("node-2".to_owned()), ..patient() };
    let world = World::new(own);
    let label = format!("{EMBEDDED_NAME}@node-1");
    assert!(world.gateway.is_gone(&label));
    let reason = world.probe(&label, request("a", 1)).lost().await;
    assert!(reason.contains("server process that is gone"), "{reason}");
    assert!(!world.gateway.is_gone(&format!("{EMBEDDED_NAME}@node-2")));
    assert!(!world.gateway.is_gone("w@1"));
    let stranger = RawWorker::join(&world.url(), hello(EMBEDDED_NAME, "node-1")).await;
    assert!(stranger.err().unwrap().message().contains("belongs to the worker inside"));
    RawWorker::join(&world.url(), hello(EMBEDDED_NAME, "node-2")).await.unwrap();
}

#[tokio::test]
async fn a_call_whose_follower_left_is_asked_about() {
    let world = World::new(patient());
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let running = world.run(request("a", 1)).await;
    let call = worker.call().await;
    drop(running);
    let running = world.probe("w@1", request("a", 1));
    let fence = worker.asked().await;
    assert!(fence > call.fence);
    // What was sent before the question came.
    worker.report(report(&call, Outcome::Ok, "old number")).await;
    worker.report(report(&Call { fence, ..call }, Outcome::Ok, "again")).await;
    assert_ok(&running.end().await, "again");
}

#[tokio::test]
async fn the_newer_question_is_the_one_that_is_answered() {
    let world = World::new(patient());
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(1).await;
    let older = world.run(request("a", 1)).await;
    let call = worker.call().await;
    let newer = world.probe("w@1", request("a", 1));
    let fence = worker.asked().await;
    let reason = older.lost().await;
    assert!(reason.contains("somebody else asked"), "{reason}");
    worker.report(report(&Call { fence, ..call }, Outcome::Ok, "newer")).await;
    assert_ok(&newer.end().await, "newer");
}

#[tokio::test]
async fn a_report_that_nobody_asked_for_is_offered_to_the_engine() {
    let mut world = World::new(patient());
    let call = orphan(&mut world).await;
    let mut late_reports = world.gateway.late_reports().unwrap();
    let back = Hello { held: vec![held(&call)], ..hello("w", "1") };
    let mut worker = RawWorker::join(&world.url(), back).await.unwrap();
    let repeated: CallReport = report(&call, Outcome::Ok, "kept");
    worker.report(repeated).await;
    let late = soon(late_reports.recv()).await.unwrap();
    assert_ok(&late.report, "kept");
    // Until the engine has taken it, it can still be asked about.
    let running = world.probe("w@1", request("a", 1));
    let fence = worker.asked().await;
    worker.report(report(&Call { fence, ..call }, Outcome::Ok, "kept")).await;
    assert_ok(&running.end().await, "kept");
}
