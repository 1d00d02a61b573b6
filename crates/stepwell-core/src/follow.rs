//! What follows: the next decision of a session that was told something.
//!
//! Invariant: depends on the state and `now` only; every decision it returns changes the state, so
//! that asking again and again comes to an end.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::account::Account;
use crate::agent::{Agent, FallbackRule};
use crate::event::{
    EventBody, FinishReason, LimitKind, ModelErrorKind, ModelFailed, ModelRequested, Outcome,
    SessionFinished, Timer, TimerStarted,
};
use crate::ids::{CallId, TimestampMs};
use crate::output::{WhenIgnored, binding};
use crate::pending::may_repeat;
use crate::state::{Call, CallStatus, Phase, SessionState};
use crate::turns::{told, wait_ms};

mod calls;

pub(crate) use calls::SECONDS;
use calls::{OpenCall, follow_call};

/// How long tools may take to stop after a cancel before the session ends without them.
pub const CANCEL_GRACE_MS: u64 = 10_000;

/// Stands before the last problem in the reason of a session whose replies could not be used.
pub(crate) const LAST_PROBLEM: &str = "; the last: ";

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
    if !state.ignored.is_empty() && agent.output.when_ignored == WhenIgnored::Fail {
        return Some(failed(state.ignored.clone()));
    }
    match state.phase {
        Phase::Absent | Phase::Thinking { .. } | Phase::Finished { .. } => None,
        Phase::Backoff { attempt } => follow_failure(state, agent, attempt, now),
        Phase::Ready if state.is_held() => None,
        Phase::Ready => Some(ask_or_stop(state, agent)),
        Phase::Listening => follow_answer(state, agent),
        Phase::Acting => state
            .calls
            .iter()
            .find_map(|(id, call)| follow_call(OpenCall { state, agent, call_id: *id, call, now })),
    }
}

/// What may follow for a proposed call where markers stand in what is looked at.
pub(crate) fn outcomes(state: &SessionState, call_id: CallId, now: TimestampMs) -> Vec<EventBody> {
    let proposed = state.calls.get(&call_id).filter(|it| it.status == CallStatus::Proposed);
    match (state.agent(), proposed) {
        (Some(agent), Some(call)) => calls::outcomes(OpenCall { state, agent, call_id, call, now }),
        (None, _) | (_, None) => Vec::new(),
    }
}

fn follow_cancel(state: &SessionState, now: TimestampMs) -> Option<EventBody> {
    let waits_for_tools = state.calls.values().any(|call| may_run(state, call));
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

/// Whether a worker may have the call: one that must not run twice is told to the session first.
fn may_run(state: &SessionState, call: &Call) -> bool {
    match &call.status {
        CallStatus::Scheduled => may_repeat(state, call),
        CallStatus::Dispatched { .. } => true,
        CallStatus::Proposed
        | CallStatus::AwaitingApproval
        | CallStatus::Approved
        | CallStatus::TurnedDown { .. }
        | CallStatus::Lost { .. }
        | CallStatus::AwaitingRetry
        | CallStatus::AwaitingOutcome
        | CallStatus::AwaitingAnswer
        | CallStatus::Sleeping
        | CallStatus::Settled { .. } => false,
    }
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
        && used_tokens(state) >= tokens_max
    {
        let mut reason = format!("{} of {tokens_max} tokens are used", used_tokens(state));
        let Account { uncounted_replies, uncounted_tokens, .. } = &state.account;
        if *uncounted_replies > 0 {
            let estimated = format!(
                "; {uncounted_tokens} of them are estimated by size, because the server told none \
                 for {uncounted_replies} of its replies"
            );
            reason.push_str(&estimated);
        }
        return limit_reached(LimitKind::Tokens, reason);
    }
    let replies_max = agent.limits.unusable_replies_max;
    if replies_max > 0 && state.unusable_replies >= replies_max {
        let reason = format!(
            "replies in a row that could not be used: {}{LAST_PROBLEM}{}",
            state.unusable_replies, state.unusable_reason
        );
        return limit_reached(LimitKind::UnusableReplies, reason);
    }
    request(state, agent, state.step + 1, 1)
}

fn used_tokens(state: &SessionState) -> u64 {
    state.usage.total().saturating_add(state.account.uncounted_tokens)
}

fn request(state: &SessionState, agent: &Agent, step: u32, attempt: u32) -> EventBody {
    let mut prompt = state.request(attempt);
    prompt.end_with(&binding(state, agent).members());
    ModelRequested {
        step,
        attempt,
        prompt_digest: prompt.digest(),
        prompt_bytes: prompt.body_bytes(),
        fallback: agent.model.fallback(state.place(attempt)).map(|it| it.name.clone()),
    }
    .into()
}

/// The model answered without calls: the end, or a wait for the next message.
fn follow_answer(state: &SessionState, agent: &Agent) -> Option<EventBody> {
    match state.last_finish {
        Some(FinishReason::Length) => {
            let reason = match &state.finish_word {
                None => "the model's output limit (max_tokens) cut its answer off".to_string(),
                Some(word) => format!("the server cut the answer off (finish_reason `{word}`)"),
            };
            Some(limit_reached(LimitKind::OutputTokens, reason))
        }
        Some(FinishReason::ContentFilter) => {
            Some(failed("the model server's content filter stopped the answer".to_string()))
        }
        // A held session does not end either: a person may still want to say something.
        Some(FinishReason::Stop | FinishReason::ToolCalls) | None
            if state.is_held() || agent.interactive =>
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
    if state.timers.contains_key(&Timer::ModelRetry) || state.is_held() {
        return None;
    }
    Some(request(state, agent, state.step, attempt))
}

fn after_failure(
    state: &SessionState,
    agent: &Agent,
    failure: &ModelFailed,
    now: TimestampMs,
) -> EventBody {
    let told = told(failure);
    let rule = agent.model.fallback_rule;
    let by_all = state.turns.refused_by_all(&agent.model);
    let is_refused = match rule {
        FallbackRule::ByAttempt => failure.is_refusal(),
        // What a filter stopped is not carried to a model that has none.
        FallbackRule::ByNeed => by_all.is_some() || failure.error == ModelErrorKind::ContentFilter,
    };
    if is_refused {
        let is_context = failure.error == ModelErrorKind::ContextTooLong;
        let (reason, is_context) = by_all.unwrap_or((told, is_context));
        return if is_context { limit_reached(LimitKind::Context, reason) } else { failed(reason) };
    }
    let is_quota = failure.error == ModelErrorKind::QuotaExhausted;
    let attempts = failure.attempt.saturating_sub(state.quota_waits);
    if !is_quota && attempts >= agent.retry.attempts_max {
        let reason = match state.turns.said_by_several(&agent.model) {
            Some(said) => format!("{attempts} attempts failed: {said}"),
            None => format!("{attempts} attempts failed, the last: {told}"),
        };
        return failed(reason);
    }
    let due_at = now.plus_ms(match rule {
        FallbackRule::ByAttempt => backoff_ms(state, agent, failure),
        FallbackRule::ByNeed => {
            let wait = state.turns.wait_ms(now);
            wait.saturating_add(jitter(state, failure.attempt, spread_ms(failure, wait)))
        }
    });
    TimerStarted { timer: Timer::ModelRetry, due_at }.into()
}

/// Exponential backoff with jitter; a server's `Retry-After` is kept at least as long as asked, unless
/// the next attempt goes to another one.
fn backoff_ms(state: &SessionState, agent: &Agent, failure: &ModelFailed) -> u64 {
    let policy = &agent.retry;
    let next = failure.attempt.saturating_add(1);
    let failures = failure.attempt.saturating_sub(state.quota_waits).saturating_sub(1);
    let fallback_at = |attempt| agent.model.fallback(agent.model.place_at(attempt));
    if fallback_at(failure.attempt) != fallback_at(next) {
        let wait = policy.wait_ms(failures);
        return wait.saturating_add(jitter(state, failure.attempt, wait / 4));
    }
    let is_quota = failure.error == ModelErrorKind::QuotaExhausted;
    let before = if is_quota { state.quota_waits.saturating_sub(1) } else { failures };
    let wait = wait_ms(policy, failure, before);
    wait.saturating_add(jitter(state, failure.attempt, spread_ms(failure, wait)))
}

/// How much jitter a wait may get. What a server asked for is kept, and not stretched much.
fn spread_ms(failure: &ModelFailed, wait_ms: u64) -> u64 {
    match failure.retry_after_ms {
        Some(_) => (wait_ms / 10).min(1_000),
        None => wait_ms / 4,
    }
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
