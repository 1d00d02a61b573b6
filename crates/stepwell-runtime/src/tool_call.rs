//! One attempt of a tool call, from its order to its outcome.
//!
//! Invariant: a tool that must not run twice is started only after its `tool_dispatched` is durable.

use std::sync::Arc;
use std::time::Duration;

use stepwell_core::codec::blob_ref;
use stepwell_core::event::{ToolFinished, ToolLost};
use stepwell_core::text::BlobRef;
use stepwell_core::{CallId, Input, SessionId, Text};
use stepwell_ports::tools::OutputSink;
use stepwell_ports::{ToolProbe, ToolReport, ToolRequest, ToolSlot};

use crate::effects::{Ended, Outlet, Told};
use crate::engine::{Engine, Submitted};
use crate::error::EngineError;
use crate::handover::{Outcome, PendingReceipt};
use crate::live::{Live, LiveChunk, LiveChunkKind};
use crate::mailbox::{Mailbox, Origin};
use crate::stall::Stall;
use crate::task::pause;

/// First and longest rest after a call that never began, from its second attempt on.
const REFUSED: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));

/// Waits for a place on a worker, tells the session first when the tool must not run twice, runs it
/// and says how it ended.
pub(crate) async fn run(
    outlet: Outlet,
    request: ToolRequest,
    stall: Stall,
    mailbox: Arc<Mailbox>,
) -> Ended {
    let engine = &outlet.engine.inner;
    let tools = &engine.ports.tools;
    let slot = tokio::select! {
        biased;
        () = outlet.cancel.cancelled() => return Ended::Without,
        () = engine.draining.cancelled() => return Ended::Without,
        slot = tools.reserve(&request) => slot,
        never = stall.watch(&**tools, &request.tool.name, &mailbox) => match never {},
    };
    stall.end();
    // Its owner left in the moment in which the place was found.
    if outlet.cancel.is_cancelled() {
        return Ended::Without;
    }
    if !request.effect().may_repeat() {
        let reserved = Input::WorkerReserved {
            call_id: request.call_id,
            attempt: request.attempt,
            worker: slot.worker.clone(),
        };
        if outlet.deliver(reserved, Vec::new()).await == Told::No {
            return Ended::Without;
        }
    }
    run_on(outlet, request, slot).await
}

/// Runs it on its place and says how it ended. Of a tool that must not run twice the place is on record.
pub(crate) async fn run_on(outlet: Outlet, request: ToolRequest, slot: ToolSlot) -> Ended {
    let engine = &outlet.engine.inner;
    let worker = slot.worker.clone();
    // Much may have happened until that was durable. Whoever follows the call now must not be
    // surprised by a start.
    let is_stopped = outlet.cancel.is_cancelled() || engine.draining.is_cancelled();
    if is_stopped && !request.effect().may_repeat() {
        let reason = "it was stopped before it began".to_string();
        return ended(&outlet, request, worker, ToolReport::NeverStarted { reason });
    }
    let sink = sink(&outlet, &request);
    let cancel = outlet.cancel.clone();
    let report = engine.ports.tools.run(slot, request.clone(), sink, cancel).await;
    if let ToolReport::NeverStarted { .. } = report {
        rest(&outlet, request.attempt).await;
    }
    ended(&outlet, request, worker, report)
}

/// A call that never began is scheduled again at once, however often. A worker that refuses every
/// time must not fill the log with it.
async fn rest(outlet: &Outlet, attempt: u32) {
    let doublings = attempt.saturating_sub(2).min(16);
    let wait = (REFUSED.0 * (1 << doublings)).min(REFUSED.1);
    if attempt > 1 {
        tokio::select! {
            biased;
            () = outlet.cancel.cancelled() => {}
            () = outlet.engine.inner.draining.cancelled() => {}
            () = pause(wait) => {}
        }
    }
}

/// Finds out what became of a call that an earlier owner started.
pub(crate) async fn follow(outlet: Outlet, worker: String, request: ToolRequest) -> Ended {
    let engine = &outlet.engine.inner;
    let (sink, cancel) = (sink(&outlet, &request), outlet.cancel.clone());
    let report = tokio::select! {
        biased;
        // The next start asks again; nothing is lost by leaving it open.
        () = engine.draining.cancelled() => return Ended::Without,
        probe = engine.ports.tools.probe(&worker, request.clone(), sink, cancel) => match probe {
            ToolProbe::Report(report) => report,
            ToolProbe::NeverStarted => ToolReport::NeverStarted {
                reason: format!("worker {worker} says that it never began"),
            },
        },
    };
    ended(&outlet, request, worker, report)
}

fn ended(outlet: &Outlet, request: ToolRequest, worker: String, report: ToolReport) -> Ended {
    let (call_id, attempt) = (request.call_id, request.attempt);
    let receipt = match report {
        ToolReport::Finished { .. } => {
            Some(PendingReceipt::new(outlet.engine.clone(), request, worker.clone()))
        }
        // The worker has nothing to keep.
        ToolReport::Lost { .. } | ToolReport::NeverStarted { .. } => None,
    };
    let (input, blobs) = input_of(call_id, attempt, worker, report);
    Ended::With(Box::new(Outcome { input, blobs, receipt }))
}

impl Engine {
    /// Tells a session how an attempt ended that no call of its own waits for: it came late, or its
    /// session was not in memory. Durable when it returns `Ok`.
    ///
    /// # Errors
    /// As [`Engine::submit`]; [`EngineError::Rejected`] when the session has no use for it.
    pub async fn report(
        &self,
        session_id: SessionId,
        (call_id, attempt): (CallId, u32),
        worker: String,
        report: ToolReport,
    ) -> Result<Submitted, EngineError> {
        let (input, blobs) = input_of(call_id, attempt, worker, report);
        self.submit_from(session_id, input, blobs, Origin::Outside).await
    }
}

/// The input that a report is, and the payloads that belong to it.
fn input_of(
    call_id: CallId,
    attempt: u32,
    worker: String,
    report: ToolReport,
) -> (Input, Vec<(String, Vec<u8>)>) {
    let mut blobs = Vec::new();
    let input = match report {
        ToolReport::Finished { outcome, output, full_output, duration_ms } => {
            let full_output = full_output.map(|bytes| {
                let reference = bytes_ref(&bytes);
                blobs.push((reference.blob.clone(), bytes));
                reference
            });
            let report = ToolFinished {
                call_id,
                attempt,
                outcome,
                output: Text::from(output),
                full_output,
                late: false,
                duration_ms,
            };
            Input::ToolFinished { report, worker }
        }
        ToolReport::Lost { reason } => {
            Input::ToolLost(ToolLost { call_id, attempt, reason, never_started: false })
        }
        ToolReport::NeverStarted { reason } => {
            Input::ToolLost(ToolLost { call_id, attempt, reason, never_started: true })
        }
    };
    (input, blobs)
}

/// Address, size and preview of bytes that need not be text.
fn bytes_ref(bytes: &[u8]) -> BlobRef {
    match std::str::from_utf8(bytes) {
        Ok(text) => blob_ref(text),
        Err(_) => BlobRef {
            blob: blake3::hash(bytes).to_hex().to_string(),
            bytes: bytes.len() as u64,
            preview: "(not UTF-8)".to_string(),
        },
    }
}

struct Sink {
    live: Arc<Live>,
    session_id: SessionId,
    call_id: CallId,
    attempt: u32,
}

fn sink(outlet: &Outlet, request: &ToolRequest) -> Arc<dyn OutputSink> {
    Arc::new(Sink {
        live: outlet.engine.inner.live.clone(),
        session_id: request.session_id,
        call_id: request.call_id,
        attempt: request.attempt,
    })
}

impl OutputSink for Sink {
    fn chunk(&self, text: String) {
        if self.live.is_watched(self.session_id) {
            let chunk = LiveChunk {
                kind: LiveChunkKind::Output,
                text,
                step: self.call_id.step,
                attempt: self.attempt,
                call_id: Some(self.call_id),
            };
            self.live.chunk(self.session_id, chunk);
        }
    }
}
