//! Reports that came after their call was given up, or on calls that nobody asked about.
//!
//! They are worth having: a late report answers the question that a lost write became, and a session
//! that ended without it records it as late.

use std::sync::Weak;

use stepwell_core::{CallId, SessionId};
use stepwell_ports::ToolReport;

use super::Shared;
use super::hello::CallKey;

/// A report without a follower. The engine is to be told, and then the worker
/// ([`LateReport::acknowledge`]). Dropped without that, the worker keeps the report: it repeats it after
/// its next connect, and is asked for it again by [`super::WorkerGateway::tend`].
pub struct LateReport {
    /// The session.
    pub session_id: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The attempt.
    pub attempt: u32,
    /// The worker, as in [`stepwell_ports::ToolSlot`].
    pub worker: String,
    /// Always [`ToolReport::Finished`].
    pub report: ToolReport,
    fence: u64,
    shared: Weak<Shared>,
}

impl LateReport {
    pub(super) fn new(
        shared: Weak<Shared>,
        (key, fence): (CallKey, u64),
        worker: String,
        report: ToolReport,
    ) -> Self {
        let CallKey { session_id, call_id, attempt } = key;
        Self { session_id, call_id, attempt, worker, report, fence, shared }
    }

    /// The report is durable or void; the worker may forget it.
    pub fn acknowledge(self) {
        if let Some(shared) = self.shared.upgrade() {
            let Self { session_id, call_id, attempt, .. } = self;
            let key = CallKey { session_id, call_id, attempt };
            shared.fleet().settle_late(&self.worker, key, self.fence);
        }
    }
}

impl std::fmt::Debug for LateReport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LateReport")
            .field("session_id", &self.session_id)
            .field("call_id", &self.call_id)
            .field("attempt", &self.attempt)
            .field("worker", &self.worker)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
