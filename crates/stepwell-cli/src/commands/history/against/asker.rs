//! The model of a run: the real one, with a gate before it.
//!
//! What people said in the recorded session is said in the run after the same step: that is after the
//! request of the step is in the log and before it is sent, so that no answer can come first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use stepwell_ports::{ModelAnswer, ModelFailure, ModelPort, ModelRequest, ModelSink};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;
use super::record::Key;

/// A step is about to be asked. Dropping it, or sending, opens the gate.
pub(super) struct Gate {
    pub(super) step: u32,
    pub(super) open: oneshot::Sender<()>,
}

/// See the module.
pub(super) struct Asker {
    pub(super) model: Arc<dyn ModelPort>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) gates: mpsc::Sender<Gate>,
    /// Whether the model has answered, in any run.
    pub(super) has_answered: Arc<AtomicBool>,
}

#[async_trait]
impl ModelPort for Asker {
    async fn ask(
        &self,
        request: ModelRequest,
        sink: Arc<dyn ModelSink>,
        cancel: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure> {
        let step = request.step;
        let (open, opened) = oneshot::channel();
        if self.gates.send(Gate { step, open }).await.is_ok() {
            // A gate that nobody keeps any more is open: the run is about to end.
            let _ = opened.await;
        }
        let answer = self.model.ask(request, sink, cancel).await?;
        self.has_answered.store(true, Ordering::Relaxed);
        let keys = answer.tool_calls.iter().map(|call| Key::of(&call.name, &call.arguments));
        self.ledger.note_reply(step, keys);
        Ok(answer)
    }
}
