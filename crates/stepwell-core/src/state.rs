//! The state of a session: everything that the next decision needs, and nothing else.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::account::{Account, Measured};
use crate::agent::{Agent, ModelSpec};
use crate::event::{
    Actor, ApprovalDecision, FinishReason, Label, LimitKind, MessageReceived, ModelFailed, Outcome,
    Question, RefusalReason, Timer, Usage,
};
use crate::ids::{ApprovalId, CallId, Seq, SessionId, TimestampMs};
use crate::json::JsonText;
use crate::pending::may_repeat;
use crate::prompt::Prompt;
use crate::text::Text;
use crate::tokens::Tokens;
use crate::turns::Turns;

/// Version of the serialised state. A snapshot with another one is dropped and rebuilt from events.
pub const STATE_VERSION: u32 = 8;

/// State of one session. `default()` is the state before the first event.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that its own event tells")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// Seq of the last event.
    pub head: Seq,
    /// Time of the last event.
    pub updated_at: TimestampMs,
    /// What the session knows since its first event; `None` before it.
    pub origin: Option<Origin>,
    /// The session whose beginning it shares, for a fork.
    #[serde(default)]
    pub forked_from: Option<ForkedFrom>,
    /// Where it is in its loop.
    pub phase: Phase,
    /// Steps that were begun: the last one that the model was asked for.
    pub step: u32,
    /// The request to the model, as far as it is known.
    pub prompt: Prompt,
    /// Calls of the current step, in the model's order.
    pub calls: BTreeMap<CallId, Call>,
    /// Calls of earlier steps that were given up while they may still run, and their attempt: a
    /// result that comes is recorded as late.
    pub given_up: BTreeMap<CallId, u32>,
    /// Open approvals.
    pub approvals: BTreeMap<ApprovalId, Approval>,
    /// Closed approvals, for a clear answer to a second decision. Shared, like all that grows with the
    /// session, so that a decision does not copy it.
    pub closed_approvals: Arc<BTreeMap<ApprovalId, ClosedApproval>>,
    /// What the deciders of closed approvals brought along; nothing for those who brought nothing.
    #[serde(default)]
    pub brought: Arc<BTreeMap<ApprovalId, Brought>>,
    /// Tools that a person approved for the rest of the session.
    pub grants: BTreeSet<String>,
    /// Messages that the model has not been shown.
    pub inbox: Arc<Vec<MessageReceived>>,
    /// Keys of the messages that were taken.
    pub message_keys: Arc<BTreeSet<String>>,
    /// Timers that are set.
    pub timers: BTreeMap<Timer, TimestampMs>,
    /// Who paused it and why.
    pub paused: Option<Stop>,
    /// One thing may begin although it is paused.
    #[serde(default)]
    pub single_step: bool,
    /// Who cancelled it and why.
    pub cancelled: Option<Stop>,
    /// Tools were given their time to stop after a cancel.
    pub grace_started: bool,
    /// The deadline passed.
    pub deadline_passed: bool,
    /// Tokens so far.
    pub usage: Usage,
    /// The same by model, with times.
    pub account: Account,
    /// The same for a session and all its forks, whose prompts begin alike.
    pub prefix_key: String,
    /// The address of the model server that answered last: it holds the prefix of the prompt.
    pub prefix_holder: Option<String>,
    /// The last prompt that a server counted.
    #[serde(default)]
    pub measured: Option<Measured>,
    /// The last request and the reply to it as tokens, where the server tells them.
    #[serde(default)]
    pub tokens: Tokens,
    /// Digests of the last actions, for the check of repetition.
    pub recent_actions: VecDeque<String>,
    /// The tool whose call was repeated too often.
    pub repeated: Option<String>,
    /// Replies in a row that could not be used.
    #[serde(default)]
    pub unusable_replies: u32,
    /// What was wrong with the last of them.
    #[serde(default)]
    pub unusable_reason: String,
    /// The model called a tool since the last word of a person.
    #[serde(default)]
    pub called_since_message: bool,
    /// The last answer did not have the form that it must have.
    #[serde(default)]
    pub answer_did_not_fit: bool,
    /// In what the server did not hold to the last request; empty when it did.
    #[serde(default)]
    pub ignored: String,
    /// Attempts of this step that met an exhausted quota: they count for nothing.
    #[serde(default)]
    pub quota_waits: u32,
    /// Whose turn it is among the models of this step.
    #[serde(default)]
    pub turns: Turns,
    /// The last attempt to ask the model failed so; gone with the next reply.
    pub model_failure: Option<ModelFailed>,
    /// When the first of the attempts failed that had no reply since.
    #[serde(default)]
    pub failing_since: Option<TimestampMs>,
    /// What follows from that failure is decided.
    pub failure_handled: bool,
    /// Why the session ended, in words.
    pub end_reason: String,
    /// The last reply of the model: the answer, once completed.
    pub last_reply: Text,
    /// Why the model stopped in its last reply.
    pub last_finish: Option<FinishReason>,
    /// The server's own word for that, where it says more.
    #[serde(default)]
    pub finish_word: Option<Box<str>>,
}

/// What a session knows since its first event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The agent's definition.
    pub agent: Arc<Agent>,
    /// Name for lists.
    pub title: String,
    /// Labels.
    pub labels: Vec<Label>,
    /// Folder of the workspace; empty for one of its own.
    #[serde(default)]
    pub workspace: String,
    /// Seed of derived values.
    pub seed: String,
    /// Time of the first event; for a fork, when it was forked.
    pub created_at: TimestampMs,
}

/// Where a fork comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The parent.
    pub session_id: SessionId,
    /// The parent's last event that both share.
    pub seq: Seq,
}

/// Where a session is in its loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the first event.
    #[default]
    Absent,
    /// The model is to be asked.
    Ready,
    /// The model was asked.
    Thinking {
        /// Attempt within the step, from 1.
        attempt: u32,
    },
    /// The model could not be asked; a timer runs.
    Backoff {
        /// The attempt that comes next.
        attempt: u32,
    },
    /// Tool calls of the current step are open.
    Acting,
    /// The model answered and a message is awaited (interactive agents).
    Listening,
    /// It ended.
    Finished {
        /// How.
        outcome: Outcome,
        /// Which limit.
        limit: Option<LimitKind>,
    },
}

/// One tool call of the current step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The server's id for it.
    pub wire_id: String,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: Text,
    /// Why the arguments cannot be used.
    pub problem: Option<String>,
    /// The arguments that a person put in their place.
    pub edited: Option<JsonText>,
    /// Where it stands.
    pub status: CallStatus,
    /// Attempts that were scheduled.
    pub attempt: u32,
    /// The approval that allowed it and was not used yet.
    pub approval: Option<ApprovalId>,
    /// It may start although the session is paused: it is the one thing that was let through.
    #[serde(default)]
    pub let_through: bool,
}

impl Call {
    /// The arguments that run: the edited ones, else the model's.
    pub fn effective_arguments(&self) -> &str {
        match &self.edited {
            Some(edited) => edited.as_str(),
            None => self.arguments.preview(),
        }
    }
}

/// Where a tool call stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The model asked for it; nothing is decided.
    Proposed,
    /// A person is asked whether it may run.
    AwaitingApproval,
    /// A person said yes, or its retry is due; it is not scheduled yet.
    Approved,
    /// It may run, or runs, and may be started again.
    Scheduled,
    /// A worker was told to run it; it must not be started again.
    Dispatched {
        /// The worker.
        worker: String,
    },
    /// A person, a rule or the clock said no; the model is not told yet.
    TurnedDown {
        /// Why.
        reason: RefusalReason,
        /// What the model will be told.
        message: String,
    },
    /// Its worker is gone and its outcome is unknown; nothing is decided.
    Lost {
        /// How it was noticed.
        reason: String,
        /// The worker is sure that the call never began.
        never_started: bool,
    },
    /// It was lost and will be scheduled again when a timer fires.
    AwaitingRetry,
    /// Its outcome is unknown and a person is asked what happened.
    AwaitingOutcome,
    /// It asks a person; a message answers it.
    AwaitingAnswer,
    /// It waits for its time.
    Sleeping,
    /// It came to its end.
    Settled {
        /// What the model is shown.
        observation: Text,
    },
}

/// An open approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The call it is about.
    pub call_id: CallId,
    /// What is asked.
    pub question: Question,
    /// Digest of the exact action.
    pub action_digest: String,
    /// Which rule asks.
    pub rule: String,
    /// When it was asked.
    pub requested_at: TimestampMs,
    /// When it lapses.
    pub expires_at: Option<TimestampMs>,
}

/// A closed approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedApproval {
    /// What was decided; `None` when it lapsed.
    pub decision: Option<ApprovalDecision>,
    /// Who closed it.
    pub by: Actor,
    /// When.
    pub at: TimestampMs,
    /// The decider's reason.
    pub reason: String,
}

/// What a decision brought along, as digests: enough to notice that it is said again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brought {
    /// Digest of the canonical arguments.
    #[serde(default)]
    pub arguments: Option<String>,
    /// Digest of the result.
    #[serde(default)]
    pub output: Option<String>,
}

/// Who stopped a session, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Who.
    pub by: Actor,
    /// When.
    pub at: TimestampMs,
    /// In their words.
    pub reason: String,
    /// With which event.
    pub seq: Seq,
}

/// What a list says about where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Created, the model was not asked yet.
    Pending,
    /// The model was asked.
    Thinking,
    /// Tools run, or wait for a worker.
    ExecutingTools,
    /// A person must decide.
    WaitingApproval,
    /// A message is awaited.
    WaitingInput,
    /// A timer runs.
    Sleeping,
    /// Somebody holds it.
    Paused,
    /// The model gave its answer.
    Completed,
    /// It could not go on.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// A limit ended it.
    LimitReached,
    /// Its log cannot be read; others are not touched.
    Quarantined,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 12] = [
        Self::Pending,
        Self::Thinking,
        Self::ExecutingTools,
        Self::WaitingApproval,
        Self::WaitingInput,
        Self::Sleeping,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::LimitReached,
        Self::Quarantined,
    ];

    /// The stored name, for example `waiting_approval`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Thinking => "thinking",
            Self::ExecutingTools => "executing_tools",
            Self::WaitingApproval => "waiting_approval",
            Self::WaitingInput => "waiting_input",
            Self::Sleeping => "sleeping",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::LimitReached => "limit_reached",
            Self::Quarantined => "quarantined",
        }
    }

    /// The status of that stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether only a person can move a session that is here: nothing of it runs, and no time that
    /// passes leads on. All lists mark the same sessions by it.
    pub fn needs_person(self) -> bool {
        match self {
            Self::WaitingApproval | Self::WaitingInput | Self::Paused | Self::Quarantined => true,
            Self::Pending
            | Self::Thinking
            | Self::ExecutingTools
            | Self::Sleeping
            | Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::LimitReached => false,
        }
    }

    /// Whether the session will not move again by itself or by an input.
    pub fn is_final(self) -> bool {
        match self {
            Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::LimitReached
            | Self::Quarantined => true,
            Self::Pending
            | Self::Thinking
            | Self::ExecutingTools
            | Self::WaitingApproval
            | Self::WaitingInput
            | Self::Sleeping
            | Self::Paused => false,
        }
    }
}

impl SessionState {
    /// The agent, once there is a first event.
    pub fn agent(&self) -> Option<&Arc<Agent>> {
        self.origin.as_ref().map(|origin| &origin.agent)
    }

    /// The request to the model in the given attempt of the step: the prompt, to a fallback model
    /// where that is its turn. O(1) without one, O(bytes) with one.
    pub fn request(&self, attempt: u32) -> Prompt {
        let agent = self.agent();
        let place = self.place(attempt);
        match agent.and_then(|it| it.model.fallback(place).map(|model| (it, &model.name))) {
            Some((agent, model)) => self.prompt.for_model(agent, model),
            None => self.prompt.clone(),
        }
    }

    /// The model that the given attempt of the current step asks.
    pub fn model(&self, attempt: u32) -> Option<ModelSpec> {
        self.agent().map(|agent| agent.model.at_place(self.place(attempt)))
    }

    /// Its place: 0 is the agent's own, then its fallbacks.
    pub(crate) fn place(&self, attempt: u32) -> usize {
        self.agent().map_or(0, |agent| self.turns.place(&agent.model, attempt))
    }

    /// The same without the texts and tokens of the prompt, to be looked at: O(open calls), however long the
    /// session is.
    #[must_use]
    pub fn outline(&self) -> Self {
        Self { prompt: self.prompt.outline(), tokens: Tokens::default(), ..self.clone() }
    }

    /// Whether the session ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished { .. })
    }

    /// Whether it was brought here from elsewhere and nobody has given it an input since. Nothing of
    /// it goes on here: nobody here asked for it.
    pub fn is_brought(&self) -> bool {
        let stop = self.paused.as_ref();
        stop.is_some_and(|it| it.by.is_import() && it.seq == self.head) && !self.is_finished()
    }

    /// The next moment at which a timer is due.
    pub fn next_due(&self) -> Option<TimestampMs> {
        if self.is_brought() {
            return None;
        }
        self.timers.values().min().copied()
    }

    /// What a list says about where the session is.
    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Finished { outcome, .. } => match outcome {
                Outcome::Completed => Status::Completed,
                Outcome::Failed => Status::Failed,
                Outcome::Cancelled => Status::Cancelled,
                Outcome::LimitReached => Status::LimitReached,
            },
            Phase::Absent | Phase::Ready if self.paused.is_none() => Status::Pending,
            Phase::Thinking { .. } if self.is_brought() => Status::Paused,
            Phase::Thinking { .. } => Status::Thinking,
            Phase::Acting => self.acting_status(),
            Phase::Absent | Phase::Ready | Phase::Backoff { .. } | Phase::Listening
                if self.paused.is_some() =>
            {
                Status::Paused
            }
            Phase::Backoff { .. } => Status::Sleeping,
            Phase::Absent | Phase::Ready => Status::Pending,
            Phase::Listening => Status::WaitingInput,
        }
    }

    /// Whether nothing new may begin now.
    pub(crate) fn is_held(&self) -> bool {
        self.paused.is_some() && !self.single_step
    }

    /// Whether a scheduled call may start, or may have started.
    pub(crate) fn may_start(&self, call: &Call) -> bool {
        self.paused.is_none() || call.let_through || may_repeat(self, call)
    }

    /// Whether a call runs or may start now. In a pause only what may have started goes on.
    pub(crate) fn works_on(&self, call: &Call) -> bool {
        match &call.status {
            CallStatus::Scheduled => self.may_start(call),
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

    /// The most urgent thing among the open calls: a running tool, then what only a person can move.
    fn acting_status(&self) -> Status {
        let any =
            |wanted: fn(&CallStatus) -> bool| self.calls.values().any(|call| wanted(&call.status));
        if !self.is_brought() && self.calls.values().any(|call| self.works_on(call)) {
            Status::ExecutingTools
        } else if any(|it| matches!(it, CallStatus::AwaitingApproval | CallStatus::AwaitingOutcome))
        {
            Status::WaitingApproval
        } else if any(|it| matches!(it, CallStatus::AwaitingAnswer)) {
            // As with an approval: the answer is taken in a pause, too.
            Status::WaitingInput
        } else if self.paused.is_some() {
            Status::Paused
        } else if any(|it| matches!(it, CallStatus::AwaitingRetry | CallStatus::Sleeping)) {
            Status::Sleeping
        } else {
            Status::ExecutingTools
        }
    }
}
