//! `decide(state, input, now) = events + commands`: the whole behaviour of a session.
//!
//! An input is first accepted or refused against the phase ([`Reject`]); if it is accepted it becomes
//! one event (a wake-up: one for each due timer), and then every decision that follows is taken
//! (`follow`), until the session waits for the outside again. All of it is one append.
//!
//! Invariant: same arguments, same answer, on every machine and every release that shares an event
//! schema.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::apply::{apply, is_running};
use crate::event::{
    Actor, ApprovalDecision, CancelRequested, Edit, Event, EventBody, MessageReceived, ModelFailed,
    ModelReplied, OverrideApplied, PauseRequested, ResumeRequested, SessionCreated, TimerFired,
    ToolDispatched, ToolFinished, ToolLost,
};
use crate::explain::explain;
use crate::follow::next_decision;
use crate::ids::{ApprovalId, CallId, Seq, TimestampMs};
use crate::json::JsonText;
use crate::pending::{Command, may_repeat, pending};
pub use crate::reject::Reject;
use crate::state::{CallStatus, Phase, SessionState, Status};
use crate::text::Text;

/// Something from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Begin the session.
    Create {
        /// Agent, task, title, labels.
        session: SessionCreated,
        /// Who asked for it.
        by: Actor,
    },
    /// The model answered.
    ModelReplied(ModelReplied),
    /// The model could not be asked.
    ModelFailed(ModelFailed),
    /// A place on a worker is reserved for a call that must not run twice.
    WorkerReserved {
        /// The call.
        call_id: CallId,
        /// The attempt.
        attempt: u32,
        /// The worker.
        worker: String,
    },
    /// A tool call came to its end.
    ToolFinished {
        /// Its report; `late` is set by the decision.
        report: ToolFinished,
        /// The worker.
        worker: String,
    },
    /// A tool call's worker is gone.
    ToolLost(ToolLost),
    /// A person decides an approval.
    Decide(Verdict),
    /// A message for the session.
    Message {
        /// The text.
        content: Text,
        /// The call it answers, when the sender says so.
        answers: Option<CallId>,
        /// The sender's key: the same key is taken once.
        client_key: Option<String>,
        /// The sender.
        by: Actor,
    },
    /// Some timer may be due.
    Wake,
    /// End the session.
    Cancel {
        /// Why.
        reason: String,
        /// Who.
        by: Actor,
    },
    /// Hold the session.
    Pause {
        /// Why.
        reason: String,
        /// Who.
        by: Actor,
    },
    /// Go on.
    Resume {
        /// Only for the next thing that is owed; then it is held again.
        once: bool,
        /// Who.
        by: Actor,
    },
    /// Become a fork: the events so far were copied from the parent.
    Fork {
        /// What is otherwise.
        fork: OverrideApplied,
        /// Who.
        by: Actor,
    },
}

/// A person's word on an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which approval.
    pub approval_id: ApprovalId,
    /// What is decided.
    pub decision: ApprovalDecision,
    /// Why.
    pub reason: String,
    /// Arguments to run instead; they were checked against the tool's schema.
    pub arguments: Option<JsonText>,
    /// The result, for [`ApprovalDecision::Happened`]; it was checked against the tool's schema.
    pub output: Option<Text>,
    /// The digest that the person was shown. When given it must be the approval's.
    pub action_digest: Option<String>,
    /// The tool that the person was shown. When given it must be the call's.
    pub tool: Option<String>,
    /// Who.
    pub by: Actor,
}

/// What follows from an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The events to append, in order. Empty when the input changes nothing (said before, or no
    /// timer is due).
    pub events: Vec<Event>,
    /// What is owed to the outside that was not owed before. Leaves after the append is durable.
    pub commands: Vec<Command>,
    /// The state after the events, so that nobody folds them twice.
    pub state: SessionState,
}

/// Decisions that may follow from one input. A reply with thousands of calls stays below it.
pub(crate) const DECISIONS_MAX: usize = 65_536;

/// Decides what `input` means for a session in `state` at `now`.
///
/// # Errors
/// [`Reject`] if the input is not legal now; nothing changed.
pub fn decide(state: &SessionState, input: Input, now: TimestampMs) -> Result<Decision, Reject> {
    let is_step = matches!(input, Input::Resume { once: true, .. });
    let mut draft = Draft { state: state.clone(), events: Vec::new(), cause: Seq(0), now };
    for (body, by) in accept(state, input, now)? {
        draft.cause = draft.state.head.next();
        draft.push(body, by)?;
    }
    if !draft.events.is_empty() {
        draft.follow()?;
    }
    let mut before = pending(state);
    before.sort_unstable();
    let mut commands = pending(&draft.state);
    commands.retain(|command| before.binary_search(command).is_err());
    // Of a session that was brought here, the step begins with what was owed there.
    if is_step && draft.events.len() == 1 && !commands.iter().any(|it| it.is_due(now)) {
        return Err(Reject::NothingToStep { why: explain(state) });
    }
    Ok(Decision { events: draft.events, commands, state: draft.state })
}

/// What follows in the append that the input `cause` began at `now`, from a state in the middle of it.
pub(crate) fn go_on(
    state: SessionState,
    cause: Seq,
    now: TimestampMs,
) -> Result<(Vec<Event>, SessionState), Reject> {
    let mut draft = Draft { state, events: Vec::new(), cause, now };
    draft.follow()?;
    Ok((draft.events, draft.state))
}

struct Draft {
    state: SessionState,
    events: Vec<Event>,
    cause: Seq,
    now: TimestampMs,
}

impl Draft {
    fn push(&mut self, body: EventBody, actor: Actor) -> Result<(), Reject> {
        let seq = self.state.head.next();
        let event = Event { seq, time: self.now, cause: self.cause, actor, body };
        apply(&mut self.state, &event).map_err(Reject::Internal)?;
        self.events.push(event);
        Ok(())
    }

    fn follow(&mut self) -> Result<(), Reject> {
        for _ in 0..DECISIONS_MAX {
            self.state.prompt.catch_up();
            match next_decision(&self.state, self.now) {
                Some(body) => self.push(body, Actor::Engine)?,
                None => return Ok(()),
            }
        }
        Err(Reject::Endless)
    }
}

type Accepted = Vec<(EventBody, Actor)>;

/// Turns an input into its events, or refuses it.
fn accept(state: &SessionState, input: Input, now: TimestampMs) -> Result<Accepted, Reject> {
    match (state.phase, input) {
        (Phase::Absent, Input::Create { session, by }) => Ok(one(session, by)),
        (
            Phase::Ready
            | Phase::Thinking { .. }
            | Phase::Backoff { .. }
            | Phase::Acting
            | Phase::Listening
            | Phase::Finished { .. },
            Input::Create { .. },
        ) => Err(Reject::AlreadyExists),
        (Phase::Absent, _) => Err(Reject::NotFound),
        (_, Input::ModelReplied(reply)) => accept_reply(state, reply),
        (_, Input::ModelFailed(failure)) => {
            expect_asked(state, failure.step, failure.attempt)?;
            Ok(one(failure, Actor::Engine))
        }
        (_, Input::WorkerReserved { call_id, attempt, worker }) => {
            accept_dispatch(state, call_id, attempt, worker)
        }
        (_, Input::ToolFinished { report, worker }) => accept_report(state, report, worker),
        (_, Input::ToolLost(lost)) => accept_loss(state, lost),
        (_, Input::Decide(verdict)) => crate::approve::accept(state, verdict, now),
        (_, Input::Message { content, answers, client_key, by }) => {
            accept_message(state, MessageReceived { content, answers, client_key }, by)
        }
        (_, Input::Wake) => Ok(due_timers(state, now)),
        (_, Input::Fork { fork, by }) => accept_fork(state, fork, by, now),
        (Phase::Finished { .. }, Input::Cancel { .. }) if state.status() == Status::Cancelled => {
            Ok(Vec::new())
        }
        (
            Phase::Finished { .. },
            Input::Cancel { .. } | Input::Pause { .. } | Input::Resume { .. },
        ) => Err(Reject::Finished { status: state.status() }),
        (_, Input::Cancel { reason, by }) => {
            Ok(unless(state.cancelled.is_some(), CancelRequested { reason }, by))
        }
        (_, Input::Pause { reason, by }) => {
            // An import holds it anew: what the pause of elsewhere let go on does not go on here.
            let said_before = state.paused.is_some() && !by.is_import();
            Ok(unless(said_before, PauseRequested { reason }, by))
        }
        (_, Input::Resume { once: true, .. }) if state.paused.is_none() => Err(Reject::NotPaused),
        (_, Input::Resume { once, by }) => {
            Ok(unless(state.paused.is_none(), ResumeRequested { once }, by))
        }
    }
}

fn one(body: impl Into<EventBody>, by: Actor) -> Accepted {
    alloc::vec![(body.into(), by)]
}

/// An input that was said before changes nothing.
fn unless(said_before: bool, body: impl Into<EventBody>, by: Actor) -> Accepted {
    if said_before { Vec::new() } else { one(body, by) }
}

fn accept_reply(state: &SessionState, mut reply: ModelReplied) -> Result<Accepted, Reject> {
    expect_asked(state, reply.step, reply.attempt)?;
    number_calls(&mut reply);
    let model = state.model(reply.attempt).map(|it| it.name).unwrap_or_default();
    Ok(one(reply, Actor::Model(model)))
}

/// Gives every call its id, and a wire id of its own.
fn number_calls(reply: &mut ModelReplied) {
    let mut wire_ids = BTreeSet::new();
    for (i, call) in reply.tool_calls.iter_mut().enumerate() {
        let index = u32::try_from(i + 1).unwrap_or(u32::MAX);
        call.call_id = CallId { step: reply.step, index };
        // Servers send no id, or the same for two calls: then ours goes back to them.
        if call.wire_id.is_empty() || wire_ids.contains(&call.wire_id) {
            call.wire_id = alloc::format!("call_{}_{index}", reply.step);
        }
        // A server may have used that very id for another call.
        while !wire_ids.insert(call.wire_id.clone()) {
            call.wire_id.push('_');
        }
    }
}

fn expect_asked(state: &SessionState, step: u32, attempt: u32) -> Result<(), Reject> {
    if state.phase == (Phase::Thinking { attempt }) && state.step == step {
        Ok(())
    } else {
        Err(Reject::NotAsked { step, attempt })
    }
}

fn accept_dispatch(
    state: &SessionState,
    call_id: CallId,
    attempt: u32,
    worker: String,
) -> Result<Accepted, Reject> {
    let call = state.calls.get(&call_id).filter(|it| it.attempt == attempt);
    let call = call.ok_or(Reject::NotRunning { call_id, attempt })?;
    if call.status == (CallStatus::Dispatched { worker: worker.clone() }) {
        // Said again by the same owner, which did not learn whether its append was durable.
        return Ok(Vec::new());
    }
    if call.status != CallStatus::Scheduled {
        return Err(Reject::NotRunning { call_id, attempt });
    }
    if (state.paused.is_some() && !call.let_through) || state.cancelled.is_some() {
        return Err(Reject::MayNotStart { call_id });
    }
    let by = Actor::Worker(worker.clone());
    Ok(one(ToolDispatched { call_id, attempt, worker, approval_id: call.approval }, by))
}

fn accept_report(
    state: &SessionState,
    mut report: ToolFinished,
    worker: String,
) -> Result<Accepted, Reject> {
    let (call_id, attempt) = (report.call_id, report.attempt);
    let call = state.calls.get(&call_id).filter(|call| call.attempt == attempt);
    if let Some(CallStatus::Dispatched { worker: holder }) = call.map(|call| &call.status)
        && *holder != worker
    {
        return Err(Reject::OtherWorker { call_id, attempt, worker: holder.clone() });
    }
    let runs = call.is_some_and(|call| is_running(&call.status)) && !is_unstarted(state, call_id);
    report.late = !runs;
    if report.late && state.given_up.get(&call_id) != Some(&attempt) {
        return Err(Reject::NotRunning { call_id, attempt });
    }
    Ok(one(report, Actor::Worker(worker)))
}

fn accept_loss(state: &SessionState, mut lost: ToolLost) -> Result<Accepted, Reject> {
    let (call_id, attempt) = (lost.call_id, lost.attempt);
    let runs = state.calls.get(&call_id).is_some_and(|call| {
        call.attempt == attempt
            && matches!(call.status, CallStatus::Scheduled | CallStatus::Dispatched { .. })
    });
    if !runs {
        return Err(Reject::NotRunning { call_id, attempt });
    }
    lost.never_started |= is_unstarted(state, call_id);
    Ok(one(lost, Actor::Engine))
}

/// A call that must not run twice and was not dispatched has not begun, whatever anybody says.
fn is_unstarted(state: &SessionState, call_id: CallId) -> bool {
    state
        .calls
        .get(&call_id)
        .is_some_and(|call| call.status == CallStatus::Scheduled && !may_repeat(state, call))
}

fn accept_message(
    state: &SessionState,
    mut message: MessageReceived,
    by: Actor,
) -> Result<Accepted, Reject> {
    if let Some(key) = &message.client_key
        && state.message_keys.contains(key)
    {
        return Ok(Vec::new());
    }
    if state.is_finished() {
        return Err(Reject::Finished { status: state.status() });
    }
    if state.cancelled.is_some() {
        // Nobody would read it.
        return Err(Reject::Finished { status: Status::Cancelled });
    }
    let asks = |call_id: &CallId| {
        state.calls.get(call_id).is_some_and(|call| call.status == CallStatus::AwaitingAnswer)
    };
    match message.answers {
        Some(call_id) if !asks(&call_id) => return Err(Reject::NoQuestion { call_id }),
        Some(_) => {}
        // A message while the model's question is open is meant as its answer.
        None => message.answers = state.calls.keys().copied().find(asks),
    }
    Ok(one(message, by))
}

/// Tried on a copy first, so that an edit that does not fit is the caller's mistake and no bug.
fn accept_fork(
    state: &SessionState,
    mut fork: OverrideApplied,
    by: Actor,
    now: TimestampMs,
) -> Result<Accepted, Reject> {
    for edit in &mut fork.edits {
        if let Edit::ModelReply(reply) = edit {
            number_calls(reply);
        }
    }
    let body = EventBody::from(fork);
    let (seq, cause) = (state.head.next(), state.head.next());
    let event = Event { seq, time: now, cause, actor: by.clone(), body };
    let tried = apply(&mut state.clone(), &event);
    tried.map_err(|illegal| Reject::CannotFork { reason: illegal.reason })?;
    Ok(one(event.body, by))
}

/// Every timer that is due, earliest first.
fn due_timers(state: &SessionState, now: TimestampMs) -> Accepted {
    if state.is_brought() {
        return Vec::new();
    }
    let mut due: Vec<_> = state.timers.iter().filter(|(_, due_at)| **due_at <= now).collect();
    due.sort_by_key(|(timer, due_at)| (**due_at, **timer));
    let fired =
        due.into_iter().map(|(timer, due_at)| TimerFired { timer: *timer, due_at: *due_at });
    fired.map(|it| (it.into(), Actor::Engine)).collect()
}
