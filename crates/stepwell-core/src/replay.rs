//! Does today's code come to the recorded decisions?
//!
//! The recorded inputs go through [`decide`] again, one append after the other, and everything that
//! follows is compared with what was recorded: times, actors, prompts (by their digest) and all. No IO
//! happens, so a recorded session is a test of the rules and of its agent.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::apply::apply;
use crate::codec::encode;
use crate::decide::{Input, Reject, Verdict, decide, go_on};
use crate::event::{Actor, Event, EventBody, Family, LimitKind};
use crate::ids::{Seq, TimestampMs};
use crate::state::SessionState;

mod hidden;

use hidden::{Hidden, may_be_allowed};

/// Where code and record part, and both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The first event that differs.
    pub seq: Seq,
    /// What was recorded there; `None` when the record has no such event.
    pub recorded: Option<Event>,
    /// What follows today.
    pub today: Today,
}

/// What today's code does where the record has something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Today {
    /// It concludes this.
    Event(Box<Event>),
    /// It concludes nothing more.
    Nothing,
    /// It refuses the recorded input.
    Refuses(Reject),
}

impl Divergence {
    /// Both sides in words, one sentence.
    pub fn in_words(&self) -> String {
        let today = match &self.today {
            Today::Event(event) => in_words(event),
            Today::Nothing => "nothing".to_string(),
            Today::Refuses(reject) => format!("a refusal: {reject}"),
        };
        let Some(recorded) = &self.recorded else {
            return format!("at event {}: nothing was recorded, today follows {today}", self.seq);
        };
        match (&self.today, recorded) {
            (Today::Event(event), recorded) if event.body == recorded.body => {
                let frame =
                    |it: &Event| format!("{} by {}, caused by {}", it.time.0, it.actor, it.cause);
                let (then, now) = (frame(recorded), frame(event));
                format!("at event {}: recorded at {then}, today at {now}", self.seq)
            }
            (Today::Event(_) | Today::Nothing | Today::Refuses(_), recorded) => {
                format!(
                    "at event {}: recorded is {}, today follows {today}",
                    self.seq,
                    in_words(recorded)
                )
            }
        }
    }
}

/// Longest content of an event in a sentence, in characters.
const SHOWN_CHARS_MAX: usize = 400;

fn in_words(event: &Event) -> String {
    let body = encode(&event.body).unwrap_or_default();
    let mut shown: String = body.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < body.len() {
        shown.push('…');
    }
    format!("{} {shown}", event.body.kind().as_str())
}

/// A replay on its way. Feed it the events of one session in order.
///
/// Where texts were taken out of the record ([`Replay::of_redacted`]), what hangs on them cannot be
/// decided again. Then the recorded decision is taken, if it is one that today's rules may come to, and
/// the replay goes on with the state that it leads to. In every other record a marker is a text as any:
/// somebody wrote it there.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    state: SessionState,
    /// What today's code concluded from the last input and was not yet met in the record.
    expected: VecDeque<Event>,
    after: Option<SessionState>,
    /// What of the present append was met in the record and is not in the state yet.
    met: Vec<Event>,
    /// The input that the present append follows from, and when it came.
    cause: Seq,
    now: TimestampMs,
    /// What markers hide; `None` for a record from which nothing was taken out.
    hidden: Option<Hidden>,
    /// Decisions that could not be compared whole.
    unchecked: u64,
    inputs: u64,
}

impl Replay {
    /// Of a record from which texts were taken out, as its file or its store says.
    pub fn of_redacted() -> Self {
        Self { hidden: Some(Hidden::default()), ..Self::default() }
    }

    /// The replay that fits a record.
    pub fn of(is_redacted: bool) -> Self {
        if is_redacted { Self::of_redacted() } else { Self::default() }
    }

    /// Decisions that could not be compared, or not whole, because they hang on texts that were taken
    /// out: digests of requests and of actions, what a rule says about a call, a time, a reason.
    pub fn unchecked(&self) -> u64 {
        self.unchecked
    }

    /// Inputs that were fed.
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// The state after the last whole append.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// The next recorded event.
    ///
    /// # Errors
    /// [`Divergence`] when today's code does not come to it. The replay is over then.
    pub fn push(&mut self, recorded: Event) -> Result<(), Box<Divergence>> {
        if let EventBody::OverrideApplied(_) = recorded.body {
            // A fork may begin in the middle of one of its parent's appends: what the parent decided
            // after that is not its own.
            self.catch_up(&recorded)?;
            self.expected.clear();
        }
        if let Some(hidden) = &mut self.hidden {
            if self.expected.is_empty() {
                hidden.forget_actions(&self.state);
            }
            hidden.note(&recorded.body);
        }
        self.meet(recorded)
    }

    fn meet(&mut self, recorded: Event) -> Result<(), Box<Divergence>> {
        if self.expected.is_empty()
            && let Some(input) = input_of(&recorded)
        {
            self.inputs += 1;
            match decide(&self.state, input, recorded.time) {
                Ok(decision) => {
                    self.expected = decision.events.into();
                    self.after = Some(decision.state);
                }
                Err(Reject::Forbidden { .. })
                    if self.hidden.is_some() && may_be_allowed(&self.state, &recorded.body) =>
                {
                    return self.take(&recorded);
                }
                Err(reject) => return Err(differs(recorded, Today::Refuses(reject))),
            }
        }
        let today = self.expected.pop_front();
        if today.as_ref() != Some(&recorded) {
            return self.differ(today, recorded);
        }
        self.note_cause(&recorded);
        self.met.push(recorded);
        if self.expected.is_empty()
            && let Some(after) = self.after.take()
        {
            self.state = after;
            self.met.clear();
        }
        Ok(())
    }

    /// The record ends here.
    ///
    /// # Errors
    /// [`Divergence`] when today's code comes to more.
    pub fn end(mut self) -> Result<SessionState, Box<Divergence>> {
        let Some(event) = self.expected.pop_front() else { return Ok(self.state) };
        self.catch_up(&event)?;
        if self.forgives_repetition(&event)? {
            return self.end();
        }
        let (seq, today) = (event.seq, Today::Event(Box::new(event)));
        Err(Box::new(Divergence { seq, recorded: None, today }))
    }

    /// Today's code does not come to the recorded event. That is a divergence, unless it comes from
    /// what was taken out of the record.
    fn differ(&mut self, today: Option<Event>, recorded: Event) -> Result<(), Box<Divergence>> {
        self.catch_up(&recorded)?;
        let Event { seq, time, cause, ref actor, ref body } = recorded;
        let is_next = (seq, time, cause) == (self.state.head.next(), self.now, self.cause);
        let is_decision = body.kind().family() == Family::Decision && *actor == Actor::Engine;
        let ours = today.as_ref().map(|it| &it.body);
        let allows = |hidden: &Hidden| hidden.allows(&self.state, ours, &recorded);
        if is_next && is_decision && self.hidden.as_ref().is_some_and(allows) {
            return self.take(&recorded);
        }
        if let Some(event) = &today
            && self.forgives_repetition(event)?
        {
            return self.meet(recorded);
        }
        let today = today.map_or(Today::Nothing, |event| Today::Event(Box::new(event)));
        Err(differs(recorded, today))
    }

    /// Takes the recorded event for what follows, and decides again what follows from it.
    fn take(&mut self, recorded: &Event) -> Result<(), Box<Divergence>> {
        self.unchecked += 1;
        self.note_cause(recorded);
        self.absorb(recorded, recorded)?;
        self.go_on(recorded)
    }

    /// Of actions with markers nobody knows whether they are the same. Where the record goes on, they
    /// were not.
    fn forgives_repetition(&mut self, today: &Event) -> Result<bool, Box<Divergence>> {
        let EventBody::SessionFinished(it) = &today.body else { return Ok(false) };
        let is_hidden = it.limit == Some(LimitKind::RepeatedAction)
            && self.state.repeated.is_some()
            && self.hidden.as_ref().is_some_and(|it| it.hides_repetition(&self.state));
        if is_hidden {
            self.unchecked += 1;
            self.state.repeated = None;
            self.go_on(today)?;
        }
        Ok(is_hidden)
    }

    fn note_cause(&mut self, recorded: &Event) {
        if recorded.body.kind().family() == Family::Input {
            (self.cause, self.now) = (recorded.seq, recorded.time);
        }
    }

    /// Brings the state to the last event that was met, in the middle of an append too.
    fn catch_up(&mut self, next: &Event) -> Result<(), Box<Divergence>> {
        self.after = None;
        for event in core::mem::take(&mut self.met) {
            self.absorb(&event, next)?;
        }
        Ok(())
    }

    fn absorb(&mut self, event: &Event, recorded: &Event) -> Result<(), Box<Divergence>> {
        apply(&mut self.state, event)
            .map_err(|illegal| differs(recorded.clone(), Today::Refuses(Reject::Internal(illegal))))
    }

    /// Decides anew what else follows in the present append.
    fn go_on(&mut self, recorded: &Event) -> Result<(), Box<Divergence>> {
        let (events, after) = go_on(self.state.clone(), self.cause, self.now)
            .map_err(|reject| differs(recorded.clone(), Today::Refuses(reject)))?;
        self.after = (!events.is_empty()).then_some(after);
        self.expected = events.into();
        Ok(())
    }
}

fn differs(recorded: Event, today: Today) -> Box<Divergence> {
    Box::new(Divergence { seq: recorded.seq, recorded: Some(recorded), today })
}

/// Replays whole histories.
///
/// # Errors
/// The first [`Divergence`].
pub fn replay(events: impl IntoIterator<Item = Event>) -> Result<SessionState, Box<Divergence>> {
    let mut replay = Replay::default();
    for event in events {
        replay.push(event)?;
    }
    replay.end()
}

/// The input that a recorded event stands for; `None` for a decision.
pub fn input_of(recorded: &Event) -> Option<Input> {
    let by = recorded.actor.clone();
    match recorded.body.clone() {
        EventBody::SessionCreated(session) => Some(Input::Create { session, by }),
        EventBody::ModelReplied(reply) => Some(Input::ModelReplied(reply)),
        EventBody::ModelFailed(failure) => Some(Input::ModelFailed(failure)),
        EventBody::ToolDispatched(it) => Some(Input::WorkerReserved {
            call_id: it.call_id,
            attempt: it.attempt,
            worker: it.worker,
        }),
        EventBody::ToolFinished(report) => {
            let worker = match by {
                Actor::Worker(worker) => worker,
                Actor::Engine | Actor::Person(_) | Actor::Model(_) => String::new(),
            };
            Some(Input::ToolFinished { report, worker })
        }
        EventBody::ToolLost(lost) => Some(Input::ToolLost(lost)),
        EventBody::ApprovalDecided(it) => Some(Input::Decide(Verdict {
            approval_id: it.approval_id,
            decision: it.decision,
            reason: it.reason,
            arguments: it.arguments,
            output: it.output,
            action_digest: None,
            tool: None,
            by,
        })),
        EventBody::MessageReceived(it) => Some(Input::Message {
            content: it.content,
            answers: it.answers,
            client_key: it.client_key,
            by,
        }),
        EventBody::TimerFired(_) => Some(Input::Wake),
        EventBody::CancelRequested(it) => Some(Input::Cancel { reason: it.reason, by }),
        EventBody::PauseRequested(it) => Some(Input::Pause { reason: it.reason, by }),
        EventBody::ResumeRequested(it) => Some(Input::Resume { once: it.once, by }),
        EventBody::OverrideApplied(fork) => Some(Input::Fork { fork, by }),
        EventBody::ModelRequested(_)
        | EventBody::ToolScheduled(_)
        | EventBody::ToolRefused(_)
        | EventBody::ApprovalRequested(_)
        | EventBody::TimerStarted(_)
        | EventBody::SessionFinished(_) => None,
    }
}
