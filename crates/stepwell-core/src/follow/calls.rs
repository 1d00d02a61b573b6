//! What follows for a tool call: may it run, must a person be asked, what after it was lost?

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::jitter;
use crate::agent::{Agent, ToolKind, ToolSpec, Verdict};
use crate::apply::{CUT_OFF, FILTERED};
use crate::event::{
    ApprovalRequested, EventBody, Question, RefusalReason, Timer, TimerStarted, ToolRefused,
    ToolScheduled,
};
use crate::ids::{ApprovalId, CallId, TimestampMs};
use crate::json::action_digest;
use crate::output::NOT_ASKED;
use crate::policy::{Ruling, arguments_value, hides_argument, rule_on, rulings};
use crate::state::{Call, CallStatus, SessionState};

/// Name of the argument of `sleep`.
pub(crate) const SECONDS: &str = "seconds";

/// A call of the current step, and what a decision about it looks at.
#[derive(Clone, Copy)]
pub(super) struct OpenCall<'a> {
    pub(super) state: &'a SessionState,
    pub(super) agent: &'a Agent,
    pub(super) call_id: CallId,
    pub(super) call: &'a Call,
    pub(super) now: TimestampMs,
}

/// The next decision about a call, or `None` when it waits for the outside.
pub(super) fn follow_call(open: OpenCall<'_>) -> Option<EventBody> {
    let OpenCall { state, call_id, call, now, .. } = open;
    let is_held = state.is_held();
    match &call.status {
        CallStatus::Proposed
        | CallStatus::Approved
        | CallStatus::Lost { never_started: true, .. }
            if is_held =>
        {
            None
        }
        CallStatus::Proposed => Some(judge(open)),
        CallStatus::Approved if open.agent.tool(&call.tool).is_none() => Some(refuse_unknown(open)),
        CallStatus::Approved => Some(schedule(call_id, call)),
        CallStatus::TurnedDown { reason, message } => {
            Some(ToolRefused { call_id, reason: *reason, message: message.clone() }.into())
        }
        CallStatus::Lost { never_started: true, .. } => Some(start_again(open)),
        CallStatus::Lost { reason, never_started: false } => Some(after_loss(open, reason)),
        CallStatus::Sleeping if !state.timers.contains_key(&Timer::Sleep(call_id)) => {
            let due_at = now.plus_ms(sleep_ms(call).unwrap_or(0));
            Some(TimerStarted { timer: Timer::Sleep(call_id), due_at }.into())
        }
        CallStatus::AwaitingApproval
        | CallStatus::Scheduled
        | CallStatus::Dispatched { .. }
        | CallStatus::AwaitingRetry
        | CallStatus::AwaitingOutcome
        | CallStatus::AwaitingAnswer
        | CallStatus::Sleeping
        | CallStatus::Settled { .. } => None,
    }
}

fn schedule(call_id: CallId, call: &Call) -> EventBody {
    ToolScheduled { call_id, attempt: call.attempt + 1, approval_id: call.approval }.into()
}

/// May a proposed call run?
fn judge(open: OpenCall<'_>) -> EventBody {
    let OpenCall { agent, call, .. } = open;
    let Some(tool) = agent.tool(&call.tool) else { return refuse_unknown(open) };
    if let Some(problem) = &call.problem {
        let reason = if problem == CUT_OFF || problem == FILTERED {
            RefusalReason::CutOff
        } else if problem.starts_with(NOT_ASKED) {
            RefusalReason::Forbidden
        } else {
            RefusalReason::BadArguments
        };
        return refuse(open, reason, problem.clone());
    }
    if tool.kind == ToolKind::Sleep && sleep_ms(call).is_none() {
        return refuse_seconds(open);
    }
    let arguments = arguments_value(call.effective_arguments());
    ruled(open, tool, rule_on(agent, tool, &arguments))
}

/// What may come of a proposed call where a marker stands for a text that nobody knows any more.
pub(super) fn outcomes(open: OpenCall<'_>) -> Vec<EventBody> {
    let OpenCall { agent, call, .. } = open;
    let tool = match agent.tool(&call.tool) {
        Some(tool) if call.problem.is_none() => tool,
        Some(_) | None => return alloc::vec![judge(open)],
    };
    let arguments = arguments_value(call.effective_arguments());
    let mut outcomes = Vec::new();
    if tool.kind == ToolKind::Sleep {
        let is_hidden = hides_argument(&arguments, SECONDS);
        if is_hidden || sleep_ms(call).is_none() {
            outcomes.push(refuse_seconds(open));
        }
        if !is_hidden && sleep_ms(call).is_none() {
            return outcomes;
        }
    }
    let rulings = rulings(agent, tool, &arguments);
    outcomes.extend(rulings.into_iter().map(|ruling| ruled(open, tool, ruling)));
    outcomes
}

fn refuse(open: OpenCall<'_>, reason: RefusalReason, message: String) -> EventBody {
    ToolRefused { call_id: open.call_id, reason, message }.into()
}

fn refuse_seconds(open: OpenCall<'_>) -> EventBody {
    let message = format!("`{SECONDS}` must be a number that is not negative");
    refuse(open, RefusalReason::BadArguments, message)
}

fn ruled(open: OpenCall<'_>, tool: &ToolSpec, ruling: Ruling) -> EventBody {
    let OpenCall { state, agent, call_id, call, now } = open;
    match ruling.verdict {
        Verdict::Allow => schedule(call_id, call),
        Verdict::Ask if state.grants.contains(&tool.name) => schedule(call_id, call),
        Verdict::Ask => {
            let expires_at = agent.approval_expires_after_ms.map(|ms| now.plus_ms(ms));
            ask(open, Question::MayRun, ruling.rule, expires_at)
        }
        Verdict::Deny => {
            refuse(open, RefusalReason::Forbidden, format!("forbidden by {}", ruling.rule))
        }
    }
}

fn ask(
    open: OpenCall<'_>,
    question: Question,
    rule: String,
    expires_at: Option<TimestampMs>,
) -> EventBody {
    let action = arguments_value(open.call.effective_arguments());
    ApprovalRequested {
        approval_id: ApprovalId(open.state.head.next().0),
        call_id: open.call_id,
        question,
        action_digest: action_digest(&open.call.tool, &action),
        rule,
        expires_at,
    }
    .into()
}

fn refuse_unknown(open: OpenCall<'_>) -> EventBody {
    let message = unknown_tool(open.agent, &open.call.tool);
    ToolRefused { call_id: open.call_id, reason: RefusalReason::UnknownTool, message }.into()
}

fn unknown_tool(agent: &Agent, name: &str) -> String {
    let known: Vec<&str> = agent.tools.iter().map(|tool| tool.name.as_str()).collect();
    if known.is_empty() {
        format!("there is no tool `{name}`; this agent has no tools, answer in words")
    } else {
        format!("there is no tool `{name}`; use one of: {}", known.join(", "))
    }
}

/// A call was lost: start it again if that can do no harm, else ask a person.
fn after_loss(open: OpenCall<'_>, reason: &str) -> EventBody {
    let OpenCall { agent, call_id, call, .. } = open;
    // A fork's agent may have no such tool any more; that does not undo what was started.
    if agent.tool(&call.tool).is_none_or(|tool| !tool.effect.may_repeat()) {
        let rule = format!(
            "`{}` is a write tool, it was started, and its outcome is unknown: {reason}",
            call.tool
        );
        return ask(open, Question::WhatHappened, rule, None);
    }
    if call.attempt >= agent.limits.tool_attempts_max {
        let message = format!("its worker was lost {} times, the last: {reason}", call.attempt);
        return ToolRefused { call_id, reason: RefusalReason::WorkerLost, message }.into();
    }
    retry_later(open, call.attempt.saturating_sub(1))
}

/// How often a call that never began is started again at once; then it waits between, so that a
/// worker that takes calls and drops them does not fill the log.
const STARTS_AT_ONCE_MAX: u32 = 3;

/// A call never began: whatever the tool does, it may start again.
fn start_again(open: OpenCall<'_>) -> EventBody {
    match open.call.attempt.checked_sub(STARTS_AT_ONCE_MAX) {
        None => schedule(open.call_id, open.call),
        Some(doublings) => retry_later(open, doublings),
    }
}

fn retry_later(open: OpenCall<'_>, doublings: u32) -> EventBody {
    let OpenCall { state, agent, call_id, call, now } = open;
    let wait = agent.retry.wait_ms(doublings);
    let due_at = now.plus_ms(wait.saturating_add(jitter(state, call.attempt, wait / 4)));
    TimerStarted { timer: Timer::ToolRetry(call_id), due_at }.into()
}

/// The wait that a `sleep` call asks for. Saturates: a huge number of seconds never fires.
fn sleep_ms(call: &Call) -> Option<u64> {
    let value = arguments_value(call.effective_arguments());
    let seconds = value.get(SECONDS)?.as_f64()?;
    // `as` saturates at the ends of u64 and NaN was excluded.
    (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1_000.0) as u64)
}
