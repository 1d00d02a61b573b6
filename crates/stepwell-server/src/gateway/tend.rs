//! Keeps workers and sessions of one mind about calls that nobody follows: reports that came late are
//! told to their sessions and then acknowledged, and calls that no session waits for are stopped.
//!
//! Invariant: it never stops a call that its session waits for, and never acknowledges what is neither
//! durable nor void. What it cannot find out now it looks at again later.

use futures_util::{StreamExt as _, stream};
use stepwell_core::state::CallStatus;
use stepwell_core::{Seq, SessionState};
use stepwell_ports::ToolReport;
use stepwell_runtime::{Engine, EngineError};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::hello::CallKey;
use super::late::LateReport;
use super::options::{LATE_AT_A_TIME, LOOKS_AT_A_TIME, ROUND};
use super::orphans::{Fate, Orphan};
use super::{Shared, WorkerGateway};

impl WorkerGateway {
    /// Settles what nobody follows, with the engine's word, until `stop`. One at a time: it takes the
    /// [`WorkerGateway::late_reports`].
    pub async fn tend(&self, engine: &Engine, stop: &CancellationToken) {
        let Some(reports) = self.late_reports() else { return };
        let work = async {
            tokio::join!(record_all(engine, reports), look_after_orphans(&self.shared, engine))
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            ((), ()) = work => {}
        }
    }
}

async fn record_all(engine: &Engine, mut reports: mpsc::Receiver<LateReport>) {
    let reports = stream::poll_fn(|context| reports.poll_recv(context));
    let record = |late: LateReport| async move {
        if is_settled(engine, &late).await {
            late.acknowledge();
        }
    };
    reports.for_each_concurrent(LATE_AT_A_TIME, record).await;
}

/// Whether the report is in the log, or the session has no use for it.
async fn is_settled(engine: &Engine, late: &LateReport) -> bool {
    let report = match &late.report {
        report @ ToolReport::Finished { .. } => report.clone(),
        ToolReport::Lost { .. } | ToolReport::NeverStarted { .. } => return true,
    };
    let attempt = (late.call_id, late.attempt);
    let told = engine.report(late.session_id, attempt, late.worker.clone(), report).await;
    match told {
        Ok(_)
        | Err(
            EngineError::Rejected(_)
            | EngineError::NotFound { .. }
            | EngineError::NoSuchEvent { .. }
            | EngineError::Quarantined { .. }
            | EngineError::Invalid { .. }
            | EngineError::KeyTaken { .. }
            | EngineError::KeyOfDeleted { .. },
        ) => true,
        // The worker keeps it and is asked for it again.
        Err(
            error @ (EngineError::Store(_)
            | EngineError::Busy { .. }
            | EngineError::Moved { .. }
            | EngineError::ShuttingDown),
        ) => {
            debug!(session = %late.session_id, call = %late.call_id, %error, "a late report waits");
            false
        }
    }
}

async fn look_after_orphans(shared: &Shared, engine: &Engine) {
    let mut rounds = interval((shared.options.orphan_grace / 2).clamp(ROUND.0, ROUND.1));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let due = shared.fleet().due_orphans(Instant::now());
        let look = |orphan: Orphan| async move {
            let fate = fate_of(engine, &orphan).await;
            shared.fleet().carry_out(&orphan, fate);
        };
        stream::iter(due).for_each_concurrent(LOOKS_AT_A_TIME, look).await;
    }
}

async fn fate_of(engine: &Engine, orphan: &Orphan) -> Fate {
    let CallKey { session_id, call_id, attempt } = orphan.key;
    if orphan.is_double {
        info!(session = %session_id, call = %call_id, attempt, "a call runs twice: one is stopped");
        return Fate::StopDouble;
    }
    if orphan.is_reported {
        return Fate::SayAgain;
    }
    match is_awaited(engine, orphan).await {
        Ok(Some(head)) => Fate::Wait(Some(head)),
        Ok(None) => {
            info!(session = %session_id, call = %call_id, attempt, "nobody waits for a call: stopped");
            Fate::Stop
        }
        Err(error) => {
            debug!(session = %session_id, call = %call_id, %error, "a call's session cannot be asked");
            Fate::Wait(orphan.head)
        }
    }
}

/// The head of the session's log, if the session waits for the call.
async fn is_awaited(engine: &Engine, orphan: &Orphan) -> Result<Option<Seq>, EngineError> {
    let session_id = orphan.key.session_id;
    let info = engine.store().session(session_id).await?;
    let Some(row) = info.map(|it| it.row).filter(|it| !it.status.is_final()) else {
        return Ok(None);
    };
    // What it waits for follows from its log alone.
    if orphan.head == Some(row.head_seq) {
        return Ok(orphan.head);
    }
    match engine.state(session_id).await {
        Ok(state) => Ok(awaits(&state, orphan.key).then_some(state.head)),
        Err(EngineError::NotFound { .. } | EngineError::Quarantined { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a report on the call would still be its outcome. A call whose worker was lost counts: its
/// late report answers the question what became of it.
fn awaits(state: &SessionState, key: CallKey) -> bool {
    if state.is_finished() || state.cancelled.is_some() {
        return false;
    }
    let call = state.calls.get(&key.call_id).filter(|call| call.attempt == key.attempt);
    call.is_some_and(|call| match call.status {
        CallStatus::Scheduled
        | CallStatus::Dispatched { .. }
        | CallStatus::Lost { .. }
        | CallStatus::AwaitingRetry
        | CallStatus::AwaitingOutcome => true,
        CallStatus::Proposed
        | CallStatus::AwaitingApproval
        | CallStatus::Approved
        | CallStatus::TurnedDown { .. }
        | CallStatus::AwaitingAnswer
        | CallStatus::Sleeping
        | CallStatus::Settled { .. } => false,
    })
}
