//! Persons: what they may say, and persons who say it by chance.

use stepwell_core::decide::Verdict;
use stepwell_core::event::{ApprovalDecision, ApprovalDecision as Word, Question};
use stepwell_core::state::{Approval, Call, CallStatus, Phase};
use stepwell_core::{ApprovalId, CallId, Input, JsonText, SessionState, Text};

use crate::check::Asked;
use crate::dice::Dice;
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
    Input::Resume { once: false, by: person("ann") }
}

/// A person says something.
pub fn message(text: &str) -> Input {
    Input::Message { content: Text::from(text), answers: None, client_key: None, by: person("ann") }
}

/// A person with a will of their own, who says things by chance.
pub struct Person {
    /// Chance.
    pub dice: Dice,
    /// How often this person spoke, so that every word is one of a kind.
    pub spoken: u64,
}

impl Person {
    /// What this person says to a session in `state`, and how it is found in the log.
    pub fn speak(&mut self, state: &SessionState) -> (Input, Option<Asked>) {
        self.spoken += 1;
        let name = if self.dice.chance(500) { "ann" } else { "bob" };
        let mark = format!("{name}-{}", self.spoken);
        let approvals: Vec<_> = state.approvals.iter().collect();
        match self.dice.below(100) {
            0..=54 if !approvals.is_empty() => self.decide(&approvals, &mark),
            0..=69 => self.message(state, &mark),
            70..=77 => {
                let input = Input::Cancel { reason: mark.clone(), by: person(name) };
                (input, Some(Asked::Cancel { reason: mark }))
            }
            78..=86 => {
                let input = Input::Pause { reason: mark.clone(), by: person(name) };
                (input, Some(Asked::Pause { reason: mark }))
            }
            87..=97 => (Input::Resume { once: self.dice.chance(300), by: person(name) }, None),
            _ => self.nonsense(state, &mark),
        }
    }

    fn decide(
        &mut self,
        approvals: &[(&ApprovalId, &Approval)],
        mark: &str,
    ) -> (Input, Option<Asked>) {
        let Some((approval_id, approval)) = self.dice.pick(approvals) else {
            return (resume(), None);
        };
        let words: &[Word] = match approval.question {
            Question::MayRun => {
                &[Word::Approve, Word::Approve, Word::Approve, Word::Deny, Word::ApproveForSession]
            }
            Question::WhatHappened => &[Word::Happened, Word::DidNotHappen, Word::Failed],
        };
        let decision = self.dice.pick(words).copied().unwrap_or(Word::Approve);
        let mut verdict = verdict(**approval_id, decision);
        verdict.reason = mark.to_string();
        verdict.action_digest = self.dice.chance(300).then(|| approval.action_digest.clone());
        if decision == Word::Approve && self.dice.chance(200) {
            verdict.arguments = JsonText::parse("{\"n\":42}").ok();
        }
        let asked =
            Asked::Decide { approval_id: **approval_id, decision, reason: mark.to_string() };
        (Input::Decide(verdict), Some(asked))
    }

    fn message(&mut self, state: &SessionState, mark: &str) -> (Input, Option<Asked>) {
        let asks = |(_, call): &(&CallId, &Call)| call.status == CallStatus::AwaitingAnswer;
        let question = state.calls.iter().find(asks).map(|(call_id, _)| *call_id);
        let answers = question.filter(|_| self.dice.chance(500));
        let text = if self.dice.chance(30) { "talk ".repeat(4_000) } else { mark.to_string() };
        let input = Input::Message {
            content: Text::from(text),
            answers,
            client_key: Some(mark.to_string()),
            by: person("ann"),
        };
        (input, Some(Asked::Message { key: mark.to_string() }))
    }

    /// Words that cannot be taken.
    fn nonsense(&mut self, state: &SessionState, mark: &str) -> (Input, Option<Asked>) {
        let approval_id = match state.approvals.keys().next() {
            Some(approval_id) if self.dice.chance(500) => *approval_id,
            Some(_) | None => ApprovalId(99_999),
        };
        let mut verdict = verdict(approval_id, ApprovalDecision::Approve);
        verdict.reason = mark.to_string();
        verdict.action_digest = Some("another action".to_string());
        let (decision, reason) = (verdict.decision, mark.to_string());
        (Input::Decide(verdict), Some(Asked::Decide { approval_id, decision, reason }))
    }

    /// What a helpful person says to let a session come to its end, if it waits for one.
    pub fn help(&mut self, state: &SessionState) -> Option<Input> {
        self.spoken += 1;
        if state.paused.is_some() {
            return Some(resume());
        }
        if let Some((approval_id, approval)) = state.approvals.iter().next() {
            let words: &[Word] = match approval.question {
                Question::MayRun => &[Word::Approve],
                Question::WhatHappened => &[Word::Happened, Word::DidNotHappen, Word::Failed],
            };
            let decision = self.dice.pick(words).copied().unwrap_or(Word::Approve);
            return Some(decide(*approval_id, decision));
        }
        if state.calls.values().any(|call| call.status == CallStatus::AwaitingAnswer) {
            return Some(message("because"));
        }
        // An agent that talks goes on until somebody has had enough.
        (state.phase == Phase::Listening).then(cancel)
    }
}
