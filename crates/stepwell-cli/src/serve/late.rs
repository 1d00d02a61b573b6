//! Reports of workers on calls that nobody follows any more: told to their sessions, then to the
//! workers, which keep them until then.

use stepwell_core::event::ToolFinished;
use stepwell_core::{Input, Text};
use stepwell_ports::ToolReport;
use stepwell_runtime::{Engine, EngineError};
use stepwell_server::gateway::{LateReport, WorkerGateway};
use tokio_util::sync::CancellationToken;

/// Runs until `stop`.
pub(crate) async fn record(engine: &Engine, gateway: &WorkerGateway, stop: &CancellationToken) {
    let Some(mut reports) = gateway.late_reports() else { return };
    loop {
        let report = tokio::select! {
            report = reports.recv() => report,
            () = stop.cancelled() => return,
        };
        let Some(report) = report else { return };
        if is_settled(engine, &report).await {
            report.acknowledge();
        }
    }
}

/// Whether the report is in the log, or the session has no use for it.
async fn is_settled(engine: &Engine, late: &LateReport) -> bool {
    let ToolReport::Finished { outcome, output, duration_ms, .. } = &late.report else {
        return true;
    };
    let report = ToolFinished {
        call_id: late.call_id,
        attempt: late.attempt,
        outcome: *outcome,
        output: Text::from(output.as_str()),
        full_output: None,
        late: true,
        duration_ms: *duration_ms,
    };
    let input = Input::ToolFinished { report, worker: late.worker.clone() };
    match engine.submit(late.session_id, input).await {
        Ok(_)
        | Err(
            EngineError::Rejected(_)
            | EngineError::NotFound { .. }
            | EngineError::Quarantined { .. }
            | EngineError::Invalid { .. }
            | EngineError::KeyTaken { .. },
        ) => true,
        // The worker keeps it and repeats it.
        Err(
            EngineError::Store(_)
            | EngineError::Busy { .. }
            | EngineError::Moved { .. }
            | EngineError::ShuttingDown,
        ) => false,
    }
}
