//! Calls that nobody follows: stopped when their session does not wait for them, else left alone.

use stepwell_core::{SessionId, SessionState};
use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{Call, Hello};
use stepwell_server::gateway::GatewayOptions;

use crate::served::{Served, reader, watchful};
use crate::world::{RawWorker, SHORT, held, report};

/// A session whose call is on worker `w`, process `1`.
async fn begun(served: &Served) -> (SessionId, Call) {
    let (session_id, _, call) = begun_on(served).await;
    (session_id, call)
}

async fn begun_on(served: &Served) -> (SessionId, RawWorker, Call) {
    let mut worker = RawWorker::join(&served.url(), reader("w", "1")).await.unwrap();
    worker.credit(1).await;
    let session_id = served.create().await;
    let call = worker.call().await;
    (session_id, worker, call)
}

fn back(call: &Call) -> Hello {
    Hello { held: vec![held(call)], ..reader("w", "1") }
}

/// A worker that holds what nobody wants. As often as it is told to stop that, all that was there
/// before it was looked at, too.
struct Other {
    worker: RawWorker,
    call: Call,
}

impl Other {
    async fn join(served: &Served, call: &Call) -> Self {
        let call = Call { call_id: "9.9".to_owned(), fence: 7, ..call.clone() };
        let hello = Hello { held: vec![held(&call)], ..reader("other", "1") };
        Self { worker: RawWorker::join(&served.url(), hello).await.unwrap(), call }
    }

    async fn is_looked_at(&mut self, times: usize) {
        for _ in 0..times {
            assert!(self.worker.asked_about(&self.call).await);
        }
    }
}

#[tokio::test]
async fn a_call_is_stopped_whose_session_was_cancelled_while_its_worker_was_away() {
    let mut served = Served::new(watchful());
    let (session_id, call) = begun(&served).await;
    served.restart(watchful());
    served.cancel(session_id).await;
    let mut worker = RawWorker::join(&served.url(), back(&call)).await.unwrap();
    assert!(worker.asked_about(&call).await, "it is told to stop, then asked");
    worker.report(report(&call, Outcome::Running, "")).await;
    worker.report(report(&call, Outcome::Error, "stopped")).await;
    worker.acknowledged_after_all(&call).await;
    let results = served.results(session_id).await;
    assert!(results.len() == 1 && results[0].late, "{results:?}");
}

#[tokio::test]
async fn a_call_is_stopped_whose_session_ends_while_nobody_follows_it() {
    let mut served = Served::new(watchful());
    let (session_id, call) = begun(&served).await;
    served.restart(watchful());
    // Without a credit nobody can follow the call on this worker.
    let mut worker = RawWorker::join(&served.url(), back(&call)).await.unwrap();
    let mut other = Other::join(&served, &call).await;
    other.is_looked_at(3).await;
    served.cancel(session_id).await;
    assert!(worker.asked_about(&call).await);
    worker.report(report(&call, Outcome::Error, "stopped")).await;
    worker.acknowledged_after_all(&call).await;
}

#[tokio::test]
async fn a_call_that_is_awaited_and_not_yet_claimed_goes_on_under_its_new_follower() {
    let mut served = Served::new(watchful());
    let (session_id, call) = begun(&served).await;
    served.restart(watchful());
    let mut worker = RawWorker::join(&served.url(), back(&call)).await.unwrap();
    let mut other = Other::join(&served, &call).await;
    other.is_looked_at(4).await;
    worker.credit(1).await;
    // The first word since the reconnect: it was never told to stop.
    let again = worker.call().await;
    assert_eq!((again.call_id.as_str(), again.attempt), (call.call_id.as_str(), call.attempt));
    worker.report(report(&again, Outcome::Ok, "seen")).await;
    let state = served.until(session_id, SessionState::is_finished).await;
    assert!(state.given_up.is_empty());
    let results = served.results(session_id).await;
    assert!(results.len() == 1 && !results[0].late, "{results:?}");
}

#[tokio::test]
async fn an_attempt_that_another_one_took_the_place_of_is_stopped() {
    let quick = GatewayOptions { reconnect_grace: SHORT, ..watchful() };
    let served = Served::new(quick);
    let (session_id, worker, call) = begun_on(&served).await;
    drop(worker);
    served.until(session_id, |it| it.calls.values().any(|call| call.attempt == 2)).await;
    let mut worker = RawWorker::join(&served.url(), back(&call)).await.unwrap();
    assert!(worker.asked_about(&call).await);
    worker.report(report(&call, Outcome::Error, "stopped")).await;
    worker.acknowledged_after_all(&call).await;
    assert!(served.results(session_id).await.is_empty(), "void: the session waits for another");
}

#[tokio::test]
async fn of_two_workers_with_one_attempt_the_one_that_is_followed_goes_on() {
    let mut served = Served::new(watchful());
    let (session_id, call) = begun(&served).await;
    served.restart(watchful());
    let mut second = RawWorker::join(&served.url(), reader("second", "1")).await.unwrap();
    second.credit(1).await;
    let again = second.call().await;
    assert_eq!((again.call_id.as_str(), again.attempt), (call.call_id.as_str(), 1));
    let mut first = RawWorker::join(&served.url(), back(&call)).await.unwrap();
    assert!(first.asked_about(&call).await);
    first.report(report(&call, Outcome::Error, "stopped")).await;
    first.acknowledged_after_all(&call).await;
    second.report(report(&again, Outcome::Ok, "seen")).await;
    served.until(session_id, SessionState::is_finished).await;
    let results = served.results(session_id).await;
    let outputs: Vec<&str> = results.iter().map(|it| it.output.preview()).collect();
    assert_eq!(outputs, ["seen"]);
}

#[tokio::test]
async fn a_call_of_no_session_is_stopped_and_forgotten() {
    let served = Served::new(watchful());
    let nowhere = SessionId::from_random([9; 16]).to_string();
    let call = Call {
        session_id: nowhere,
        call_id: "1.1".to_owned(),
        attempt: 1,
        fence: 3,
        ..Call::default()
    };
    let mut worker = RawWorker::join(&served.url(), back(&call)).await.unwrap();
    assert!(worker.asked_about(&call).await);
    worker.report(report(&call, Outcome::Unknown, "")).await;
    worker.acknowledged_after_all(&call).await;
}
