//! The person beside a session: sees its log and what the tools wrote down, and does the next thing.
//!
//! Invariant: what is done depends on the log alone, so the same person can go on after a crash.

use anyhow::Result;
use stepwell_proto::v1::{
    ApprovalDecision, CancelSessionRequest, DecideApprovalRequest, PauseSessionRequest,
    ResumeSessionRequest, SendMessageRequest,
};
use stepwell_tests::{Api, Ev, Started};

const PERSON: &str = "petra";

/// What a person does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Say {
        text: &'static str,
        answers: &'static str,
    },
    Pause {
        reason: &'static str,
    },
    Resume,
    Approve {
        approval: u64,
    },
    Deny {
        approval: u64,
        reason: &'static str,
    },
    Happened {
        approval: u64,
        output: String,
    },
    DidNotHappen {
        approval: u64,
    },
    Cancel {
        reason: &'static str,
    },
    /// Kills the worker in the middle of a call, and starts another.
    KillWorker {
        call: &'static str,
    },
}

impl Act {
    /// The type of the event that it becomes.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Say { .. } => "message_received",
            Self::Pause { .. } => "pause_requested",
            Self::Resume => "resume_requested",
            Self::Cancel { .. } => "cancel_requested",
            Self::Approve { .. }
            | Self::Deny { .. }
            | Self::Happened { .. }
            | Self::DidNotHappen { .. } => "approval_decided",
            Self::KillWorker { .. } => "tool_lost",
        }
    }

    /// Tells the server. Not for what is done to the worker.
    pub(super) async fn tell(&self, api: &Api, session_id: &str) -> Result<()> {
        let session_id = session_id.to_owned();
        let by = PERSON.to_owned();
        match self {
            Self::Say { text, answers } => {
                let request = SendMessageRequest {
                    session_id,
                    content: (*text).to_owned(),
                    answers_call_id: (*answers).to_owned(),
                    client_key: (*text).to_owned(),
                    sent_by: by,
                };
                api.sessions().send_message(request).await?;
            }
            Self::Pause { reason } => {
                let reason = (*reason).to_owned();
                let request = PauseSessionRequest { session_id, reason, requested_by: by };
                api.sessions().pause_session(request).await?;
            }
            Self::Resume => {
                let request = ResumeSessionRequest { session_id, requested_by: by, once: false };
                api.sessions().resume_session(request).await?;
            }
            Self::Cancel { reason } => {
                let reason = (*reason).to_owned();
                let request = CancelSessionRequest { session_id, reason, requested_by: by };
                api.sessions().cancel_session(request).await?;
            }
            Self::Approve { .. }
            | Self::Deny { .. }
            | Self::Happened { .. }
            | Self::DidNotHappen { .. } => {
                api.approvals().decide_approval(self.decision(&session_id)).await?;
            }
            Self::KillWorker { .. } => {}
        }
        Ok(())
    }

    fn decision(&self, session_id: &str) -> DecideApprovalRequest {
        let (approval, decision, reason, output) = match self {
            Self::Deny { approval, reason } => (*approval, ApprovalDecision::Deny, *reason, ""),
            Self::Happened { approval, output } => {
                (*approval, ApprovalDecision::Happened, "the ledger has it", output.as_str())
            }
            Self::DidNotHappen { approval } => {
                (*approval, ApprovalDecision::DidNotHappen, "the ledger does not have it", "")
            }
            Self::Approve { approval } => (*approval, ApprovalDecision::Approve, "", ""),
            Self::Say { .. }
            | Self::Pause { .. }
            | Self::Resume
            | Self::Cancel { .. }
            | Self::KillWorker { .. } => (0, ApprovalDecision::Unspecified, "", ""),
        };
        DecideApprovalRequest {
            approval_id: format!("{session_id}.{approval}"),
            decision: decision.into(),
            reason: reason.to_owned(),
            output: output.to_owned(),
            decided_by: PERSON.to_owned(),
            ..DecideApprovalRequest::default()
        }
    }
}

/// What a person sees.
pub(super) struct View<'a> {
    pub(super) events: &'a [Ev],
    pub(super) starts: &'a [Started],
    pub(super) worker_pid: i32,
}

impl View<'_> {
    /// Whether there is an event of that type.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.events.iter().any(|it| it.kind == kind)
    }

    /// Whether somebody said that.
    pub(super) fn has_message(&self, text: &str) -> bool {
        self.events.iter().any(|it| it.kind == "message_received" && it.text("content") == text)
    }

    /// Whether the call was started by the worker that lives now.
    pub(super) fn is_started(&self, call_id: &str) -> bool {
        self.starts_of(call_id).any(|it| it.pid == self.worker_pid)
    }

    fn starts_of(&self, call_id: &str) -> impl Iterator<Item = &Started> {
        let end = format!("/{call_id}");
        self.starts.iter().filter(move |it| it.key.ends_with(&end))
    }

    fn last_of(&self, call_id: &str) -> Option<&Ev> {
        self.events.iter().rfind(|it| it.call_id() == call_id)
    }

    /// The approval that is open about a call.
    pub(super) fn open_approval(&self, call_id: &str) -> Option<u64> {
        let last = self.last_of(call_id)?;
        (last.kind == "approval_requested").then(|| last.number("approval_id"))
    }

    /// Denies what is asked about a call.
    pub(super) fn deny(&self, call_id: &str, reason: &'static str) -> Option<Act> {
        let approval = self.open_approval(call_id)?;
        Some(Act::Deny { approval, reason })
    }

    /// Answers the model's question.
    pub(super) fn answer(&self, call_id: &'static str, text: &'static str) -> Option<Act> {
        let is_asked = self.last_of(call_id)?.kind == "tool_scheduled";
        let is_open = is_asked && !self.has_message(text);
        is_open.then_some(Act::Say { text, answers: call_id })
    }

    /// Says what became of a lost call, after a look at what the tools wrote down.
    pub(super) fn unknown_outcome(&self) -> Option<Act> {
        let asked = self.events.iter().rfind(|event| {
            event.text("question") == "what_happened"
                && self.last_of(event.call_id()).is_some_and(|last| last.seq == event.seq)
        })?;
        let approval = asked.number("approval_id");
        let start = self.starts_of(asked.call_id()).next();
        Some(match start {
            None => Act::DidNotHappen { approval },
            Some(start) => {
                let call: serde_json::Value = serde_json::from_str(&start.arguments).unwrap();
                let output = format!("paid {}", call["what"].as_str().unwrap());
                Act::Happened { approval, output }
            }
        })
    }

    /// Kills the worker in the first attempt of a call, once it has begun.
    pub(super) fn kill_worker_in(&self, tool: &str, call_id: &'static str) -> Option<Act> {
        let last = self.last_of(call_id)?;
        let runs = match tool {
            "pay" => last.kind == "tool_dispatched",
            _ => last.kind == "tool_scheduled",
        };
        let is_first = runs && last.number("attempt") == 1;
        (is_first && self.is_started(call_id)).then_some(Act::KillWorker { call: call_id })
    }
}
