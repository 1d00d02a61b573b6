//! Why a session is where it is: one true sentence, and what would move it.

use alloc::format;
use alloc::string::{String, ToString};

use crate::event::{LimitKind, ModelErrorKind, Outcome, Question, Timer};
use crate::pending::may_repeat;
use crate::state::{Approval, Call, CallStatus, Phase, SessionState, Stop};
use crate::turns::told;

/// One sentence from the state alone. What only the live engine knows (no worker offers the tool,
/// the disk is full) is added by whoever has it.
pub fn explain(state: &SessionState) -> String {
    if let Phase::Finished { outcome, limit } = state.phase {
        return finished(state, outcome, limit);
    }
    if let Some(stop) = &state.cancelled {
        return format!("being cancelled by {}: running tools are told to stop", who(stop));
    }
    let base = match state.phase {
        Phase::Absent => "does not exist yet".to_string(),
        Phase::Ready => format!("step {} is about to begin", state.step + 1),
        Phase::Thinking { attempt } => {
            let model = state.agent().map(|agent| agent.model.name.clone()).unwrap_or_default();
            format!("waits for the model {model}, step {}{}", state.step, nth(attempt))
        }
        Phase::Backoff { attempt } => backoff(state, attempt),
        Phase::Acting => acting(state),
        Phase::Listening if state.agent().is_some_and(|agent| agent.interactive) => {
            "waits for a message: stepwell send".to_string()
        }
        Phase::Listening => {
            "the model gave its answer, and the session is about to end".to_string()
        }
        Phase::Finished { .. } => String::new(),
    };
    let Some(stop) = &state.paused else { return base };
    let held = if stop.by.is_import() {
        format!("held, not to run here by itself: {}", stop.reason)
    } else {
        format!("paused by {}", who(stop))
    };
    let asks = open_questions(state) > 0;
    // Of a question it stays true; whatever else went on there does not go on here.
    let when = if state.is_brought() && !asks { "when it was exported: " } else { "" };
    let way_on = if asks {
        "the answer is taken meanwhile, and nothing new begins before stepwell resume"
    } else {
        "go on with stepwell resume"
    };
    format!("{held}; {when}{base}; {way_on}")
}

/// Calls that only a person can move.
fn open_questions(state: &SessionState) -> usize {
    state.calls.values().filter(|call| urgency(call) <= ASKS_LAST).count()
}

fn who(stop: &Stop) -> String {
    if stop.reason.is_empty() {
        stop.by.to_string()
    } else {
        format!("{} ({})", stop.by, stop.reason)
    }
}

fn steps(count: u32) -> String {
    if count == 1 { "1 step".to_string() } else { format!("{count} steps") }
}

fn nth(attempt: u32) -> String {
    if attempt > 1 { format!(", attempt {attempt}") } else { String::new() }
}

fn finished(state: &SessionState, outcome: Outcome, limit: Option<LimitKind>) -> String {
    match (outcome, limit) {
        (Outcome::Completed, _) => format!("completed in {}", steps(state.step)),
        (Outcome::Failed, _) => format!("failed: {}", state.end_reason),
        (Outcome::Cancelled, _) => match &state.cancelled {
            Some(stop) => format!("cancelled by {}", who(stop)),
            None => "cancelled".to_string(),
        },
        (Outcome::LimitReached, Some(limit)) => {
            let (limit, reason) = (limit.as_str(), &state.end_reason);
            format!("ended by its limit `{limit}` after {}: {reason}", steps(state.step))
        }
        (Outcome::LimitReached, None) => "ended by a limit".to_string(),
    }
}

fn backoff(state: &SessionState, attempt: u32) -> String {
    let Some(failure) = &state.model_failure else {
        return format!("the model is about to be asked, step {}{}", state.step, nth(attempt));
    };
    let since = state.failing_since.map(|at| format!("it has failed since {}, ", at.to_utc()));
    let since = since.unwrap_or_default();
    // Why the model is waited for that is asked next, where it failed itself.
    let own = state.turns.last_of(state.place(attempt));
    let error = own.map_or(failure.error, |it| it.error);
    let cause = format!("{since}{}", own.map_or_else(|| told(failure), |it| it.told.clone()));
    // What is paused asks when somebody lets it, whatever the timer says.
    let fallback = state.agent().and_then(|it| it.model.fallback(state.place(attempt)));
    let whom = match fallback {
        Some(fallback) => format!("the fallback model `{}`", fallback.name),
        None => "the model again".to_string(),
    };
    let is_quota =
        error == ModelErrorKind::QuotaExhausted && !failure.elsewhere && fallback.is_none();
    match state.timers.get(&Timer::ModelRetry).filter(|_| state.paused.is_none()) {
        Some(due_at) if is_quota => {
            format!(
                "waits for the model server's quota, asks again at {}; {cause}",
                due_at.to_utc()
            )
        }
        Some(due_at) => {
            format!("asks {whom} (attempt {attempt}) at {}; {cause}", due_at.to_utc())
        }
        None => format!("next it asks {whom} (attempt {attempt}); {cause}"),
    }
}

fn acting(state: &SessionState) -> String {
    let first = first_open(state);
    match open_questions(state) {
        0 | 1 => first,
        2 => format!("{first}; one more call waits for a person"),
        asked => format!("{first}; {} more calls wait for a person", asked - 1),
    }
}

fn first_open(state: &SessionState) -> String {
    let open =
        state.calls.iter().filter(|(_, it)| !matches!(it.status, CallStatus::Settled { .. }));
    // What only a person can move is said first.
    let first = open.min_by_key(|(call_id, call)| (urgency(call), **call_id));
    let Some((call_id, call)) = first else { return "a step is about to end".to_string() };
    let what = format!("`{}` (call {call_id})", call.tool);
    match &call.status {
        CallStatus::AwaitingApproval | CallStatus::AwaitingOutcome => {
            let approval = state.approvals.iter().find(|(_, it)| it.call_id == *call_id);
            match approval {
                Some((id, Approval { question: Question::MayRun, rule, expires_at, .. })) => {
                    let lapses = expires_at.map(|at| format!("; it lapses at {}", at.to_utc()));
                    let lapses = lapses.unwrap_or_default();
                    format!("waits for approval {id}: may {what} run? {rule}{lapses}")
                }
                Some((id, Approval { question: Question::WhatHappened, rule, .. })) => {
                    format!(
                        "waits for a person to say what became of {what} (approval {id}): {rule}"
                    )
                }
                None => format!("waits for a person: {what}"),
            }
        }
        CallStatus::AwaitingAnswer => format!("{what} waits for an answer: stepwell send"),
        CallStatus::Scheduled if !state.works_on(call) => format!("{what} has not started"),
        CallStatus::Scheduled if !may_repeat(state, call) => format!("{what} {WAITS}"),
        CallStatus::Scheduled => format!("{what} {RUNS_OR_WAITS}"),
        CallStatus::Dispatched { .. } if state.is_brought() => {
            format!("{what} ran on a worker where it comes from, its outcome is not known here")
        }
        CallStatus::Dispatched { worker } => format!("{what} was given to worker {worker}"),
        CallStatus::AwaitingRetry if state.paused.is_some() => {
            format!("{what} was lost and starts again")
        }
        CallStatus::AwaitingRetry => match state.timers.get(&Timer::ToolRetry(*call_id)) {
            Some(due_at) => format!("{what} was lost and starts again at {}", due_at.to_utc()),
            None => format!("{what} was lost and starts again"),
        },
        CallStatus::Sleeping => match state.timers.get(&Timer::Sleep(*call_id)) {
            Some(due_at) => format!("sleeps until {} (call {call_id})", due_at.to_utc()),
            None => format!("sleeps (call {call_id})"),
        },
        CallStatus::Approved => format!("{what} is allowed and about to run"),
        CallStatus::TurnedDown { .. } => format!("{what} is turned down; the model is told next"),
        CallStatus::Lost { .. } => format!("{what} was lost, and what follows is decided next"),
        CallStatus::Proposed | CallStatus::Settled { .. } => {
            format!("{what} is about to be decided")
        }
    }
}

/// Of a call that has no worker yet.
pub const WAITS: &str = "waits for a place on a worker";

/// Of a call that may run already: a tool that may run twice starts without a word to its session.
pub const RUNS_OR_WAITS: &str = "runs, or waits for a place on a worker";

/// The last urgency of calls that only a person can move.
const ASKS_LAST: u8 = 1;

fn urgency(call: &Call) -> u8 {
    match &call.status {
        CallStatus::AwaitingApproval | CallStatus::AwaitingOutcome => 0,
        CallStatus::AwaitingAnswer => ASKS_LAST,
        CallStatus::Dispatched { .. } | CallStatus::Scheduled => 2,
        CallStatus::AwaitingRetry | CallStatus::Sleeping => 3,
        CallStatus::Proposed
        | CallStatus::Approved
        | CallStatus::TurnedDown { .. }
        | CallStatus::Lost { .. }
        | CallStatus::Settled { .. } => 4,
    }
}
