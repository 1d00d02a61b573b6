//! What a fork must know of its parent's whole history: where things happened, and which of them
//! reached the world.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::agent::{Agent, Effect};
use crate::event::{
    ApprovalDecided, ApprovalDecision, Edit, Event, EventBody, LimitKind, ModelReplied, Outcome,
    ToolOutcome,
};
use crate::ids::{CallId, Seq};
use crate::json::JsonText;
use crate::state::{Call, CallStatus, SessionState};
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
    /// How it ended.
    outcome: Option<Outcome>,
    limit: Option<LimitKind>,
    /// Folder of its workspace; empty for the one that is named by its id.
    workspace: String,
    head: Seq,
}

#[derive(Debug, Clone)]
struct Called {
    tool: String,
    /// What ran, or would run: the model's, or what a person put in their place.
    arguments: Arc<str>,
    /// Each time that it was let run.
    scheduled: Vec<Seq>,
    /// Every start that the session was told of before, and with what: those of tools that must not
    /// run twice.
    dispatched: Vec<(Seq, Arc<str>)>,
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
    /// It was let run and did not start.
    NotStarted,
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
            Self::NotStarted => "not_started",
        }
    }
}

/// A call of a write tool that ran in the parent after the moment of the fork, or was on its way at
/// that moment: what it did stays done, and the fork may do it again, or is told otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hazard {
    /// When it was started in the parent; when it was let run, if it did not start.
    pub seq: Seq,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The arguments with which it runs, shortened.
    pub arguments: String,
    /// How it ended in the parent.
    pub ending: Ending,
    /// The fork does not run it: a change gives its result there.
    pub result_given: bool,
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
                    call.dispatched.push((seq, call.arguments.clone()));
                }
            }
            EventBody::ToolScheduled(it) => {
                if let Some(call) = self.calls.get_mut(&it.call_id) {
                    call.scheduled.push(seq);
                }
            }
            EventBody::ToolFinished(it) => {
                self.settle(it.call_id, seq, Ending::of(it.outcome));
            }
            EventBody::ApprovalDecided(it) => self.decided(it, seq),
            EventBody::SessionFinished(it) => {
                self.end_cause = Some(event.cause);
                self.outcome = Some(it.outcome);
                self.limit = it.limit;
            }
            EventBody::SessionCreated(it) => self.workspace.clone_from(&it.workspace),
            EventBody::OverrideApplied(it) => {
                self.end_cause = None;
                self.outcome = None;
                self.workspace.clone_from(&it.workspace);
                it.edits.iter().for_each(|edit| self.edit(edit, seq));
            }
            EventBody::ModelFailed(_)
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

    fn decided(&mut self, it: &ApprovalDecided, seq: Seq) {
        match it.decision {
            ApprovalDecision::Happened => self.settle(it.call_id, seq, Ending::Ok),
            ApprovalDecision::Failed => self.settle(it.call_id, seq, Ending::Error),
            ApprovalDecision::Approve
            | ApprovalDecision::ApproveForSession
            | ApprovalDecision::DidNotHappen => {
                if let Some(arguments) = &it.arguments {
                    self.put(it.call_id, arguments);
                }
            }
            ApprovalDecision::Deny => {}
        }
    }

    /// Somebody put other arguments in the place of the model's.
    fn put(&mut self, call_id: CallId, arguments: &JsonText) {
        if let Some(call) = self.calls.get_mut(&call_id) {
            call.arguments = shown(arguments.as_str());
        }
    }

    fn reply(&mut self, reply: &ModelReplied, seq: Seq) {
        self.replies.insert(reply.step, seq);
        for call in &reply.tool_calls {
            let called = Called {
                tool: call.name.clone(),
                arguments: shown(call.arguments.preview()),
                scheduled: Vec::new(),
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
            Edit::Arguments { call_id, arguments } => self.put(*call_id, arguments),
            Edit::Message { .. } => {}
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

    /// Folder of the workspace that the session works in at its end; empty for the one that is named by
    /// its id. A fork's is its own, also for what it does over again from before it began.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Where another model is asked something: the end, or before the answer that ended the session.
    pub fn before_answer(&self) -> Seq {
        let reply = self.replies.values().next_back().copied();
        let before_reply = reply.map(|seq| Seq(seq.0 - 1));
        // Cut or withheld, it left nothing to go on with.
        let is_useless = match self.outcome {
            Some(Outcome::Completed) => true,
            Some(Outcome::Failed) => reply == self.end_cause,
            Some(Outcome::LimitReached) => self.limit == Some(LimitKind::OutputTokens),
            Some(Outcome::Cancelled) | None => false,
        };
        match before_reply.filter(|_| is_useless) {
            Some(seq) => seq,
            None => self.before_end(),
        }
    }

    /// Where somebody can still say something: the end, or right before it was decided to end. Where no
    /// attempt brought an answer, before the first of them: after the last there is none left.
    pub fn before_end(&self) -> Seq {
        match self.outcome {
            Some(Outcome::Failed | Outcome::LimitReached) => {
                let unanswered = self.unanswered().filter(|seq| self.end_cause > Some(*seq));
                unanswered.or(self.end_cause).unwrap_or(self.head)
            }
            Some(Outcome::Completed | Outcome::Cancelled) | None => {
                self.end_cause.unwrap_or(self.head)
            }
        }
    }

    /// Where the model was first asked in the last step, if it gave no reply there.
    fn unanswered(&self) -> Option<Seq> {
        let (step, seq) = self.requests.iter().next_back()?;
        (!self.replies.contains_key(step)).then_some(*seq)
    }

    /// What the parent did to the world after `at`, or was about to do then, in its order. `before` is
    /// its state then. What a change of the fork gives the result of does not run there, so of such a
    /// call only what ran in the parent counts.
    pub fn hazards(
        &self,
        at: Seq,
        agent: &Agent,
        before: &SessionState,
        edits: &[Edit],
    ) -> Vec<Hazard> {
        let is_given = |wanted: CallId| {
            let gives =
                |it: &Edit| matches!(it, Edit::ToolResult { call_id, .. } if *call_id == wanted);
            edits.iter().any(gives)
        };
        // What was a write tool there did something, whatever it is here.
        let writes = |call: &Called| {
            let is_write = |agent: &Agent| {
                agent.tool(&call.tool).is_none_or(|tool| tool.effect == Effect::Write)
            };
            is_write(agent) || before.agent().is_some_and(|theirs| is_write(theirs))
        };
        let mut hazards = Vec::new();
        for (call_id, call) in &self.calls {
            if !writes(call) {
                continue;
            }
            let result_given = is_given(*call_id);
            let hazard = |seq, arguments: &str, ending| Hazard {
                seq,
                call_id: *call_id,
                tool: call.tool.clone(),
                arguments: arguments.into(),
                ending,
                result_given,
            };
            let ending = call.settled.map_or(Ending::Unknown, |(_, ending)| ending);
            let later = call.dispatched.partition_point(|(seq, _)| *seq <= at);
            let (earlier, later) = call.dispatched.split_at(later);
            hazards.extend(later.iter().map(|(seq, given)| hazard(*seq, given, ending)));
            let open = before.calls.get(call_id).map_or(Open::No, |it| open(&it.status));
            match (open, earlier.last()) {
                (Open::MayHaveRun, Some((seq, given))) => {
                    hazards.push(hazard(*seq, given, ending));
                }
                (Open::MayRun, _) if later.is_empty() && !result_given => {
                    let let_run = call.scheduled.iter().rev().find(|seq| **seq <= at);
                    let seq = let_run.copied().unwrap_or(at);
                    let given = before.calls.get(call_id).map(Call::effective_arguments);
                    let given = shown(given.unwrap_or_default());
                    hazards.push(hazard(seq, &given, Ending::NotStarted));
                }
                (Open::MayHaveRun, None) | (Open::MayRun | Open::No, _) => {}
            }
        }
        hazards.sort_by_key(|hazard| hazard.seq);
        hazards
    }
}

fn shown(arguments: &str) -> Arc<str> {
    prefix(arguments, ARGUMENTS_BYTES_MAX).into()
}

/// Where a call stood at the moment of a fork.
#[derive(Clone, Copy)]
enum Open {
    /// It is over, or waits for somebody's word.
    No,
    /// It was let run and did not begin.
    MayRun,
    /// It began, and its outcome was not known.
    MayHaveRun,
}

fn open(status: &CallStatus) -> Open {
    match status {
        CallStatus::Approved
        | CallStatus::Scheduled
        | CallStatus::AwaitingRetry
        | CallStatus::Lost { never_started: true, .. } => Open::MayRun,
        CallStatus::Dispatched { .. }
        | CallStatus::Lost { never_started: false, .. }
        | CallStatus::AwaitingOutcome => Open::MayHaveRun,
        CallStatus::Proposed
        | CallStatus::AwaitingApproval
        | CallStatus::TurnedDown { .. }
        | CallStatus::AwaitingAnswer
        | CallStatus::Sleeping
        | CallStatus::Settled { .. } => Open::No,
    }
}
