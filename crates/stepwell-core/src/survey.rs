//! What a fork must know of its parent's whole history: where things happened, and which of them
//! reached the world.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::agent::{Agent, Effect};
use crate::event::{ApprovalDecision, Edit, Event, EventBody, ModelReplied, ToolOutcome};
use crate::ids::{CallId, Seq};
use crate::text::prefix;

/// How much of a call's arguments a report shows, in bytes.
const ARGUMENTS_BYTES_MAX: usize = 512;

/// Goes through a history, event by event. O(calls) memory.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The first request of each step.
    requests: BTreeMap<u32, Seq>,
    replies: BTreeMap<u32, Seq>,
    calls: BTreeMap<CallId, Called>,
    /// The input after which the session ended.
    end_cause: Option<Seq>,
    head: Seq,
}

#[derive(Debug, Clone)]
struct Called {
    tool: String,
    arguments: String,
    /// Every start that the session was told of before: those of tools that must not run twice.
    dispatched: Vec<Seq>,
    settled: Option<(Seq, Ending)>,
}

/// What is known of how a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It did its work.
    Ok,
    /// It failed.
    Error,
    /// It was started, and nobody knows.
    Unknown,
}

impl Ending {
    fn of(outcome: ToolOutcome) -> Self {
        match outcome {
            ToolOutcome::Ok => Self::Ok,
            ToolOutcome::Error => Self::Error,
        }
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

/// A call of a write tool that ran in the parent after the moment of the fork: what it did stays done,
/// and the fork may do it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hazard {
    /// When it was started in the parent.
    pub seq: Seq,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The arguments, shortened.
    pub arguments: String,
    /// How it ended in the parent.
    pub ending: Ending,
}

impl Survey {
    /// The next event.
    pub fn push(&mut self, event: &Event) {
        let seq = event.seq;
        self.head = seq;
        match &event.body {
            EventBody::ModelRequested(it) => {
                self.requests.entry(it.step).or_insert(seq);
            }
            EventBody::ModelReplied(reply) => self.reply(reply, seq),
            EventBody::ToolDispatched(it) => {
                if let Some(call) = self.calls.get_mut(&it.call_id) {
                    call.dispatched.push(seq);
                }
            }
            EventBody::ToolFinished(it) => {
                self.settle(it.call_id, seq, Ending::of(it.outcome));
            }
            EventBody::ApprovalDecided(it) => match it.decision {
                ApprovalDecision::Happened => self.settle(it.call_id, seq, Ending::Ok),
                ApprovalDecision::Failed => self.settle(it.call_id, seq, Ending::Error),
                ApprovalDecision::Approve
                | ApprovalDecision::ApproveForSession
                | ApprovalDecision::Deny
                | ApprovalDecision::DidNotHappen => {}
            },
            EventBody::SessionFinished(_) => self.end_cause = Some(event.cause),
            EventBody::OverrideApplied(it) => {
                self.end_cause = None;
                it.edits.iter().for_each(|edit| self.edit(edit, seq));
            }
            EventBody::SessionCreated(_)
            | EventBody::ModelFailed(_)
            | EventBody::ToolScheduled(_)
            | EventBody::ToolLost(_)
            | EventBody::ToolRefused(_)
            | EventBody::ApprovalRequested(_)
            | EventBody::MessageReceived(_)
            | EventBody::TimerStarted(_)
            | EventBody::TimerFired(_)
            | EventBody::CancelRequested(_)
            | EventBody::PauseRequested(_)
            | EventBody::ResumeRequested(_) => {}
        }
    }

    fn reply(&mut self, reply: &ModelReplied, seq: Seq) {
        self.replies.insert(reply.step, seq);
        for call in &reply.tool_calls {
            let shown = prefix(call.arguments.preview(), ARGUMENTS_BYTES_MAX);
            let called = Called {
                tool: call.name.clone(),
                arguments: shown.into(),
                dispatched: Vec::new(),
                settled: None,
            };
            self.calls.insert(call.call_id, called);
        }
    }

    /// What a fork of a fork was told, happened to it as well.
    fn edit(&mut self, edit: &Edit, seq: Seq) {
        match edit {
            Edit::ModelReply(reply) => self.reply(reply, seq),
            Edit::ToolResult { call_id, outcome, .. } => {
                self.settle(*call_id, seq, Ending::of(*outcome));
            }
            Edit::Arguments { .. } | Edit::Message { .. } => {}
        }
    }

    fn settle(&mut self, call_id: CallId, seq: Seq, ending: Ending) {
        if let Some(call) = self.calls.get_mut(&call_id) {
            call.settled.get_or_insert((seq, ending));
        }
    }

    /// The last event.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Where the model was first asked in that step.
    pub fn request_of(&self, step: u32) -> Option<Seq> {
        self.requests.get(&step).copied()
    }

    /// The last event before the model's reply of that step.
    pub fn before_reply(&self, step: u32) -> Option<Seq> {
        self.replies.get(&step).map(|seq| Seq(seq.0 - 1))
    }

    /// The model's reply of that step, before anything was decided about its calls.
    pub fn at_reply(&self, step: u32) -> Option<Seq> {
        self.replies.get(&step).copied()
    }

    /// The last event before the result of that call; the last of all while it has none.
    pub fn before_result(&self, call_id: CallId) -> Option<Seq> {
        let call = self.calls.get(&call_id)?;
        Some(call.settled.map_or(self.head, |(seq, _)| Seq(seq.0 - 1)))
    }

    /// Where somebody can still say something: the end, or right before it was decided to end.
    pub fn before_end(&self) -> Seq {
        self.end_cause.unwrap_or(self.head)
    }

    /// What the parent did to the world after `at`, in its order.
    pub fn hazards(&self, at: Seq, agent: &Agent) -> Vec<Hazard> {
        let mut hazards = Vec::new();
        for (call_id, call) in &self.calls {
            let writes = agent.tool(&call.tool).is_none_or(|tool| tool.effect == Effect::Write);
            let after = call.dispatched.iter().filter(|seq| **seq > at && writes);
            hazards.extend(after.map(|seq| Hazard {
                seq: *seq,
                call_id: *call_id,
                tool: call.tool.clone(),
                arguments: call.arguments.clone(),
                ending: call.settled.map_or(Ending::Unknown, |(_, ending)| ending),
            }));
        }
        hazards.sort_by_key(|hazard| hazard.seq);
        hazards
    }
}
