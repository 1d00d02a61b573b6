//! Accepting a person's word on an approval: one clear outcome for each way it can go wrong.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::agent::Verdict as Rule;
use crate::decide::{Reject, Verdict};
use crate::event::{Actor, ApprovalDecided, ApprovalDecision, EventBody};
use crate::ids::TimestampMs;
use crate::json::{JsonText, canonical};
use crate::policy::rule_on;
use crate::state::{Approval, Brought, ClosedApproval, SessionState};
use crate::text::Text;

/// Turns the word into its event, into nothing when the same was said before, or refuses it.
pub(crate) fn accept(
    state: &SessionState,
    verdict: Verdict,
    now: TimestampMs,
) -> Result<Vec<(EventBody, Actor)>, Reject> {
    let approval_id = verdict.approval_id;
    let Some(approval) = state.approvals.get(&approval_id) else {
        return match state.closed_approvals.get(&approval_id) {
            Some(closed) => said_before(state, &verdict, closed),
            None if state.is_finished() => Err(Reject::Finished { status: state.status() }),
            None => Err(Reject::UnknownApproval { approval_id }),
        };
    };
    if state.is_finished() || state.cancelled.is_some() {
        return Err(Reject::Finished { status: crate::state::Status::Cancelled });
    }
    if approval.expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(Reject::ApprovalExpired { approval_id });
    }
    if approval.question != verdict.decision.answers() {
        let (question, decision) = (approval.question, verdict.decision);
        return Err(Reject::WrongAnswer { approval_id, question, decision });
    }
    expect_same_action(state, approval, &verdict)?;
    expect_allowed(state, approval, &verdict)?;
    let event = ApprovalDecided {
        approval_id,
        call_id: approval.call_id,
        decision: verdict.decision,
        reason: verdict.reason,
        arguments: verdict.arguments,
        output: verdict.output,
    };
    Ok(alloc::vec![(event.into(), verdict.by)])
}

fn said_before(
    state: &SessionState,
    verdict: &Verdict,
    closed: &ClosedApproval,
) -> Result<Vec<(EventBody, Actor)>, Reject> {
    let approval_id = verdict.approval_id;
    let Some(decision) = closed.decision else {
        return Err(Reject::ApprovalExpired { approval_id });
    };
    let first = state.brought.get(&approval_id).cloned().unwrap_or_default();
    let again = Brought::of(verdict.arguments.as_ref(), verdict.output.as_ref());
    // The same word again needs no error: the answer to the first may have been lost on its way.
    if decision == verdict.decision && again.repeats(&first) {
        return Ok(Vec::new());
    }
    Err(Reject::AlreadyDecided { approval_id, decision, by: closed.by.clone() })
}

impl Brought {
    /// Whether it says nothing that differs from `first`. What it leaves open is no contradiction.
    fn repeats(&self, first: &Self) -> bool {
        let fits = |again: &Option<String>, first| again.is_none() || again == first;
        fits(&self.arguments, &first.arguments) && fits(&self.output, &first.output)
    }

    /// What a verdict or its event brings along.
    pub(crate) fn of(arguments: Option<&JsonText>, output: Option<&Text>) -> Self {
        let digest = |bytes: &str| blake3::hash(bytes.as_bytes()).to_hex().as_str().to_owned();
        Self {
            arguments: arguments.map(|it| digest(&canonical(&it.to_value()))),
            output: output.map(|it| match it {
                Text::Whole(whole) => digest(whole),
                Text::Detached(blob) => blob.blob.clone(),
            }),
        }
    }
}

/// The person must have seen what would run.
fn expect_same_action(
    state: &SessionState,
    approval: &Approval,
    verdict: &Verdict,
) -> Result<(), Reject> {
    let approval_id = verdict.approval_id;
    let changed = |what| Err(Reject::ActionChanged { approval_id, what });
    if verdict.action_digest.as_ref().is_some_and(|digest| *digest != approval.action_digest) {
        return changed("the digest");
    }
    let tool = state.calls.get(&approval.call_id).map(|call| &call.tool);
    if verdict.tool.is_some() && verdict.tool.as_ref() != tool {
        return changed("the tool");
    }
    Ok(())
}

/// A rule that forbids binds the person who edits arguments, too.
fn expect_allowed(
    state: &SessionState,
    approval: &Approval,
    verdict: &Verdict,
) -> Result<(), Reject> {
    let runs = match verdict.decision {
        ApprovalDecision::Approve
        | ApprovalDecision::ApproveForSession
        | ApprovalDecision::DidNotHappen => true,
        ApprovalDecision::Deny | ApprovalDecision::Happened | ApprovalDecision::Failed => false,
    };
    let call = state.calls.get(&approval.call_id);
    let tool = state.agent().zip(call).and_then(|(agent, call)| agent.tool(&call.tool));
    if let (Some(arguments), Some(agent), Some(tool), true) =
        (&verdict.arguments, state.agent(), tool, runs)
    {
        let ruling = rule_on(agent, tool, &arguments.to_value());
        if ruling.verdict == Rule::Deny {
            return Err(Reject::Forbidden { rule: ruling.rule });
        }
    }
    Ok(())
}
