//! Tool workers as the runtime sees them: reserve a place, run, ask about a call that was started.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use stepwell_core::event::ToolOutcome;
use stepwell_core::{CallId, Effect, SessionId, ToolSpec};
use tokio_util::sync::CancellationToken;

/// One attempt of one tool call.
#[derive(Debug, Clone)]
pub struct ToolRequest {
    /// The session.
    pub session_id: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Folder of the session's workspace, below the workers' folder for workspaces.
    pub workspace: String,
    /// The tool.
    pub tool: ToolSpec,
    /// The arguments, JSON text that fits the tool's schema.
    pub arguments: String,
}

impl ToolRequest {
    /// `session/call_id`: the same for every attempt.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.session_id, self.call_id)
    }

    /// What the tool does to the world.
    pub fn effect(&self) -> Effect {
        self.tool.effect
    }
}

/// A place on a worker that is kept free for one call. Dropping it gives the place back.
pub struct ToolSlot {
    /// Name of the worker; stable over reconnects of the same worker process.
    pub worker: String,
    /// What the gateway keeps for the place. Dropped with the slot.
    pub place: Box<dyn Any + Send + Sync>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolReport {
    /// The tool came to its end.
    Finished {
        /// Well or not.
        outcome: ToolOutcome,
        /// Result or error, in the words for the model.
        output: String,
        /// The whole output, when `output` was shortened.
        full_output: Option<Vec<u8>>,
        /// How long it ran, in milliseconds.
        duration_ms: u64,
    },
    /// The worker is gone, its lease ran out, or its time limit passed without an answer: the
    /// outcome is unknown.
    Lost {
        /// How it was noticed.
        reason: String,
    },
    /// The worker is sure that the call never began: it may run elsewhere, whatever it does.
    NeverStarted {
        /// Why it did not begin.
        reason: String,
    },
}

/// What is known about a call that was started by an earlier owner of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolProbe {
    /// It is over, or was followed to its end.
    Report(ToolReport),
    /// The worker is sure that the call never began.
    NeverStarted,
}

/// What became of a report that [`ToolGateway::run`] or [`ToolGateway::probe`] gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// It is durable: the worker may forget it.
    Durable,
    /// It was not written down, and perhaps never will be: it must not be forgotten.
    NotTaken,
}

/// Takes live output of a tool. Must not block.
pub trait OutputSink: Send + Sync {
    /// One piece of text.
    fn chunk(&self, text: String);
}

/// The fleet of tool workers.
#[async_trait]
pub trait ToolGateway: Send + Sync + 'static {
    /// Waits until a worker has a free place for the request's tool, for ever if no worker offers it.
    /// Cancel-safe.
    async fn reserve(&self, request: &ToolRequest) -> ToolSlot;

    /// Runs the call on its reserved place, to its end. After `cancel` the worker is told to stop,
    /// and the report that it gives within its grace time is returned.
    async fn run(
        &self,
        slot: ToolSlot,
        request: ToolRequest,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolReport;

    /// Asks `worker` about a call that was started earlier, and follows it to its end if it still
    /// runs. Returns [`ToolReport::Lost`] when the worker does not come back within its lease.
    async fn probe(
        &self,
        worker: &str,
        request: ToolRequest,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolProbe;

    /// Says what became of the [`ToolReport::Finished`] of this attempt, which `run` or `probe` gave.
    /// Until then the worker keeps it. A gateway whose workers keep nothing has nothing to do.
    fn settled(&self, _worker: &str, _request: &ToolRequest, _receipt: Receipt) {}

    /// Whether any connected worker offers this tool. A session whose calls nobody offers leaves
    /// memory and says so.
    fn offers(&self, tool: &str) -> bool;

    /// How often what is offered may have changed. Taken before [`ToolGateway::offers`] is asked, it
    /// says whether the answer is still true.
    fn changes(&self) -> u64;

    /// Returns once there was a change after the first `seen` ones; never when what is offered is
    /// always the same. Cancel-safe.
    async fn changed_since(&self, seen: u64);
}
