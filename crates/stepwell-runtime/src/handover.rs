//! An outcome on its way into its session, after the effect that had it has ended.
//!
//! Nobody waits while the session takes it: a task that did would be woken at every step for nothing.
//! Only an outcome that is not taken at once gets a task again.
//!
//! Invariant: the outcome becomes durable, or the owner is told that nothing will come of it.

use std::sync::Arc;
use std::time::Duration;

use stepwell_core::Input;
use stepwell_ports::ToolRequest;
use stepwell_ports::tools::Receipt;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::effects::{EffectId, Outlet, RETRY, Told};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::mailbox::{Letter, Mailbox, Origin, Reply, Sent};
use crate::task::pause;

/// How long an effect rests that ended without a word and was not told to: what made it end so would
/// end it again.
const REST: Duration = Duration::from_secs(1);

/// What an effect has for its session.
pub(crate) struct Outcome {
    /// What happened.
    pub(crate) input: Input,
    /// Payloads that belong to it: address and bytes.
    pub(crate) blobs: Vec<(String, Vec<u8>)>,
    /// What the worker waits for, when it keeps the report.
    pub(crate) receipt: Option<PendingReceipt>,
}

impl From<Input> for Outcome {
    fn from(input: Input) -> Self {
        Self { input, blobs: Vec::new(), receipt: None }
    }
}

/// See the module.
pub(crate) struct Handover {
    outlet: Outlet,
    effect_id: EffectId,
    mailbox: Arc<Mailbox>,
    receipt: Option<PendingReceipt>,
    is_taken: bool,
    /// It counts among the running effects, so that a drain waits for it.
    _counted: TaskTrackerToken,
}

impl Handover {
    /// Of an effect that has just begun.
    pub(crate) fn new(outlet: Outlet, effect_id: EffectId, mailbox: Arc<Mailbox>) -> Self {
        let counted = outlet.engine.inner.effects.token();
        Self { outlet, effect_id, mailbox, receipt: None, is_taken: false, _counted: counted }
    }

    /// Puts the outcome into the mailbox of its session.
    pub(crate) fn hand_in(mut self, outcome: Outcome) {
        let Outcome { input, blobs, receipt } = outcome;
        self.receipt = receipt;
        let Outlet { engine, session_id, cancel } = self.outlet.clone();
        if engine.inner.leaving.is_cancelled() {
            return;
        }
        let origin = Origin::Effect(cancel);
        let mailbox = engine.mailbox(session_id, &origin);
        match mailbox.send(Letter { input, blobs, origin, reply: Reply::Handover(Box::new(self)) })
        {
            Sent::Yes | Sent::Closed => {}
            Sent::Full(letter) => letter.answer(Err(EngineError::Busy { session_id })),
        }
    }

    /// The session has it.
    pub(crate) fn taken(mut self) {
        self.is_taken = true;
        if let Some(receipt) = &mut self.receipt {
            receipt.receipt = Receipt::Durable;
        }
    }

    /// The session does not have it.
    pub(crate) fn refused(self, input: Input, blobs: Vec<(String, Vec<u8>)>, error: &EngineError) {
        if is_worth_another_try(error) {
            return self.offer_again(input, blobs, RETRY.0);
        }
        let session_id = self.outlet.session_id;
        tracing::debug!(session = %session_id, %error, "an outcome was not taken");
        self.outlet.engine.inner.effects.clone().spawn(self.end_unwanted());
    }

    /// Its owner left before it looked.
    pub(crate) fn unread(self, input: Input, blobs: Vec<(String, Vec<u8>)>) {
        self.offer_again(input, blobs, Duration::ZERO);
    }

    /// From here on a task waits with it.
    fn offer_again(self, input: Input, blobs: Vec<(String, Vec<u8>)>, wait: Duration) {
        self.outlet.engine.inner.effects.clone().spawn(async move {
            if !wait.is_zero() {
                pause(wait).await;
            }
            match self.outlet.deliver(input, blobs).await {
                Told::Yes => self.taken(),
                Told::No => self.end_unwanted().await,
            }
        });
    }

    /// Nothing comes of the effect.
    pub(crate) async fn end_unwanted(mut self) {
        drop(self.receipt.take());
        tokio::select! {
            biased;
            () = self.outlet.cancel.cancelled() => {}
            () = self.outlet.engine.inner.draining.cancelled() => {}
            () = pause(REST) => {}
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if !self.is_taken {
            self.mailbox.effect_ended(self.effect_id);
        }
    }
}

/// Whether the session may take the same outcome a little later.
pub(crate) fn is_worth_another_try(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(_) | EngineError::Busy { .. })
}

/// Tells the gateway what became of a report, however telling the session ends.
pub(crate) struct PendingReceipt {
    engine: Engine,
    request: ToolRequest,
    worker: String,
    receipt: Receipt,
}

impl PendingReceipt {
    /// For a worker that keeps the report until it is told.
    pub(crate) fn new(engine: Engine, request: ToolRequest, worker: String) -> Self {
        Self { engine, request, worker, receipt: Receipt::NotTaken }
    }
}

impl Drop for PendingReceipt {
    fn drop(&mut self) {
        self.engine.inner.ports.tools.settled(&self.worker, &self.request, self.receipt);
    }
}
