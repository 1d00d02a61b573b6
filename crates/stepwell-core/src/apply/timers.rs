//! What timers change.

use alloc::format;
use alloc::string::{String, ToString};

use super::{call_mut, close_approval, settle};
use crate::event::{Event, RefusalReason, Timer, TimerFired, TimerStarted};
use crate::state::{CallStatus, ClosedApproval, Phase, SessionState};
use crate::text::Text;

pub(super) fn timer_started(state: &mut SessionState, it: &TimerStarted) -> Result<(), String> {
    match it.timer {
        Timer::ModelRetry if !matches!(state.phase, Phase::Backoff { .. }) => {
            return Err("the model call did not fail".to_string());
        }
        Timer::ModelRetry => state.failure_handled = true,
        Timer::ToolRetry(call_id) => {
            let call = call_mut(state, call_id)?;
            if !matches!(call.status, CallStatus::Lost { .. }) {
                return Err(format!("call {call_id} was not lost"));
            }
            call.status = CallStatus::AwaitingRetry;
        }
        Timer::Sleep(call_id) => {
            if call_mut(state, call_id)?.status != CallStatus::Sleeping {
                return Err(format!("call {call_id} does not sleep"));
            }
        }
        Timer::CancelGrace => state.grace_started = true,
        Timer::ApprovalExpiry(_) | Timer::Deadline => {}
    }
    state.timers.insert(it.timer, it.due_at);
    Ok(())
}

pub(super) fn timer_fired(
    state: &mut SessionState,
    event: &Event,
    it: &TimerFired,
) -> Result<(), String> {
    if !state.timers.contains_key(&it.timer) {
        return Err(format!("the timer {} is not set", it.timer));
    }
    match it.timer {
        Timer::ToolRetry(call_id) => call_mut(state, call_id)?.status = CallStatus::Approved,
        Timer::Sleep(call_id) => settle(state, call_id, Text::from("The time is over."))?,
        Timer::ApprovalExpiry(approval_id) => {
            let call_id = state.approvals.get(&approval_id).map(|approval| approval.call_id);
            let call_id = call_id.ok_or_else(|| format!("approval {approval_id} is not open"))?;
            let message = "nobody decided in time whether it may run".to_string();
            let status = CallStatus::TurnedDown { reason: RefusalReason::Expired, message };
            call_mut(state, call_id)?.status = status;
            let closed = ClosedApproval {
                decision: None,
                by: event.actor.clone(),
                at: event.time,
                reason: String::new(),
            };
            close_approval(state, approval_id, closed);
        }
        Timer::Deadline => state.deadline_passed = true,
        Timer::ModelRetry | Timer::CancelGrace => {}
    }
    state.timers.remove(&it.timer);
    Ok(())
}
