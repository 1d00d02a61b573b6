//! When a worker may forget a result: once it is durable, or nobody wants it.

use stepwell_core::SessionState;
use stepwell_ports::tools::Receipt;
use stepwell_ports::{Store as _, ToolGateway as _};
use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{Call, CallReport, Hello};

use crate::served::{Served, reader, watchful};
use crate::world::{RawWorker, World, assert_ok, held, hello, patient, report, request, soon};

/// A call whose result the engine has, and did not write down yet.
async fn handed_over(world: &World, receipt: Option<Receipt>) -> (RawWorker, Call) {
    let mut worker = RawWorker::join(&world.url(), hello("w", "1")).await.unwrap();
    worker.credit(4).await;
    let slot = world.reserve(&request("a", 1)).await;
    let running = world.run_and_say(slot, request("a", 1), receipt);
    let call = worker.call().await;
    worker.report(report(&call, Outcome::Ok, "fine")).await;
    assert_ok(&running.end().await, "fine");
    (worker, call)
}

#[tokio::test]
async fn a_result_is_acknowledged_when_it_is_durable_and_not_before() {
    let world = World::new(patient());
    let mut late_reports = world.gateway.late_reports().unwrap();
    let (mut worker, call) = handed_over(&world, None).await;
    assert_eq!(world.gateway.workers()[0].running_calls, 0, "it holds no place");
    // Said again, it is neither acknowledged nor offered a second time.
    worker.report(report(&call, Outcome::Ok, "fine")).await;
    let next = world.run(request("a", 2)).await;
    let next_call = worker.call().await;
    worker.report(report(&next_call, Outcome::Ok, "next")).await;
    assert_ok(&next.end().await, "next");
    assert_eq!(worker.acknowledged().await, next_call.fence);
    assert!(late_reports.try_recv().is_err());
    world.gateway.settled("w@1", &request("a", 1), Receipt::Durable);
    assert_eq!(worker.acknowledged().await, call.fence);
    worker.report(report(&call, Outcome::Ok, "fine")).await;
    assert_eq!(worker.acknowledged().await, call.fence, "it was on its way");
}

#[tokio::test]
async fn a_result_that_was_not_taken_is_offered_again() {
    let world = World::new(patient());
    let mut late_reports = world.gateway.late_reports().unwrap();
    let (mut worker, call) = handed_over(&world, Some(Receipt::NotTaken)).await;
    worker.report(report(&call, Outcome::Ok, "fine")).await;
    let late = soon(late_reports.recv()).await.unwrap();
    assert_ok(&late.report, "fine");
    late.acknowledge();
    assert_eq!(worker.acknowledged().await, call.fence);
}

#[tokio::test]
async fn a_break_does_not_make_a_result_late_that_is_being_written_down() {
    let world = World::new(patient());
    let mut late_reports = world.gateway.late_reports().unwrap();
    let (worker, call) = handed_over(&world, None).await;
    let back = Hello { held: vec![held(&call)], ..hello("w", "1") };
    let mut again = RawWorker::join(&world.url(), back).await.unwrap();
    drop(worker);
    again.report(report(&call, Outcome::Ok, "fine")).await;
    again.credit(1).await;
    let next = world.run(request("a", 2)).await;
    let next_call = again.call().await;
    again.report(report(&next_call, Outcome::Ok, "next")).await;
    assert_ok(&next.end().await, "next");
    assert_eq!(again.acknowledged().await, next_call.fence);
    assert!(late_reports.try_recv().is_err());
    world.gateway.settled("w@1", &request("a", 1), Receipt::Durable);
    assert_eq!(again.acknowledged().await, call.fence);
}

#[tokio::test]
async fn a_late_result_that_the_store_does_not_take_is_asked_for_again_and_kept_whole() {
    let mut served = Served::new(watchful());
    let mut worker = RawWorker::join(&served.url(), reader("w", "1")).await.unwrap();
    worker.credit(1).await;
    let session_id = served.create().await;
    let call = worker.call().await;
    served.restart(watchful());
    served.cancel(session_id).await;
    served.store.set_full(true);
    let back = Hello { held: vec![held(&call)], ..reader("w", "1") };
    let mut worker = RawWorker::join(&served.url(), back).await.unwrap();
    let whole = vec![0xff; 1_000];
    let late =
        CallReport { full_output: whole.clone().into(), ..report(&call, Outcome::Ok, "seen") };
    worker.report(late.clone()).await;
    soon(served.store.has_refused()).await;
    // Asked again, twice, and not acknowledged before.
    worker.asked_about(&call).await;
    worker.asked_about(&call).await;
    served.store.set_full(false);
    worker.report(late).await;
    worker.acknowledged_after_all(&call).await;
    let results = served.results(session_id).await;
    let [result] = results.as_slice() else { panic!("{results:?}") };
    assert!(result.late);
    let reference = result.full_output.as_ref().unwrap();
    assert_eq!(reference.bytes, 1_000);
    let stored = served.store.blob(&reference.blob).await.unwrap();
    assert_eq!(stored, Some(whole));
}

#[tokio::test]
async fn a_result_that_the_engine_has_and_the_store_does_not_take_outlives_the_server() {
    let mut served = Served::new(watchful());
    let mut worker = RawWorker::join(&served.url(), reader("w", "1")).await.unwrap();
    worker.credit(1).await;
    let session_id = served.create().await;
    let call = worker.call().await;
    served.store.set_full(true);
    worker.report(report(&call, Outcome::Ok, "seen")).await;
    soon(served.store.has_refused()).await;
    served.kill();
    served.store.set_full(false);
    served.restart(watchful());
    let back = Hello { held: vec![held(&call)], ..reader("w", "1") };
    let mut worker = RawWorker::join(&served.url(), back).await.unwrap();
    worker.report(report(&call, Outcome::Ok, "seen")).await;
    worker.acknowledged_after_all(&call).await;
    served.until(session_id, SessionState::is_finished).await;
    assert_eq!(served.results(session_id).await.len(), 1);
}
