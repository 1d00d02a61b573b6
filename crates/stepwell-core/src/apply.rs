//! `fold(events) = state`: what an event changes.
//!
//! Invariant: `apply` accepts every event that `decide` made, never looks at a clock, and leaves the
//! state as it was when it refuses.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use crate::account::Measured;
use crate::agent::{Agent, ToolKind};
use crate::event::{
    Event, EventBody, Family, FinishReason, MessageReceived, ModelErrorKind, ModelFailed,
    ModelReplied, ModelRequested, SessionCreated, Timer, ToolDispatched, ToolFinished, ToolLost,
    ToolOutcome, ToolRefused, ToolScheduled,
};
use crate::ids::{CallId, Seq, TimestampMs};
use crate::output::binding;
use crate::pending::may_repeat;
use crate::prompt::Prompt;
use crate::repeat::{forget_actions, note_actions, note_usefulness};
use crate::state::{Call, CallStatus, Origin, Phase, SessionState, Stop};
use crate::text::{Text, shorten};
use crate::turns::Turns;

mod answer;
mod approvals;
mod overrides;
mod timers;

use approvals::{answer_question, approval_decided, approval_requested, close_approval};
use overrides::override_applied;
use timers::{timer_fired, timer_started};

/// A history that no release of Stepwell writes. Its session is quarantined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({kind}) is illegal: {reason}")]
pub struct IllegalHistory {
    /// Where.
    pub seq: Seq,
    /// Which type.
    pub kind: &'static str,
    /// Why.
    pub reason: String,
}

/// Folds `events` into `state`.
///
/// # Errors
/// [`IllegalHistory`] at the first event that cannot follow.
pub fn fold<'a>(
    mut state: SessionState,
    events: impl IntoIterator<Item = &'a Event>,
) -> Result<SessionState, IllegalHistory> {
    for event in events {
        apply(&mut state, event)?;
    }
    Ok(state)
}

/// Folds one event. O(new bytes).
///
/// # Errors
/// [`IllegalHistory`]; `state` is as it was.
pub fn apply(state: &mut SessionState, event: &Event) -> Result<(), IllegalHistory> {
    let illegal = |reason: String| IllegalHistory {
        seq: event.seq,
        kind: event.body.kind().as_str(),
        reason,
    };
    if event.seq != state.head.next() {
        return Err(illegal(format!("it follows event {}", state.head)));
    }
    let is_late = matches!(&event.body, EventBody::ToolFinished(it) if it.late);
    let is_fork = matches!(&event.body, EventBody::OverrideApplied(_));
    match state.phase {
        Phase::Absent if !matches!(event.body, EventBody::SessionCreated(_)) => {
            return Err(illegal("the session does not begin with session_created".into()));
        }
        Phase::Finished { .. } if !is_late && !is_fork => {
            return Err(illegal("the session is finished".into()));
        }
        Phase::Absent
        | Phase::Finished { .. }
        | Phase::Ready
        | Phase::Thinking { .. }
        | Phase::Backoff { .. }
        | Phase::Acting
        | Phase::Listening => {}
    }
    apply_body(state, event).map_err(illegal)?;
    let is_step = matches!(&event.body, EventBody::ResumeRequested(it) if it.once);
    if event.body.kind().family() == Family::Input && !is_step {
        // What a single step did not use is gone.
        state.single_step = false;
    }
    state.head = event.seq;
    state.updated_at = event.time;
    Ok(())
}

/// One line an event: who handles what.
fn apply_body(state: &mut SessionState, event: &Event) -> Result<(), String> {
    match &event.body {
        EventBody::SessionCreated(it) => created(state, event, it),
        EventBody::ModelRequested(it) => requested(state, it),
        EventBody::ModelReplied(it) => {
            let (bytes, messages) = (state.prompt.body_bytes(), state.prompt.messages());
            replied(state, it)?;
            answered(state, it, bytes, messages);
            Ok(())
        }
        EventBody::ModelFailed(it) => model_failed(state, it, event.time),
        EventBody::ToolScheduled(it) => scheduled(state, it),
        EventBody::ToolDispatched(it) => dispatched(state, it),
        EventBody::ToolFinished(it) => finished(state, event, it),
        EventBody::ToolLost(it) => lost(state, it),
        EventBody::ToolRefused(it) => refused(state, it),
        EventBody::ApprovalRequested(it) => approval_requested(state, event, it),
        EventBody::ApprovalDecided(it) => approval_decided(state, event, it),
        EventBody::MessageReceived(it) => message(state, it),
        EventBody::TimerStarted(it) => timer_started(state, it),
        EventBody::TimerFired(it) => timer_fired(state, event, it),
        EventBody::CancelRequested(it) => {
            state.cancelled = Some(stop(event, &it.reason));
            // Whoever waits for a model's answer or for a timer waits no more.
            state.timers.clear();
            if let Phase::Thinking { .. } | Phase::Backoff { .. } = state.phase {
                state.phase = Phase::Ready;
            }
            Ok(())
        }
        EventBody::PauseRequested(it) => {
            state.paused = Some(stop(event, &it.reason));
            Ok(())
        }
        EventBody::ResumeRequested(it) => {
            if it.once {
                state.single_step = true;
            } else {
                state.paused = None;
            }
            Ok(())
        }
        EventBody::OverrideApplied(it) => override_applied(state, event, it),
        EventBody::SessionFinished(it) => {
            end(state);
            state.end_reason.clone_from(&it.reason);
            state.phase = Phase::Finished { outcome: it.outcome, limit: it.limit };
            Ok(())
        }
    }
}

fn stop(event: &Event, reason: &str) -> Stop {
    Stop { by: event.actor.clone(), at: event.time, reason: reason.to_string(), seq: event.seq }
}

fn created(state: &mut SessionState, event: &Event, it: &SessionCreated) -> Result<(), String> {
    if state.origin.is_some() {
        return Err("the session exists already".into());
    }
    state.prompt = Prompt::new(&it.agent, whole(&it.task)?);
    if let Some(deadline_ms) = it.agent.limits.deadline_ms {
        state.timers.insert(Timer::Deadline, event.time.plus_ms(deadline_ms));
    }
    state.prefix_key.clone_from(&it.seed);
    state.origin = Some(Origin {
        agent: it.agent.clone(),
        title: it.title.clone(),
        labels: it.labels.clone(),
        workspace: it.workspace.clone(),
        seed: it.seed.clone(),
        created_at: event.time,
    });
    state.phase = Phase::Ready;
    state.paused = it.paused.then(|| stop(event, "it begins held"));
    Ok(())
}

fn requested(state: &mut SessionState, it: &ModelRequested) -> Result<(), String> {
    match state.phase {
        Phase::Ready if it.attempt == 1 && it.step == state.step + 1 => {
            state.step = it.step;
            state.quota_waits = 0;
            state.turns = Turns::default();
        }
        Phase::Backoff { attempt } if it.step == state.step && it.attempt == attempt => {}
        Phase::Absent
        | Phase::Ready
        | Phase::Backoff { .. }
        | Phase::Thinking { .. }
        | Phase::Acting
        | Phase::Listening
        | Phase::Finished { .. } => {
            return Err(format!("step {} attempt {} is not due", it.step, it.attempt));
        }
    }
    if let Some(agent) = state.agent().cloned() {
        let members = binding(state, &agent).members();
        state.prompt.end_with(&members);
    }
    state.phase = Phase::Thinking { attempt: it.attempt };
    state.single_step = false;
    Ok(())
}

fn replied(state: &mut SessionState, it: &ModelReplied) -> Result<(), String> {
    expect_thinking(state, it.step, it.attempt)?;
    let content = whole(&it.content)?;
    for (call, index) in it.tool_calls.iter().zip(1..) {
        whole(&call.arguments)?;
        if call.call_id != (CallId { step: it.step, index }) {
            return Err(format!("the call id {} is not of this reply", call.call_id));
        }
    }
    match it.tokens.as_ref().and_then(|tokens| tokens.text.as_ref()) {
        Some(generated) => state.prompt.push_assistant(whole(generated)?, &[]),
        None => state.prompt.push_assistant(content, &it.tool_calls),
    }
    let model = state.model(it.attempt).map(|it| it.name).unwrap_or_default();
    state.tokens = state.tokens.after(it, &model, state.prompt.messages());
    state.usage.add(&it.usage);
    state.last_reply = it.content.clone();
    state.last_finish = Some(it.finish_reason);
    state.finish_word.clone_from(&it.finish_word);
    state.model_failure = None;
    state.failing_since = None;
    state.calls.clear();
    let agent = state.agent().cloned();
    let asked = agent.as_ref().map(|agent| binding(state, agent));
    for (i, call) in it.tool_calls.iter().enumerate() {
        let problem = match it.finish_reason {
            // The output limit cuts the last call; what is left of it must never run.
            FinishReason::Length if i + 1 == it.tool_calls.len() => Some(CUT_OFF.to_string()),
            // Nobody knows what the filter took out, or from which call.
            FinishReason::ContentFilter => Some(FILTERED.to_string()),
            FinishReason::Length | FinishReason::Stop | FinishReason::ToolCalls => {
                let forbidden = asked.and_then(|asked| asked.forbids(&call.name));
                forbidden.or_else(|| call.problem.clone())
            }
        };
        let entry = Call {
            wire_id: call.wire_id.clone(),
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
            problem,
            edited: None,
            status: CallStatus::Proposed,
            attempt: 0,
            approval: None,
            let_through: false,
        };
        state.calls.insert(call.call_id, entry);
    }
    let told = asked.and_then(|asked| answer::judge(state, it, asked));
    note_usefulness(state, told.as_deref());
    note_actions(state);
    state.phase = if state.calls.is_empty() { Phase::Listening } else { Phase::Acting };
    if let Some(told) = told {
        state.prompt.push_user(&told);
        state.phase = Phase::Ready;
    }
    if state.calls.is_empty() && show_inbox(state)? {
        state.phase = Phase::Ready;
    }
    Ok(())
}

/// A server answered a prompt of `bytes` and `messages`, which a reply that a person put in its place
/// does not show.
fn answered(state: &mut SessionState, it: &ModelReplied, bytes: u64, messages: u32) {
    if let Some(model) = state.model(it.attempt).map(|it| it.name) {
        state.account.add(&model, it);
        if it.usage.total() == 0 {
            let calls = it.tool_calls.iter().map(|call| call.arguments.bytes()).sum::<u64>();
            state.account.estimate(bytes.saturating_add(it.content.bytes()).saturating_add(calls));
        }
        let tokens = it.usage.prompt_tokens;
        // Zero is a server that does not count.
        if tokens > 0 {
            state.measured = Some(Measured { model, bytes, messages, tokens });
        }
    }
    state.prefix_holder = Some(it.endpoint.clone());
}

/// What the model is told of a call that its output limit cut off.
pub(crate) const CUT_OFF: &str = "the output limit (max_tokens) cut this call off in the middle, so it was not \
    run; make a shorter call, or split the work into several calls";

/// What the model is told of a call in a reply that the server's content filter stopped.
pub(crate) const FILTERED: &str = "the model server's content filter stopped this reply in the middle, so none of \
    its calls was run; say it in another way";

fn model_failed(state: &mut SessionState, it: &ModelFailed, at: TimestampMs) -> Result<(), String> {
    expect_thinking(state, it.step, it.attempt)?;
    state.phase = Phase::Backoff { attempt: it.attempt.saturating_add(1) };
    state.model_failure = Some(it.clone());
    state.failing_since.get_or_insert(at);
    state.failure_handled = false;
    state.quota_waits += u32::from(it.error == ModelErrorKind::QuotaExhausted);
    if let Some(agent) = state.agent().cloned() {
        state.turns.failed(&agent, it, at);
    }
    show_inbox(state)?;
    Ok(())
}

fn expect_thinking(state: &SessionState, step: u32, attempt: u32) -> Result<(), String> {
    if state.phase == (Phase::Thinking { attempt }) && state.step == step {
        Ok(())
    } else {
        Err(format!("step {step} attempt {attempt} was not asked"))
    }
}

fn scheduled(state: &mut SessionState, it: &ToolScheduled) -> Result<(), String> {
    let kind = state.agent().zip(state.calls.get(&it.call_id));
    let kind = kind.and_then(|(agent, call)| agent.tool(&call.tool)).map(|tool| tool.kind);
    let let_through = state.single_step;
    let call = call_mut(state, it.call_id)?;
    let status = match kind {
        Some(ToolKind::Worker) => CallStatus::Scheduled,
        Some(ToolKind::AskUser) => CallStatus::AwaitingAnswer,
        Some(ToolKind::Sleep) => CallStatus::Sleeping,
        None => return Err(format!("the agent has no tool {}", call.tool)),
    };
    match call.status {
        CallStatus::Proposed
        | CallStatus::Approved
        | CallStatus::Lost { never_started: true, .. }
            if it.attempt == call.attempt + 1 => {}
        CallStatus::Proposed
        | CallStatus::Approved
        | CallStatus::AwaitingApproval
        | CallStatus::Scheduled
        | CallStatus::Dispatched { .. }
        | CallStatus::TurnedDown { .. }
        | CallStatus::Lost { .. }
        | CallStatus::AwaitingRetry
        | CallStatus::AwaitingOutcome
        | CallStatus::AwaitingAnswer
        | CallStatus::Sleeping
        | CallStatus::Settled { .. } => {
            return Err(format!("call {} cannot be scheduled", it.call_id));
        }
    }
    call.status = status;
    call.attempt = it.attempt;
    call.approval = it.approval_id;
    call.let_through = let_through;
    state.single_step = false;
    Ok(())
}

fn dispatched(state: &mut SessionState, it: &ToolDispatched) -> Result<(), String> {
    let call = call_mut(state, it.call_id)?;
    if call.status != CallStatus::Scheduled || call.attempt != it.attempt {
        return Err(format!("call {} attempt {} is not scheduled", it.call_id, it.attempt));
    }
    call.status = CallStatus::Dispatched { worker: it.worker.clone() };
    call.approval = None;
    Ok(())
}

fn finished(state: &mut SessionState, event: &Event, it: &ToolFinished) -> Result<(), String> {
    whole(&it.output)?;
    if it.late {
        if state.given_up.get(&it.call_id) != Some(&it.attempt) {
            return Err(format!("call {} attempt {} is not late", it.call_id, it.attempt));
        }
        state.given_up.remove(&it.call_id);
        return Ok(());
    }
    let text = observation_of(state, it.outcome, &it.output)?;
    let call = call_mut(state, it.call_id)?;
    if call.attempt != it.attempt || !is_running(&call.status) {
        return Err(format!("call {} attempt {} does not run", it.call_id, it.attempt));
    }
    state.timers.remove(&Timer::ToolRetry(it.call_id));
    answer_question(state, event, it);
    settle(state, it.call_id, text)
}

/// What the model is shown of a result.
fn observation_of(
    state: &SessionState,
    outcome: ToolOutcome,
    output: &Text,
) -> Result<Text, String> {
    let limit = observation_limit(state.agent().map(|agent| &**agent));
    let text = whole(output)?;
    Ok(match outcome {
        ToolOutcome::Ok if text.len() <= limit => output.clone(),
        ToolOutcome::Ok => Text::from(shorten(text, limit)),
        ToolOutcome::Error => Text::from(format!("Error: {}", shorten(text, limit))),
    })
}

/// Scheduled, dispatched, or thought lost while it was not.
pub(crate) fn is_running(status: &CallStatus) -> bool {
    matches!(
        status,
        CallStatus::Scheduled
            | CallStatus::Dispatched { .. }
            | CallStatus::AwaitingRetry
            | CallStatus::AwaitingOutcome
    )
}

fn lost(state: &mut SessionState, it: &ToolLost) -> Result<(), String> {
    let is_cancelled = state.cancelled.is_some();
    let call = call_mut(state, it.call_id)?;
    let runs = matches!(call.status, CallStatus::Scheduled | CallStatus::Dispatched { .. });
    if call.attempt != it.attempt || !runs {
        return Err(format!("call {} attempt {} does not run", it.call_id, it.attempt));
    }
    if is_cancelled {
        state.given_up.insert(it.call_id, it.attempt);
        return settle(state, it.call_id, Text::from(format!("Error: {}", it.reason)));
    }
    call.status = CallStatus::Lost { reason: it.reason.clone(), never_started: it.never_started };
    Ok(())
}

fn refused(state: &mut SessionState, it: &ToolRefused) -> Result<(), String> {
    let call = call_mut(state, it.call_id)?;
    let open = matches!(
        call.status,
        CallStatus::Proposed
            | CallStatus::Approved
            | CallStatus::TurnedDown { .. }
            | CallStatus::Lost { .. }
    );
    if !open {
        return Err(format!("call {} cannot be refused", it.call_id));
    }
    settle(state, it.call_id, Text::from(format!("Not run: {}", it.message)))
}

fn message(state: &mut SessionState, it: &MessageReceived) -> Result<(), String> {
    whole(&it.content)?;
    if let Some(key) = it.client_key.as_ref().filter(|key| state.message_keys.contains(*key)) {
        return Err(format!("the message {key} was taken before"));
    }
    if let Some(call_id) = it.answers
        && call_mut(state, call_id)?.status != CallStatus::AwaitingAnswer
    {
        return Err(format!("call {call_id} awaits no answer"));
    }
    if let Some(key) = &it.client_key {
        Arc::make_mut(&mut state.message_keys).insert(key.clone());
    }
    if let Some(call_id) = it.answers {
        forget_actions(state);
        return settle(state, call_id, it.content.clone());
    }
    Arc::make_mut(&mut state.inbox).push(it.clone());
    match state.phase {
        Phase::Listening => {
            show_inbox(state)?;
            state.phase = Phase::Ready;
        }
        Phase::Ready | Phase::Backoff { .. } => {
            show_inbox(state)?;
        }
        Phase::Absent | Phase::Thinking { .. } | Phase::Acting | Phase::Finished { .. } => {}
    }
    Ok(())
}

/// Gives a call its observation, and closes the step when it was the last open one.
fn settle(state: &mut SessionState, call_id: CallId, text: Text) -> Result<(), String> {
    let call = call_mut(state, call_id)?;
    let observation = match &call.edited {
        Some(edited) => Text::from(format!(
            "(A reviewer changed the arguments to {}.)\n{}",
            edited.as_str(),
            text.preview()
        )),
        None => text,
    };
    call.status = CallStatus::Settled { observation };
    close_step_if_done(state)
}

/// Shows the model all observations in the order in which it asked, then what people said meanwhile.
fn close_step_if_done(state: &mut SessionState) -> Result<(), String> {
    let done = state.calls.values().all(|it| matches!(it.status, CallStatus::Settled { .. }));
    if !done || state.phase != Phase::Acting {
        return Ok(());
    }
    for call in core::mem::take(&mut state.calls).into_values() {
        if let CallStatus::Settled { observation } = &call.status {
            state.prompt.push_observation(&call.wire_id, observation.preview());
        }
    }
    show_inbox(state)?;
    state.phase = Phase::Ready;
    Ok(())
}

/// Moves what people said into the prompt; says whether there was something.
fn show_inbox(state: &mut SessionState) -> Result<bool, String> {
    let inbox = core::mem::take(&mut state.inbox);
    for message in &*inbox {
        state.prompt.push_user(whole(&message.content)?);
    }
    if !inbox.is_empty() {
        forget_actions(state);
        state.called_since_message = false;
        state.answer_did_not_fit = false;
    }
    Ok(!inbox.is_empty())
}

/// Whether a worker may have the call, so that a report on it may come.
fn may_report(state: &SessionState, call: &Call) -> bool {
    match &call.status {
        CallStatus::Scheduled => may_repeat(state, call),
        CallStatus::Dispatched { .. }
        | CallStatus::Lost { .. }
        | CallStatus::AwaitingRetry
        | CallStatus::AwaitingOutcome => true,
        CallStatus::Proposed
        | CallStatus::AwaitingApproval
        | CallStatus::Approved
        | CallStatus::TurnedDown { .. }
        | CallStatus::AwaitingAnswer
        | CallStatus::Sleeping
        | CallStatus::Settled { .. } => false,
    }
}

/// The session goes no further: what still runs may only report late.
fn end(state: &mut SessionState) {
    for (call_id, call) in core::mem::take(&mut state.calls) {
        if may_report(state, &call) {
            state.given_up.insert(call_id, call.attempt);
        }
    }
    state.approvals.clear();
    state.timers.clear();
    state.inbox = Arc::default();
}

fn call_mut(state: &mut SessionState, call_id: CallId) -> Result<&mut Call, String> {
    state.calls.get_mut(&call_id).ok_or_else(|| format!("there is no open call {call_id}"))
}

fn whole(text: &Text) -> Result<&str, String> {
    text.whole().ok_or_else(|| "a payload was left in the blob table".to_string())
}

fn observation_limit(agent: Option<&Agent>) -> usize {
    agent.map_or(0, |agent| agent.limits.observation_bytes_max as usize)
}
