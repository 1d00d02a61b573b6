//! Accepting a person's word on an approval: one clear outcome for each way it can go wrong.

use alloc::vec::Vec;

use crate::agent::Verdict as Rule;
use crate::decide::{Reject, Verdict};
use crate::event::{Actor, ApprovalDecided, ApprovalDecision, EventBody};
use crate::ids::TimestampMs;
use crate::policy::rule_on;
use crate::state::{Approval, ClosedApproval, SessionState};

/// Turns the word into its event, into nothing when the same was said before, or refuses it.
pub(crate) fn accept(
    state: &SessionState,
    verdict: Verdict,
    now: TimestampMs,
) -> Result<Vec<(EventBody, Actor)>, Reject> {
    let approval_id = verdict.approval_id;
    let Some(approval) = state.approvals.get(&approval_id) else {
        return match state.closed_approvals.get(&approval_id) {
            Some(closed) => said_before(&verdict, closed),
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
    verdict: &Verdict,
    closed: &ClosedApproval,
) -> Result<Vec<(EventBody, Actor)>, Reject> {
    let approval_id = verdict.approval_id;
    match closed.decision {
        None => Err(Reject::ApprovalExpired { approval_id }),
        // The same word again needs no error, unless it brings other arguments or another result.
        Some(decision)
            if decision == verdict.decision
                && verdict.arguments.is_none()
                && verdict.output.is_none() =>
        {
            Ok(Vec::new())
        }
        Some(decision) => {
            Err(Reject::AlreadyDecided { approval_id, decision, by: closed.by.clone() })
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
