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
use crate::decide::{Input, Reject, Verdict, decide};
use crate::event::{Actor, Event, EventBody};
use crate::ids::Seq;
use crate::state::SessionState;

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
#[derive(Debug, Clone, Default)]
pub struct Replay {
    state: SessionState,
    /// What today's code concluded from the last input and was not yet met in the record.
    expected: VecDeque<Event>,
    after: Option<SessionState>,
    /// What of the present append was met in the record.
    met: Vec<Event>,
    /// Payloads were taken out of the record, so digests of prompts cannot be compared any more.
    is_redacted: bool,
    /// Requests to the model and actions to approve whose digest could not be compared.
    unchecked: u64,
    inputs: u64,
}

impl Replay {
    /// From here on the record holds texts that are not the original ones.
    pub fn note_redaction(&mut self) {
        self.is_redacted = true;
    }

    /// Requests to the model and actions to approve whose bytes could not be compared, because texts
    /// were taken out.
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
            self.cut(&recorded)?;
        }
        if self.expected.is_empty() {
            self.feed(&recorded)?;
        }
        match self.expected.pop_front() {
            Some(event) if self.is_same(&event, &recorded) => {
                self.met.push(recorded);
                if self.expected.is_empty()
                    && let Some(after) = self.after.take()
                {
                    self.state = after;
                    self.met.clear();
                }
                Ok(())
            }
            today => {
                let today = today.map_or(Today::Nothing, |event| Today::Event(Box::new(event)));
                Err(Box::new(Divergence { seq: recorded.seq, recorded: Some(recorded), today }))
            }
        }
    }

    /// The record ends here.
    ///
    /// # Errors
    /// [`Divergence`] when today's code comes to more.
    pub fn end(mut self) -> Result<SessionState, Box<Divergence>> {
        match self.expected.pop_front() {
            None => Ok(self.state),
            Some(event) => Err(Box::new(Divergence {
                seq: event.seq,
                recorded: None,
                today: Today::Event(Box::new(event)),
            })),
        }
    }

    /// A fork may begin in the middle of one of its parent's appends: what the parent decided after
    /// that is not its own.
    fn cut(&mut self, recorded: &Event) -> Result<(), Box<Divergence>> {
        self.expected.clear();
        self.after = None;
        for event in core::mem::take(&mut self.met) {
            if let Err(illegal) = apply(&mut self.state, &event) {
                let today = Today::Refuses(Reject::Internal(illegal));
                let (seq, recorded) = (recorded.seq, Some(recorded.clone()));
                return Err(Box::new(Divergence { seq, recorded, today }));
            }
        }
        Ok(())
    }

    /// Decides a recorded input again.
    fn feed(&mut self, recorded: &Event) -> Result<(), Box<Divergence>> {
        let differs = |today| {
            Box::new(Divergence { seq: recorded.seq, recorded: Some(recorded.clone()), today })
        };
        let Some(input) = input_of(recorded) else { return Err(differs(Today::Nothing)) };
        self.inputs += 1;
        let decision = decide(&self.state, input, recorded.time)
            .map_err(|reject| differs(Today::Refuses(reject)))?;
        self.expected = decision.events.into();
        self.after = Some(decision.state);
        Ok(())
    }

    fn is_same(&mut self, today: &Event, recorded: &Event) -> bool {
        if !self.is_redacted {
            return today == recorded;
        }
        let mut today = today.clone();
        match (&mut today.body, &recorded.body) {
            (EventBody::ModelRequested(ours), EventBody::ModelRequested(theirs)) => {
                self.unchecked += 1;
                ours.prompt_digest.clone_from(&theirs.prompt_digest);
                ours.prompt_bytes = theirs.prompt_bytes;
            }
            (EventBody::ApprovalRequested(ours), EventBody::ApprovalRequested(theirs)) => {
                self.unchecked += u64::from(ours.action_digest != theirs.action_digest);
                ours.action_digest.clone_from(&theirs.action_digest);
            }
            (_, _) => {}
        }
        today == *recorded
    }
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
