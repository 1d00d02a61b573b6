//! One attempt of a tool call, from its order to its outcome.
//!
//! Invariant: a tool that must not run twice is started only after its `tool_dispatched` is durable.

use std::sync::Arc;

use stepwell_core::codec::blob_ref;
use stepwell_core::event::{ToolFinished, ToolLost};
use stepwell_core::text::BlobRef;
use stepwell_core::{CallId, Input, SessionId, Text};
use stepwell_ports::tools::OutputSink;
use stepwell_ports::{ToolProbe, ToolReport, ToolRequest, ToolSlot};
use tokio_util::sync::CancellationToken;

use crate::effects::deliver;
use crate::engine::Engine;
use crate::live::{Live, LiveChunk, LiveChunkKind};

/// Waits for a place on a worker, tells the session first when the tool must not run twice, runs it
/// and tells the session how it ended.
pub(crate) async fn run(engine: Engine, request: ToolRequest, cancel: CancellationToken) {
    let slot = tokio::select! {
        slot = engine.inner.ports.tools.reserve(&request) => slot,
        () = cancel.cancelled() => return,
        () = engine.inner.draining.cancelled() => return,
    };
    if !request.effect().may_repeat() {
        let reserved = Input::WorkerReserved {
            call_id: request.call_id,
            attempt: request.attempt,
            worker: slot.worker.clone(),
        };
        if !deliver(&engine, request.session_id, reserved, Vec::new()).await {
            return;
        }
    }
    let worker = slot.worker.clone();
    let report = run_on(&engine, slot, &request, cancel).await;
    tell(&engine, &request, worker, report).await;
}

async fn run_on(
    engine: &Engine,
    slot: ToolSlot,
    request: &ToolRequest,
    cancel: CancellationToken,
) -> ToolReport {
    let sink = sink(engine, request);
    engine.inner.ports.tools.run(slot, request.clone(), sink, cancel).await
}

/// Finds out what became of a call that an earlier owner started.
pub(crate) async fn follow(
    engine: Engine,
    worker: String,
    request: ToolRequest,
    cancel: CancellationToken,
) {
    let sink = sink(&engine, &request);
    let probe = engine.inner.ports.tools.probe(&worker, request.clone(), sink, cancel);
    let report = tokio::select! {
        probe = probe => match probe {
            ToolProbe::Report(report) => report,
            ToolProbe::NeverStarted => ToolReport::NeverStarted {
                reason: format!("worker {worker} says that it never began"),
            },
        },
        // The next start asks again; nothing is lost by leaving it open.
        () = engine.inner.draining.cancelled() => return,
    };
    tell(&engine, &request, worker, report).await;
}

async fn tell(engine: &Engine, request: &ToolRequest, worker: String, report: ToolReport) {
    let (call_id, attempt) = (request.call_id, request.attempt);
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
    deliver(engine, request.session_id, input, blobs).await;
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

fn sink(engine: &Engine, request: &ToolRequest) -> Arc<dyn OutputSink> {
    Arc::new(Sink {
        live: engine.inner.live.clone(),
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
