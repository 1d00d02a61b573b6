//! The reference model: a page of naive code that knows what a whole history looks like, without any
//! of the rules that made it.

use std::collections::{BTreeMap, BTreeSet};

use stepwell_core::event::{ApprovalDecision, Event, EventBody, Outcome, Timer, ToolFinished};
use stepwell_core::{ApprovalId, CallId};

#[derive(Default)]
struct Page {
    /// Calls of the current step: started attempts, and whether an outcome is recorded.
    calls: BTreeMap<CallId, (u32, bool)>,
    replied: BTreeSet<u32>,
    step: u32,
    asked: Option<(u32, u32)>,
    open_approvals: BTreeMap<ApprovalId, CallId>,
    is_cancelled: bool,
    is_finished: bool,
}

/// Reads a history from its first event.
///
/// # Errors
/// The first event that has no place in it.
pub(super) fn check(log: &[Event]) -> Result<(), String> {
    let mut page = Page::default();
    for event in log {
        page.read(event).map_err(|what| format!("event {}: {what}", event.seq))?;
    }
    Ok(())
}

fn ensure(is_so: bool, what: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.to_string()) }
}

impl Page {
    fn read(&mut self, event: &Event) -> Result<(), String> {
        let is_late =
            matches!(&event.body, EventBody::ToolFinished(ToolFinished { late: true, .. }));
        ensure(!self.is_finished || is_late, "it comes after the end")?;
        match &event.body {
            EventBody::SessionCreated(_) => ensure(event.seq.0 == 1, "it is created again"),
            EventBody::ModelRequested(_)
            | EventBody::ModelReplied(_)
            | EventBody::ModelFailed(_) => self.read_model(&event.body),
            EventBody::ToolScheduled(_)
            | EventBody::ToolDispatched(_)
            | EventBody::ToolLost(_)
            | EventBody::ToolFinished(_)
            | EventBody::ToolRefused(_) => self.read_tool(&event.body),
            EventBody::ApprovalRequested(_)
            | EventBody::ApprovalDecided(_)
            | EventBody::MessageReceived(_)
            | EventBody::TimerFired(_) => self.read_answer(&event.body),
            EventBody::CancelRequested(_) => {
                ensure(!self.is_cancelled, "it is cancelled twice")?;
                (self.is_cancelled, self.asked) = (true, None);
                Ok(())
            }
            EventBody::SessionFinished(it) => {
                let is_completed = it.outcome == Outcome::Completed;
                ensure(!is_completed || self.all_settled(), "it completes with an open call")?;
                ensure(!is_completed || self.asked.is_none(), "it completes unanswered")?;
                self.is_finished = true;
                Ok(())
            }
            EventBody::OverrideApplied(_) => Err("nobody forked it".to_string()),
            EventBody::TimerStarted(_)
            | EventBody::PauseRequested(_)
            | EventBody::ResumeRequested(_) => Ok(()),
        }
    }

    fn read_model(&mut self, body: &EventBody) -> Result<(), String> {
        match body {
            EventBody::ModelRequested(it) => {
                ensure(self.all_settled(), "the model is asked while a call is open")?;
                ensure(!self.replied.contains(&it.step), "a step is asked that was answered")?;
                ensure(it.step == self.step || it.step == self.step + 1, "a step is left out")?;
                ensure(self.asked.is_none(), "two requests are open")?;
                ensure(!self.is_cancelled, "the model is asked after a cancel")?;
                (self.step, self.asked) = (it.step, Some((it.step, it.attempt)));
                self.calls.clear();
            }
            EventBody::ModelReplied(it) => {
                ensure(self.asked.take() == Some((it.step, it.attempt)), "nobody asked")?;
                self.replied.insert(it.step);
                self.calls = it.tool_calls.iter().map(|it| (it.call_id, (0, false))).collect();
                ensure(self.calls.len() == it.tool_calls.len(), "two calls have one id")?;
            }
            EventBody::ModelFailed(it) => {
                ensure(self.asked.take() == Some((it.step, it.attempt)), "nobody asked")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn read_tool(&mut self, body: &EventBody) -> Result<(), String> {
        match body {
            EventBody::ToolScheduled(it) => {
                ensure(!self.is_cancelled, "a call is scheduled after a cancel")?;
                let call = self.open(it.call_id)?;
                call.0 += 1;
                ensure(call.0 == it.attempt, "an attempt is left out")
            }
            EventBody::ToolDispatched(it) => {
                ensure(!self.is_cancelled, "a call is dispatched after a cancel")?;
                ensure(self.open(it.call_id)?.0 == it.attempt, "another attempt is dispatched")
            }
            EventBody::ToolLost(it) => {
                let is_cancelled = self.is_cancelled;
                let call = self.open(it.call_id)?;
                ensure(call.0 == it.attempt, "another attempt is lost")?;
                // Nobody waits for it any more.
                call.1 = is_cancelled;
                Ok(())
            }
            EventBody::ToolFinished(it) if !it.late => {
                ensure(self.open(it.call_id)?.0 == it.attempt, "another attempt finished")?;
                // A question about it is withdrawn.
                self.open_approvals.retain(|_, call_id| *call_id != it.call_id);
                self.settle(it.call_id)
            }
            EventBody::ToolRefused(it) => self.settle(it.call_id),
            _ => Ok(()),
        }
    }

    fn read_answer(&mut self, body: &EventBody) -> Result<(), String> {
        match body {
            EventBody::ApprovalRequested(it) => {
                self.open(it.call_id)?;
                let is_new = self.open_approvals.insert(it.approval_id, it.call_id).is_none();
                ensure(is_new, "an approval is asked for twice")
            }
            EventBody::ApprovalDecided(it) => {
                let call_id = self.open_approvals.remove(&it.approval_id);
                ensure(call_id == Some(it.call_id), "the approval is not open")?;
                match it.decision {
                    ApprovalDecision::Happened | ApprovalDecision::Failed => {
                        self.settle(it.call_id)
                    }
                    ApprovalDecision::Approve
                    | ApprovalDecision::ApproveForSession
                    | ApprovalDecision::Deny
                    | ApprovalDecision::DidNotHappen => Ok(()),
                }
            }
            EventBody::MessageReceived(it) => {
                it.answers.map_or(Ok(()), |call_id| self.settle(call_id))
            }
            EventBody::TimerFired(it) => match it.timer {
                Timer::Sleep(call_id) => self.settle(call_id),
                Timer::ApprovalExpiry(id) => {
                    ensure(self.open_approvals.remove(&id).is_some(), "nothing expires")
                }
                Timer::ModelRetry | Timer::ToolRetry(_) | Timer::Deadline | Timer::CancelGrace => {
                    Ok(())
                }
            },
            _ => Ok(()),
        }
    }

    fn all_settled(&self) -> bool {
        self.calls.values().all(|(_, is_settled)| *is_settled)
    }

    fn open(&mut self, call_id: CallId) -> Result<&mut (u32, bool), String> {
        let call = self.calls.get_mut(&call_id).ok_or("there is no such call")?;
        if call.1 { Err("the call is settled".to_string()) } else { Ok(call) }
    }

    fn settle(&mut self, call_id: CallId) -> Result<(), String> {
        self.open(call_id)?.1 = true;
        Ok(())
    }
}
