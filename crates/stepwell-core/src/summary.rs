//! What lists show of a session, computed from its state and stored beside its events.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::event::{ApprovalDecision, Label, Question, Usage};
use crate::explain::explain;
use crate::ids::{ApprovalId, CallId, Seq, SessionId, TimestampMs};
use crate::state::{Approval, ForkedFrom, SessionState, Status};

/// The list row of a session. A projection: it can be rebuilt from the events at any time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The session.
    pub session_id: SessionId,
    /// Where it is.
    pub status: Status,
    /// Its name for people.
    pub title: String,
    /// The agent's name.
    pub agent: String,
    /// The agent's version.
    pub agent_version: u32,
    /// Labels.
    pub labels: Vec<Label>,
    /// Seq of the last event.
    pub head_seq: Seq,
    /// Model decisions so far.
    pub step: u32,
    /// Tokens so far: the three sums of [`Usage::listed`].
    pub usage: Usage,
    /// Time of the first event; for a fork, when it was forked.
    pub created_at: TimestampMs,
    /// Time of the last event.
    pub updated_at: TimestampMs,
    /// One true sentence: why it is where it is, and what would move it.
    pub explain: String,
    /// The session whose beginning it shares, for a fork.
    #[serde(default)]
    pub parent: Option<ForkedFrom>,
}

/// An approval as the inbox shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// The session.
    pub session_id: SessionId,
    /// The approval within the session.
    pub approval_id: ApprovalId,
    /// The call it is about.
    pub call_id: CallId,
    /// What is asked.
    pub question: Question,
    /// The tool.
    pub tool: String,
    /// The exact arguments, JSON text.
    pub arguments: String,
    /// Digest of tool and arguments.
    pub action_digest: String,
    /// Which rule asks.
    pub rule: String,
    /// When it was asked.
    pub requested_at: TimestampMs,
    /// When it lapses.
    pub expires_at: Option<TimestampMs>,
    /// Where it stands.
    pub status: ApprovalStatus,
    /// Who closed it: an actor's text, empty while open.
    pub decided_by: String,
    /// When it was closed.
    pub decided_at: Option<TimestampMs>,
    /// The decider's reason.
    pub reason: String,
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Waits for a person.
    Open,
    /// May run (or, for an unknown outcome: it was settled).
    Approved,
    /// Must not run.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// The session ended first.
    Void,
}

impl ApprovalStatus {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Open, Self::Approved, Self::Denied, Self::Expired, Self::Void];

    /// The stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Void => "void",
        }
    }

    /// The status of that stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// The list row of a session in `state`; `None` before its first event.
pub fn session_row(session_id: SessionId, state: &SessionState) -> Option<SessionRow> {
    let origin = state.origin.as_ref()?;
    Some(SessionRow {
        session_id,
        status: state.status(),
        title: origin.title.clone(),
        agent: origin.agent.name.clone(),
        agent_version: origin.agent.version,
        labels: origin.labels.clone(),
        head_seq: state.head,
        step: state.step,
        usage: state.usage.listed(),
        created_at: origin.created_at,
        updated_at: state.updated_at,
        explain: explain(state),
        parent: state.forked_from,
    })
}

/// The inbox rows that changed between two states of a session: opened and closed approvals.
pub fn approval_rows(
    session_id: SessionId,
    before: &SessionState,
    after: &SessionState,
) -> Vec<ApprovalRow> {
    let opened = after
        .approvals
        .iter()
        .filter(|(id, _)| !before.approvals.contains_key(id))
        .filter_map(|(id, approval)| open_row(session_id, after, *id, approval));
    let closed =
        before.approvals.iter().filter(|(id, _)| !after.approvals.contains_key(id)).filter_map(
            |(id, approval)| {
                let mut row = open_row(session_id, before, *id, approval)?;
                close_row(&mut row, after, *id);
                Some(row)
            },
        );
    closed.chain(opened).collect()
}

fn open_row(
    session_id: SessionId,
    state: &SessionState,
    approval_id: ApprovalId,
    approval: &Approval,
) -> Option<ApprovalRow> {
    let call = state.calls.get(&approval.call_id)?;
    Some(ApprovalRow {
        session_id,
        approval_id,
        call_id: approval.call_id,
        question: approval.question,
        tool: call.tool.clone(),
        arguments: call.effective_arguments().into(),
        action_digest: approval.action_digest.clone(),
        rule: approval.rule.clone(),
        requested_at: approval.requested_at,
        expires_at: approval.expires_at,
        status: ApprovalStatus::Open,
        decided_by: String::new(),
        decided_at: None,
        reason: String::new(),
    })
}

fn close_row(row: &mut ApprovalRow, after: &SessionState, approval_id: ApprovalId) {
    let Some(closed) = after.closed_approvals.get(&approval_id) else {
        row.status = ApprovalStatus::Void;
        row.decided_at = Some(after.updated_at);
        return;
    };
    row.status = match closed.decision {
        None => ApprovalStatus::Expired,
        Some(ApprovalDecision::Deny | ApprovalDecision::Failed) => ApprovalStatus::Denied,
        Some(
            ApprovalDecision::Approve
            | ApprovalDecision::ApproveForSession
            | ApprovalDecision::Happened
            | ApprovalDecision::DidNotHappen,
        ) => ApprovalStatus::Approved,
    };
    row.decided_by = alloc::format!("{}", closed.by);
    row.decided_at = Some(closed.at);
    row.reason.clone_from(&closed.reason);
}
