//! What the first own event of a fork changes.
//!
//! The parent's calls and questions were the parent's: what a worker had of it begins anew here, and
//! no late report of it can come.

use alloc::format;
use alloc::string::String;

use super::{call_mut, message, replied, settle, stop};
use crate::event::{Edit, Event, MessageReceived, Outcome, OverrideApplied, Timer, ToolOutcome};
use crate::ids::{CallId, TimestampMs};
use crate::json::JsonText;
use crate::repeat::forget_actions;
use crate::state::{Call, CallStatus, ForkedFrom, Phase, SessionState};
use crate::text::Text;
use crate::tokens::Tokens;
use crate::turns::Turns;

pub(super) fn override_applied(
    state: &mut SessionState,
    event: &Event,
    it: &OverrideApplied,
) -> Result<(), String> {
    if state.head != it.parent_seq {
        return Err(format!("the fork is of event {}, not of {}", it.parent_seq, state.head));
    }
    let mut forked = state.clone();
    reopen(&mut forked, it)?;
    begin_anew(&mut forked, event.time);
    take_definition(&mut forked, event, it)?;
    if it.asks_anew {
        ask_anew(&mut forked, it);
    } else {
        go_on(&mut forked);
    }
    forked.forked_from = Some(ForkedFrom { session_id: it.parent, seq: it.parent_seq });
    forked.paused = it.paused.then(|| stop(event, "the fork begins held"));
    for edit in &it.edits {
        apply_edit(&mut forked, edit)?;
    }
    if let Phase::Thinking { attempt } = forked.phase {
        // It was the parent that asked, perhaps another model with another prompt.
        forked.phase = Phase::Backoff { attempt: attempt.saturating_add(1) };
        forked.model_failure = None;
        forked.failing_since = None;
    }
    *state = forked;
    Ok(())
}

/// A session that is over goes on only if it can: the model gave its answer, and somebody has more
/// to say.
fn reopen(state: &mut SessionState, it: &OverrideApplied) -> Result<(), String> {
    let Phase::Finished { outcome, .. } = state.phase else { return Ok(()) };
    let says_more = it.edits.iter().any(|edit| matches!(edit, Edit::Message { .. }));
    if outcome != Outcome::Completed || !says_more {
        return Err(format!(
            "the session is over at event {}: fork it before its end, or after a completed one \
             with a message",
            state.head
        ));
    }
    state.phase = Phase::Listening;
    state.end_reason.clear();
    Ok(())
}

/// Time stood still since the moment of the fork, and no worker has anything.
fn begin_anew(state: &mut SessionState, now: TimestampMs) {
    let passed_ms = now.since_ms(state.updated_at);
    for due_at in state.timers.values_mut() {
        *due_at = due_at.plus_ms(passed_ms);
    }
    for approval in state.approvals.values_mut() {
        approval.expires_at = approval.expires_at.map(|at| at.plus_ms(passed_ms));
    }
    state.given_up.clear();
    state.cancelled = None;
    state.grace_started = false;
    state.timers.remove(&Timer::CancelGrace);
    forget_actions(state);
    state.repeated = None;
}

/// What the forks of earlier releases did: all that was let go on in the parent goes on here.
fn go_on(state: &mut SessionState) {
    for call in state.calls.values_mut() {
        if let CallStatus::Dispatched { .. } = call.status {
            call.status = CallStatus::Scheduled;
        }
    }
}

/// A call that may have done its work in the parent is not started a second time: its outcome is
/// unknown here. Every other one is judged by the rules as if it was just asked for, since what a person
/// let run, or let begin in a pause, was let in the parent, and once.
fn ask_anew(state: &mut SessionState, it: &OverrideApplied) {
    let Some(agent) = state.agent().cloned() else { return };
    for (call_id, call) in &mut state.calls {
        let repeats = agent.tool(&call.tool).is_some_and(|tool| tool.effect.may_repeat());
        call.status = match call.status {
            CallStatus::Dispatched { .. } if !repeats => {
                let reason = format!("session {} had started it before this fork of it", it.parent);
                CallStatus::Lost { reason, never_started: false }
            }
            CallStatus::Lost { never_started: false, .. } if !repeats => continue,
            CallStatus::Approved
            | CallStatus::Scheduled
            | CallStatus::Dispatched { .. }
            | CallStatus::Lost { .. }
            | CallStatus::AwaitingRetry => CallStatus::Proposed,
            CallStatus::Proposed
            | CallStatus::AwaitingApproval
            | CallStatus::TurnedDown { .. }
            | CallStatus::AwaitingOutcome
            | CallStatus::AwaitingAnswer
            | CallStatus::Sleeping
            | CallStatus::Settled { .. } => continue,
        };
        (call.approval, call.let_through) = (None, false);
        state.timers.remove(&Timer::ToolRetry(*call_id));
    }
    state.grants.clear();
}

fn take_definition(
    state: &mut SessionState,
    event: &Event,
    it: &OverrideApplied,
) -> Result<(), String> {
    let origin = state.origin.as_mut().ok_or("the session does not exist")?;
    origin.created_at = event.time;
    origin.seed.clone_from(&it.seed);
    origin.workspace.clone_from(&it.workspace);
    if let Some(title) = &it.title {
        origin.title.clone_from(title);
    }
    if let Some(agent) = &it.agent {
        origin.agent = agent.clone();
        state.prompt.rebase(agent);
        state.measured = None;
        state.tokens = Tokens::default();
        state.turns = Turns::default();
    }
    Ok(())
}

fn apply_edit(state: &mut SessionState, edit: &Edit) -> Result<(), String> {
    match edit {
        Edit::ToolResult { call_id, outcome, output } => result(state, *call_id, *outcome, output),
        Edit::ModelReply(reply) => replied(state, reply),
        Edit::Arguments { call_id, arguments } => edit_arguments(state, *call_id, arguments),
        Edit::Message { content } => {
            let asks = |call: &Call| call.status == CallStatus::AwaitingAnswer;
            let answers = state.calls.iter().find(|(_, call)| asks(call)).map(|(id, _)| *id);
            let content = content.clone();
            message(state, &MessageReceived { content, answers, client_key: None })
        }
    }
}

fn result(
    state: &mut SessionState,
    call_id: CallId,
    outcome: ToolOutcome,
    output: &Text,
) -> Result<(), String> {
    if let CallStatus::Settled { .. } = call_mut(state, call_id)?.status {
        return Err(format!("call {call_id} has its result: fork before it"));
    }
    let asked = state.approvals.iter().find(|(_, approval)| approval.call_id == call_id);
    if let Some(approval_id) = asked.map(|(approval_id, _)| *approval_id) {
        state.approvals.remove(&approval_id);
        state.timers.remove(&Timer::ApprovalExpiry(approval_id));
    }
    state.timers.remove(&Timer::ToolRetry(call_id));
    state.timers.remove(&Timer::Sleep(call_id));
    let text = super::observation_of(state, outcome, output)?;
    settle(state, call_id, text)
}

fn edit_arguments(
    state: &mut SessionState,
    call_id: CallId,
    arguments: &JsonText,
) -> Result<(), String> {
    let call = call_mut(state, call_id)?;
    match call.status {
        CallStatus::Proposed | CallStatus::Approved => {}
        CallStatus::AwaitingApproval
        | CallStatus::Scheduled
        | CallStatus::Dispatched { .. }
        | CallStatus::TurnedDown { .. }
        | CallStatus::Lost { .. }
        | CallStatus::AwaitingRetry
        | CallStatus::AwaitingOutcome
        | CallStatus::AwaitingAnswer
        | CallStatus::Sleeping
        | CallStatus::Settled { .. } => {
            return Err(format!("call {call_id} was judged already: fork right after the reply"));
        }
    }
    call.edited = Some(arguments.clone());
    // The edited arguments were checked; what was wrong with the model's own is no matter any more.
    call.problem = None;
    Ok(())
}
