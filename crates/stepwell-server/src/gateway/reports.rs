//! What a worker reports, and what the engine makes of it.
//!
//! A report counts only with the fence that its call was sent (or asked about) with, for exactly
//! that session, call and attempt, and from the worker that has it. Everything else changes nothing:
//! - a fence that was given out and is over: acknowledged, because the worker may forget it;
//! - a call that the worker brought back and nobody asked about, or that was given up: a late report,
//!   which is offered to the engine;
//! - an attempt that is followed on another worker: acknowledged and dropped;
//! - anything else is a lie. It is acknowledged too, so that an honest but confused worker stops
//!   repeating it; too many of them close the stream.
//!
//! Invariants: as of `fleet`: plain data, no await, no clock. A result is acknowledged only once it is
//! durable or void.

use stepwell_core::event::ToolOutcome;
use stepwell_ports::ToolReport;
use stepwell_ports::tools::Receipt;
use stepwell_proto::v1::{CallReport, call_report};
use tokio::time::Instant;
use tracing::warn;

use super::fleet::Fleet;
use super::held::{HeldState, Watch};
use super::hello::CallKey;
use super::options::LIES_MAX;
use super::worker::{Attention, Said, Worker, WorkerId, ack};

/// What a report meant.
#[derive(Debug)]
pub(super) enum Heard {
    Taken,
    /// Changes nothing.
    Ignored,
    /// Its call was given up, or nobody asked for it.
    Late {
        key: CallKey,
        fence: u64,
        worker: String,
        report: ToolReport,
    },
    /// The worker has lied too often.
    Close(String),
}

impl Fleet {
    /// Takes a report in.
    pub(super) fn report(
        &mut self,
        worker_id: WorkerId,
        report: CallReport,
        now: Instant,
    ) -> Heard {
        let fence = report.fence;
        let key = CallKey::parse(&report.session_id, &report.call_id, report.attempt);
        let has_it = |worker: &Worker| worker.calls.contains_key(&fence);
        let is_known = self.workers.get(&worker_id).is_some_and(has_it);
        let runs_elsewhere = !is_known && key.is_some_and(|it| self.runs_elsewhere(it, worker_id));
        let Some(worker) = self.workers.get_mut(&worker_id) else {
            return Heard::Ignored;
        };
        let Some(key) = key else {
            return worker.lie("a report that names no call");
        };
        let Some(said) = said(report) else {
            return worker.lie("a report without an outcome");
        };
        let heard = if is_known {
            worker.report_on_call((key, fence), said, now)
        } else if worker.was_settled(key, fence) {
            worker.send(ack(key, fence));
            Heard::Ignored
        } else if worker.holds(key, fence) {
            worker.report_on_held((key, fence), said, runs_elsewhere)
        } else {
            worker.send(ack(key, fence));
            worker.lie("a report on a call that it does not hold")
        };
        self.serve(worker_id, now);
        heard
    }

    /// Whether another worker was given this attempt by this server.
    fn runs_elsewhere(&self, key: CallKey, worker_id: WorkerId) -> bool {
        let others = self.workers.iter().filter(|(id, _)| **id != worker_id);
        others.flat_map(|(_, worker)| worker.calls.values()).any(|call| call.key == key)
    }

    /// A late report is durable or void.
    pub(super) fn settle_late(&mut self, label: &str, key: CallKey, fence: u64) {
        if let Some(worker) = self.by_label(label) {
            worker.let_go(key, fence);
            worker.send(ack(key, fence));
        }
    }

    /// The engine says what became of a report that a follower gave it.
    pub(super) fn settled(&mut self, label: &str, key: CallKey, receipt: Receipt, now: Instant) {
        let Some(worker) = self.by_label(label) else {
            return;
        };
        let Some(held) = worker.held.get_mut(&key) else {
            return;
        };
        match receipt {
            Receipt::Durable => {
                let fence = held.fence;
                worker.let_go(key, fence);
                worker.send(ack(key, fence));
            }
            // The worker is asked for it again, and then it is offered as a late one: whether the
            // session has no use for it is found out in one place.
            Receipt::NotTaken if held.state == HeldState::Handed => {
                held.state = HeldState::Reported;
                held.watch = Watch::after(worker.orphan_grace, now);
            }
            Receipt::NotTaken => {}
        }
    }
}

impl Worker {
    /// A report on a call that was sent, or asked about, under this fence.
    fn report_on_call(&mut self, (key, fence): (CallKey, u64), said: Said, now: Instant) -> Heard {
        let Some(call) = self.calls.get_mut(&fence) else {
            return Heard::Ignored;
        };
        if call.key != key {
            return self.lie("the fence of another call");
        }
        match (call.attention, said) {
            (Attention::Followed, said) => {
                call.hear(said);
                Heard::Taken
            }
            (_, Said::Running) => Heard::Ignored,
            (Attention::Unattended | Attention::Abandoned, Said::Finished(report)) => {
                self.remove_call(fence);
                self.hold(key, fence, HeldState::Reported, now);
                self.late(key, fence, report)
            }
            (Attention::Void, Said::Finished(_))
            | (_, Said::NeverStarted { .. } | Said::Unknown) => {
                self.settle(fence);
                self.send(ack(key, fence));
                Heard::Ignored
            }
        }
    }

    /// A report on something that the worker has and nobody follows.
    fn report_on_held(
        &mut self,
        (key, fence): (CallKey, u64),
        said: Said,
        runs_elsewhere: bool,
    ) -> Heard {
        let Some(held) = self.held.get_mut(&key) else {
            return Heard::Ignored;
        };
        match (held.state, said) {
            // Of what is handed over the first word counts: the engine is about to write it down.
            (_, Said::Running) | (HeldState::Handed, _) => Heard::Ignored,
            (HeldState::Brought | HeldState::Reported, Said::Finished(report))
                if !runs_elsewhere =>
            {
                held.state = HeldState::Reported;
                self.late(key, fence, report)
            }
            // That it said to have brought the call back counts for nothing when another worker has
            // it.
            (HeldState::Brought | HeldState::Reported | HeldState::Void, _) => {
                self.let_go(key, fence);
                self.send(ack(key, fence));
                Heard::Ignored
            }
        }
    }

    fn late(&self, key: CallKey, fence: u64, report: ToolReport) -> Heard {
        Heard::Late { key, fence, worker: self.label(), report }
    }

    /// Counts a statement that cannot be true.
    fn lie(&mut self, what: &str) -> Heard {
        self.lies = self.lies.saturating_add(1);
        warn!(worker = self.name, lies = self.lies, what, "the worker reported what cannot be");
        if self.lies < LIES_MAX {
            return Heard::Ignored;
        }
        Heard::Close(format!(
            "this worker reported {LIES_MAX} times what cannot be, the last time {what}: its stream \
             is closed"
        ))
    }
}

fn said(report: CallReport) -> Option<Said> {
    let outcome = match call_report::Outcome::try_from(report.outcome).ok()? {
        call_report::Outcome::Unspecified => return None,
        call_report::Outcome::Running => return Some(Said::Running),
        call_report::Outcome::Unknown => return Some(Said::Unknown),
        call_report::Outcome::NeverStarted => {
            return Some(Said::NeverStarted { reason: report.output });
        }
        call_report::Outcome::Ok => ToolOutcome::Ok,
        call_report::Outcome::Error => ToolOutcome::Error,
    };
    let full_output =
        if report.full_output.is_empty() { None } else { Some(report.full_output.to_vec()) };
    let CallReport { output, duration_ms, .. } = report;
    Some(Said::Finished(ToolReport::Finished { outcome, output, full_output, duration_ms }))
}
