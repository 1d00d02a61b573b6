//! Persons: what they may say, and persons who say it by chance.

use stepwell_core::decide::Verdict;
use stepwell_core::event::ApprovalDecision;
use stepwell_core::{ApprovalId, Input, Text};

use crate::world::person;

/// A person's word on an approval, without a reason.
pub fn decide(approval_id: ApprovalId, decision: ApprovalDecision) -> Input {
    Input::Decide(verdict(approval_id, decision))
}

/// A person's word on an approval, to be completed.
pub fn verdict(approval_id: ApprovalId, decision: ApprovalDecision) -> Verdict {
    Verdict {
        approval_id,
        decision,
        reason: String::new(),
        arguments: None,
        output: (decision == ApprovalDecision::Happened).then(|| Text::from("it happened")),
        action_digest: None,
        tool: None,
        by: person("ann"),
    }
}

/// A person cancels.
pub fn cancel() -> Input {
    Input::Cancel { reason: "enough".to_string(), by: person("ann") }
}

/// A person holds the session.
pub fn pause() -> Input {
    Input::Pause { reason: "wait".to_string(), by: person("ann") }
}

/// A person lets the session go on.
pub fn resume() -> Input {
    Input::Resume { by: person("ann") }
}

/// A person says something.
pub fn message(text: &str) -> Input {
    Input::Message { content: Text::from(text), answers: None, client_key: None, by: person("ann") }
}
