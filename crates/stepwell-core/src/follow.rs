//! What follows: the next decision of a session that was told something.
//!
//! Invariant: depends on the state and `now` only; every decision it returns changes the state, so
//! that asking again and again comes to an end.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::agent::{Agent, RETRY_AFTER_MS_MAX, ToolKind, ToolSpec, Verdict};
use crate::apply::CUT_OFF;
use crate::event::{
    ApprovalRequested, EventBody, FinishReason, LimitKind, ModelErrorKind, ModelFailed,
    ModelRequested, Outcome, Question, RefusalReason, SessionFinished, Timer, TimerStarted,
    ToolRefused, ToolScheduled,
};
use crate::ids::{ApprovalId, CallId, TimestampMs};
use crate::json::action_digest;
use crate::policy::{arguments_value, rule_on};
use crate::state::{Call, CallStatus, Phase, SessionState};

/// How long tools may take to stop after a cancel before the session ends without them.
pub const CANCEL_GRACE_MS: u64 = 10_000;

/// The next decision, or `None` when the session waits for the outside.
pub(crate) fn next_decision(state: &SessionState, now: TimestampMs) -> Option<EventBody> {
    let origin = state.origin.as_ref()?;
    let agent = &*origin.agent;
    if state.is_finished() {
        return None;
    }
    if state.cancelled.is_some() {
        return follow_cancel(state, now);
    }
    if state.deadline_passed {
        let reason = "the session's time is up".to_string();
        return Some(limit_reached(LimitKind::Deadline, reason));
    }
    if let Some(tool) = &state.repeated {
        let (count, window) = (agent.limits.repeat_count, agent.limits.repeat_window);
        let reason = format!(
            "the model asked for the same call of `{tool}` {count} times within its last \
             {window} actions"
        );
        return Some(limit_reached(LimitKind::RepeatedAction, reason));
    }
    match state.phase {
        Phase::Absent | Phase::Thinking { .. } | Phase::Finished { .. } => None,
        Phase::Backoff { attempt } => follow_failure(state, agent, attempt, now),
        Phase::Ready if state.paused.is_some() => None,
        Phase::Ready => Some(ask_or_stop(state, agent)),
        Phase::Listening => follow_answer(state, agent),
        Phase::Acting => state
            .calls
            .iter()
            .find_map(|(call_id, call)| follow_call(state, agent, *call_id, call, now)),
    }
}

fn follow_cancel(state: &SessionState, now: TimestampMs) -> Option<EventBody> {
    let runs =
        |call: &Call| matches!(call.status, CallStatus::Scheduled | CallStatus::Dispatched { .. });
    let waits_for_tools = state.calls.values().any(runs);
    if waits_for_tools && !state.grace_started {
        let due_at = now.plus_ms(CANCEL_GRACE_MS);
        return Some(TimerStarted { timer: Timer::CancelGrace, due_at }.into());
    }
    if waits_for_tools && state.timers.contains_key(&Timer::CancelGrace) {
        return None;
    }
    let reason = state.cancelled.as_ref().map(|stop| stop.reason.clone()).unwrap_or_default();
    Some(SessionFinished { outcome: Outcome::Cancelled, reason, limit: None }.into())
}

fn limit_reached(limit: LimitKind, reason: String) -> EventBody {
    SessionFinished { outcome: Outcome::LimitReached, reason, limit: Some(limit) }.into()
}

fn failed(reason: String) -> EventBody {
    SessionFinished { outcome: Outcome::Failed, reason, limit: None }.into()
}

/// Asks the model for the next step, unless a limit says no.
fn ask_or_stop(state: &SessionState, agent: &Agent) -> EventBody {
    if state.step >= agent.limits.steps_max {
        let reason = format!("{} of {} steps are used", state.step, agent.limits.steps_max);
        return limit_reached(LimitKind::Steps, reason);
    }
    if let Some(tokens_max) = agent.limits.tokens_max
        && state.usage.total() >= tokens_max
    {
        let reason = format!("{} of {tokens_max} tokens are used", state.usage.total());
        return limit_reached(LimitKind::Tokens, reason);
    }
    request(state, state.step + 1, 1)
}

fn request(state: &SessionState, step: u32, attempt: u32) -> EventBody {
    ModelRequested {
        step,
        attempt,
        prompt_digest: state.prompt.digest(),
        prompt_bytes: state.prompt.body_bytes(),
    }
    .into()
}

/// The model answered without calls: the end, or a wait for the next message.
fn follow_answer(state: &SessionState, agent: &Agent) -> Option<EventBody> {
    match state.last_finish {
        Some(FinishReason::Length) => {
            let reason = "the model's output limit (max_tokens) cut its answer off".to_string();
            Some(limit_reached(LimitKind::OutputTokens, reason))
        }
        Some(FinishReason::ContentFilter) => {
            Some(failed("the model server's content filter stopped the answer".to_string()))
        }
        // A held session does not end either: a person may still want to say something.
        Some(FinishReason::Stop | FinishReason::ToolCalls) | None
            if state.paused.is_some() || agent.interactive =>
        {
            None
        }
        Some(FinishReason::Stop | FinishReason::ToolCalls) | None => Some(
            SessionFinished { outcome: Outcome::Completed, reason: String::new(), limit: None }
                .into(),
        ),
    }
}

/// A model call failed: wait and ask again, or end.
fn follow_failure(
    state: &SessionState,
    agent: &Agent,
    attempt: u32,
    now: TimestampMs,
) -> Option<EventBody> {
    if let Some(failure) = &state.model_failure
        && !state.failure_handled
    {
        return Some(after_failure(state, agent, failure, now));
    }
    if state.timers.contains_key(&Timer::ModelRetry) || state.paused.is_some() {
        return None;
    }
    Some(request(state, state.step, attempt))
}

fn after_failure(
    state: &SessionState,
    agent: &Agent,
    failure: &ModelFailed,
    now: TimestampMs,
) -> EventBody {
    let told = format!("{}: {}", failure.endpoint, failure.message);
    if failure.error == ModelErrorKind::ContextTooLong {
        return limit_reached(LimitKind::Context, told);
    }
    if !failure.error.is_transient() {
        return failed(told);
    }
    if failure.attempt >= agent.retry.attempts_max {
        return failed(format!("{} attempts failed, the last: {told}", failure.attempt));
    }
    let due_at = now.plus_ms(backoff_ms(state, agent, failure));
    TimerStarted { timer: Timer::ModelRetry, due_at }.into()
}

/// Exponential backoff with jitter; a server's `Retry-After` is kept at least as long as asked.
fn backoff_ms(state: &SessionState, agent: &Agent, failure: &ModelFailed) -> u64 {
    let policy = &agent.retry;
    if let Some(asked) = failure.retry_after_ms {
        let wait = asked.clamp(policy.base_ms, RETRY_AFTER_MS_MAX.max(policy.base_ms));
        return wait.saturating_add(jitter(state, failure.attempt, (wait / 10).min(1_000)));
    }
    let doublings = failure.attempt.saturating_sub(1).min(40);
    let wait = policy.base_ms.saturating_mul(1 << doublings).min(policy.cap_ms);
    wait.saturating_add(jitter(state, failure.attempt, wait / 4))
}

/// A number from 0 to `max` that differs between sessions and attempts and is the same on replay.
fn jitter(state: &SessionState, attempt: u32, max: u64) -> u64 {
    let mut hasher = blake3::Hasher::new();
    if let Some(origin) = &state.origin {
        hasher.update(origin.seed.as_bytes());
    }
    hasher.update(&state.step.to_le_bytes());
    hasher.update(&attempt.to_le_bytes());
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes) % (max.saturating_add(1)).max(1)
}

fn follow_call(
    state: &SessionState,
    agent: &Agent,
    call_id: CallId,
    call: &Call,
    now: TimestampMs,
) -> Option<EventBody> {
    let is_held = state.paused.is_some();
    match &call.status {
        CallStatus::Proposed | CallStatus::Approved if is_held => None,
        CallStatus::Proposed => Some(judge(state, agent, call_id, call, now)),
        CallStatus::Approved => Some(schedule(call_id, call)),
        CallStatus::TurnedDown { reason, message } => {
            Some(ToolRefused { call_id, reason: *reason, message: message.clone() }.into())
        }
        CallStatus::Lost { reason } => Some(after_loss(state, agent, call_id, call, reason, now)),
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
fn judge(
    state: &SessionState,
    agent: &Agent,
    call_id: CallId,
    call: &Call,
    now: TimestampMs,
) -> EventBody {
    let refuse = |reason, message: String| ToolRefused { call_id, reason, message }.into();
    let Some(tool) = agent.tool(&call.tool) else {
        return refuse(RefusalReason::UnknownTool, unknown_tool(agent, &call.tool));
    };
    if let Some(problem) = &call.problem {
        let cut_off = problem == CUT_OFF;
        let reason = if cut_off { RefusalReason::CutOff } else { RefusalReason::BadArguments };
        return refuse(reason, problem.clone());
    }
    if tool.kind == ToolKind::Sleep && sleep_ms(call).is_none() {
        let message = "`seconds` must be a number that is not negative".to_string();
        return refuse(RefusalReason::BadArguments, message);
    }
    let arguments = arguments_value(call.effective_arguments());
    let ruling = rule_on(agent, tool, &arguments);
    match ruling.verdict {
        Verdict::Allow => schedule(call_id, call),
        Verdict::Ask if state.grants.contains(&tool.name) => schedule(call_id, call),
        Verdict::Ask => {
            let expires_at = agent.approval_expires_after_ms.map(|ms| now.plus_ms(ms));
            ask(state, call_id, tool, Question::MayRun, (ruling.rule, expires_at), call)
        }
        Verdict::Deny => refuse(RefusalReason::Forbidden, format!("forbidden by {}", ruling.rule)),
    }
}

fn ask(
    state: &SessionState,
    call_id: CallId,
    tool: &ToolSpec,
    question: Question,
    (rule, expires_at): (String, Option<TimestampMs>),
    call: &Call,
) -> EventBody {
    let action = arguments_value(call.effective_arguments());
    ApprovalRequested {
        approval_id: ApprovalId(state.head.next().0),
        call_id,
        question,
        action_digest: action_digest(&tool.name, &action),
        rule,
        expires_at,
    }
    .into()
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
fn after_loss(
    state: &SessionState,
    agent: &Agent,
    call_id: CallId,
    call: &Call,
    reason: &str,
    now: TimestampMs,
) -> EventBody {
    let Some(tool) = agent.tool(&call.tool) else {
        let message = unknown_tool(agent, &call.tool);
        return ToolRefused { call_id, reason: RefusalReason::UnknownTool, message }.into();
    };
    if !tool.effect.may_repeat() {
        let rule = format!(
            "`{}` is a write tool, it was started, and its outcome is unknown: {reason}",
            tool.name
        );
        return ask(state, call_id, tool, Question::WhatHappened, (rule, None), call);
    }
    if call.attempt >= agent.limits.tool_attempts_max {
        let message = format!("its worker was lost {} times, the last: {reason}", call.attempt);
        return ToolRefused { call_id, reason: RefusalReason::WorkerLost, message }.into();
    }
    let doublings = call.attempt.saturating_sub(1).min(40);
    let wait = agent.retry.base_ms.saturating_mul(1 << doublings).min(agent.retry.cap_ms);
    let due_at = now.plus_ms(wait.saturating_add(jitter(state, call.attempt, wait / 4)));
    TimerStarted { timer: Timer::ToolRetry(call_id), due_at }.into()
}

/// The wait that a `sleep` call asks for. Saturates: a huge number of seconds never fires.
fn sleep_ms(call: &Call) -> Option<u64> {
    let value = arguments_value(call.effective_arguments());
    let seconds = value.get("seconds")?.as_f64()?;
    // `as` saturates at the ends of u64 and NaN was excluded.
    (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1_000.0) as u64)
}
