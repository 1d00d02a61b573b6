//! The tools of a run: recorded results, and what the flag says for everything else.

use std::sync::Arc;

use async_trait::async_trait;
use stepwell_core::event::ToolOutcome;
use stepwell_ports::tools::OutputSink;
use stepwell_ports::{ToolGateway, ToolProbe, ToolReport, ToolRequest, ToolSlot};
use tokio_util::sync::CancellationToken;

use super::ledger::{Ledger, Origin};
use super::live::Workshop;
use super::record::{Key, Record};

/// Name of the worker in the history of a run.
const WORKER: &str = "record";

/// What becomes of a call that is not in the record.
#[derive(Clone)]
pub(super) enum Otherwise {
    /// The model is told.
    Tell,
    /// The run ends.
    Leave,
    /// The tool runs.
    Run(Arc<Workshop>),
}

/// Serves one run.
pub(super) struct RecordGateway {
    pub(super) record: Arc<Record>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) otherwise: Otherwise,
}

#[async_trait]
impl ToolGateway for RecordGateway {
    async fn reserve(&self, _request: &ToolRequest) -> ToolSlot {
        ToolSlot { worker: WORKER.to_owned(), place: Box::new(()) }
    }

    async fn run(
        &self,
        slot: ToolSlot,
        request: ToolRequest,
        _sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolReport {
        drop(slot);
        let key = Key::of(&request.tool.name, &request.arguments);
        let nth = self.ledger.place(request.call_id, &key);
        if let Some(recorded) = self.record.recordings.result(&key, nth) {
            self.ledger.count(Origin::Served);
            return report(recorded.outcome, recorded.output.preview().to_owned());
        }
        match &self.otherwise {
            Otherwise::Tell => self.ledger.count(Origin::Unrecorded),
            Otherwise::Leave => {
                self.ledger.count(Origin::Unrecorded);
                self.ledger.leave(format!("call {}: {}", request.call_id, key.in_words()));
                // Whoever reads the token ends the session; until then the model must not be asked.
                cancel.cancelled().await;
            }
            Otherwise::Run(workshop) => {
                if let Some(report) = workshop.run(&request, cancel).await {
                    self.ledger.count(Origin::Live);
                    return report;
                }
                self.ledger.count(Origin::Unrecorded);
                let name = &request.tool.name;
                let problem = format!(
                    "no result is recorded for this call of `{name}`, and `{name}` is none of the \
                     built-in tools that can run here"
                );
                return report(ToolOutcome::Error, problem);
            }
        }
        let name = &request.tool.name;
        let problem = format!("no result is recorded for `{name}` with these arguments");
        report(ToolOutcome::Error, problem)
    }

    async fn probe(
        &self,
        _worker: &str,
        _request: ToolRequest,
        _sink: Arc<dyn OutputSink>,
        _cancel: CancellationToken,
    ) -> ToolProbe {
        // A run has one engine for all its life: no earlier one has started anything.
        ToolProbe::NeverStarted
    }

    fn changes(&self) -> u64 {
        0
    }

    async fn changed_since(&self, _seen: u64) {
        std::future::pending::<()>().await;
    }

    fn offers(&self, _tool: &str) -> bool {
        true
    }
}

fn report(outcome: ToolOutcome, output: String) -> ToolReport {
    ToolReport::Finished { outcome, output, full_output: None, duration_ms: 0 }
}
