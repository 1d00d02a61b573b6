//! Contents of the events about sessions, tools, approvals and messages.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::ids::{ApprovalId, CallId, TimestampMs};
use crate::json::JsonText;
use crate::text::{BlobRef, Text};

/// See [`EventBody::SessionCreated`](super::EventBody::SessionCreated).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The definition, whole.
    pub agent: Arc<Agent>,
    /// The task: the first user message.
    pub task: Text,
    /// A name for lists; the first line of the task when none was given.
    pub title: String,
    /// Free labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    /// Folder of the workspace, below the workers' folder for workspaces; empty for one of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    /// Bytes that make this session's derived values (jitter) its own; the session id.
    pub seed: String,
    /// It begins held.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub paused: bool,
}

/// A key and a value that people put on a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Name.
    pub key: String,
    /// Value.
    pub value: String,
}

/// See [`EventBody::ToolScheduled`](super::EventBody::ToolScheduled).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolScheduled {
    /// The call.
    pub call_id: CallId,
    /// Which attempt this will be, from 1.
    pub attempt: u32,
    /// The approval that allowed it, when a person was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
}

/// See [`EventBody::ToolDispatched`](super::EventBody::ToolDispatched).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDispatched {
    /// The call.
    pub call_id: CallId,
    /// The attempt that starts.
    pub attempt: u32,
    /// The worker that was given the call.
    pub worker: String,
    /// The approval that this dispatch uses up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
}

/// See [`EventBody::ToolFinished`](super::EventBody::ToolFinished).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFinished {
    /// The call.
    pub call_id: CallId,
    /// The attempt that ended.
    pub attempt: u32,
    /// Whether the tool did its work.
    pub outcome: ToolOutcome,
    /// Its result, or its error in words.
    pub output: Text,
    /// The whole output, when `output` was shortened by the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output: Option<BlobRef>,
    /// The session had gone on without this result; it changes nothing.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub late: bool,
    /// How long the attempt ran, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It did its work.
    Ok,
    /// It failed; the output is the error.
    Error,
}

/// See [`EventBody::ToolLost`](super::EventBody::ToolLost).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLost {
    /// The call.
    pub call_id: CallId,
    /// The attempt whose outcome is unknown.
    pub attempt: u32,
    /// How it was noticed.
    pub reason: String,
    /// The worker is sure that the call never began: it may run, whatever it does.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub never_started: bool,
}

/// See [`EventBody::ToolRefused`](super::EventBody::ToolRefused).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRefused {
    /// The call.
    pub call_id: CallId,
    /// Which rule refused it.
    pub reason: RefusalReason,
    /// What the model is told.
    pub message: String,
}

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// The agent has no such tool.
    UnknownTool,
    /// The arguments are no JSON or do not fit the schema.
    BadArguments,
    /// The output limit cut the call off.
    CutOff,
    /// A rule of the agent forbids it.
    Forbidden,
    /// A person said no.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// Its workers were lost as often as the agent allows.
    WorkerLost,
}

/// See [`EventBody::ApprovalRequested`](super::EventBody::ApprovalRequested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// Its id: this event's seq.
    pub approval_id: ApprovalId,
    /// The call it is about.
    pub call_id: CallId,
    /// What is asked.
    pub question: Question,
    /// Digest of the exact tool and arguments ([`crate::json::action_digest`]).
    pub action_digest: String,
    /// Which rule asks, in words.
    pub rule: String,
    /// When the question lapses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<TimestampMs>,
}

/// What a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// May this run?
    MayRun,
    /// It was started and its outcome is unknown: what happened?
    WhatHappened,
}

/// See [`EventBody::ApprovalDecided`](super::EventBody::ApprovalDecided).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// The approval.
    pub approval_id: ApprovalId,
    /// The call it is about.
    pub call_id: CallId,
    /// What was decided.
    pub decision: ApprovalDecision,
    /// Why, in the person's words. The model sees the reason of a denial.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The arguments to run instead, when the person changed them; they fit the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonText>,
    /// The result that the person vouches for, for [`ApprovalDecision::Happened`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Text>,
}

/// What a person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// Run it, this once.
    Approve,
    /// Run it, and every later call of this tool in this session that would ask.
    ApproveForSession,
    /// Do not run it.
    Deny,
    /// It happened, with this result.
    Happened,
    /// It did not happen: run it.
    DidNotHappen,
    /// Tell the model that it failed.
    Failed,
}

impl ApprovalDecision {
    /// The stored name, for example `approve_for_session`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::ApproveForSession => "approve_for_session",
            Self::Deny => "deny",
            Self::Happened => "happened",
            Self::DidNotHappen => "did_not_happen",
            Self::Failed => "failed",
        }
    }

    /// Which question this answers.
    pub fn answers(self) -> Question {
        match self {
            Self::Approve | Self::ApproveForSession | Self::Deny => Question::MayRun,
            Self::Happened | Self::DidNotHappen | Self::Failed => Question::WhatHappened,
        }
    }
}

/// See [`EventBody::MessageReceived`](super::EventBody::MessageReceived).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageReceived {
    /// The text.
    pub content: Text,
    /// The `ask_user` call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<CallId>,
    /// The client's key for this message: the same key is taken once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
}

/// See [`EventBody::CancelRequested`](super::EventBody::CancelRequested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequested {
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// See [`EventBody::PauseRequested`](super::EventBody::PauseRequested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseRequested {
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// See [`EventBody::ResumeRequested`](super::EventBody::ResumeRequested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeRequested {
    /// Only for the next thing that is owed to the outside; then it is held again.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub once: bool,
}

/// See [`EventBody::SessionFinished`](super::EventBody::SessionFinished).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFinished {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, in words. The answer itself is the last reply of the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Which limit, when one was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The model gave its answer.
    Completed,
    /// It could not go on.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// A limit of its agent ended it.
    LimitReached,
}

impl Outcome {
    /// The stored name, for example `limit_reached`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::LimitReached => "limit_reached",
        }
    }
}

/// Which limit ended a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// [`crate::agent::Limits::steps_max`].
    Steps,
    /// [`crate::agent::Limits::deadline_ms`].
    Deadline,
    /// [`crate::agent::Limits::tokens_max`].
    Tokens,
    /// [`crate::agent::Limits::repeat_count`].
    RepeatedAction,
    /// The model's context window.
    Context,
    /// The model's output limit cut the answer off.
    OutputTokens,
    /// [`crate::agent::Limits::unusable_replies_max`].
    UnusableReplies,
}

impl LimitKind {
    /// The stored name, for example `repeated_action`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Deadline => "deadline",
            Self::Tokens => "tokens",
            Self::RepeatedAction => "repeated_action",
            Self::Context => "context",
            Self::OutputTokens => "output_tokens",
            Self::UnusableReplies => "unusable_replies",
        }
    }
}
