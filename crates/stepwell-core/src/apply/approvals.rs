//! What the events about approvals change.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use super::{call_mut, observation_limit, settle, whole};
use crate::event::{
    Actor, ApprovalDecided, ApprovalDecision, ApprovalRequested, Event, Question, RefusalReason,
    Timer, ToolFinished, ToolOutcome,
};
use crate::ids::ApprovalId;
use crate::state::{Approval, Brought, CallStatus, ClosedApproval, SessionState};
use crate::text::{Text, shorten};

pub(super) fn approval_requested(
    state: &mut SessionState,
    event: &Event,
    it: &ApprovalRequested,
) -> Result<(), String> {
    if it.approval_id != ApprovalId(event.seq.0) {
        return Err(format!("the approval {} is not named after its event", it.approval_id));
    }
    let call = call_mut(state, it.call_id)?;
    call.status = match (&call.status, it.question) {
        (CallStatus::Proposed, Question::MayRun) => CallStatus::AwaitingApproval,
        (CallStatus::Lost { never_started: false, .. }, Question::WhatHappened) => {
            CallStatus::AwaitingOutcome
        }
        (_, Question::MayRun | Question::WhatHappened) => {
            return Err(format!("nothing is to be asked about call {}", it.call_id));
        }
    };
    let approval = Approval {
        call_id: it.call_id,
        question: it.question,
        action_digest: it.action_digest.clone(),
        rule: it.rule.clone(),
        requested_at: event.time,
        expires_at: it.expires_at,
    };
    state.approvals.insert(it.approval_id, approval);
    if let Some(expires_at) = it.expires_at {
        state.timers.insert(Timer::ApprovalExpiry(it.approval_id), expires_at);
    }
    Ok(())
}

pub(super) fn approval_decided(
    state: &mut SessionState,
    event: &Event,
    it: &ApprovalDecided,
) -> Result<(), String> {
    let output = it.output.as_ref().map(whole).transpose()?.map(ToString::to_string);
    let is_open = state.approvals.get(&it.approval_id).is_some_and(|approval| {
        approval.call_id == it.call_id && approval.question == it.decision.answers()
    });
    if !is_open {
        return Err(format!("the approval {} is not open", it.approval_id));
    }
    let limit = observation_limit(state.agent().map(|agent| &**agent));
    let call = call_mut(state, it.call_id)?;
    let (tool, attempt) = (call.tool.clone(), call.attempt);
    match it.decision {
        ApprovalDecision::Approve
        | ApprovalDecision::ApproveForSession
        | ApprovalDecision::DidNotHappen => {
            call.status = CallStatus::Approved;
            call.approval = Some(it.approval_id);
            if it.arguments.is_some() {
                call.edited.clone_from(&it.arguments);
            }
        }
        ApprovalDecision::Deny => {
            let message = denial(&event.actor, &it.reason);
            call.status = CallStatus::TurnedDown { reason: RefusalReason::Denied, message };
        }
        ApprovalDecision::Happened => {
            let output = output.unwrap_or_default();
            settle(state, it.call_id, Text::from(shorten(&output, limit)))?;
        }
        ApprovalDecision::Failed => {
            let reason = if it.reason.is_empty() { OUTCOME_FAILED } else { &it.reason };
            settle(state, it.call_id, Text::from(format!("Error: {reason}")))?;
        }
    }
    let brought = Brought::of(it.arguments.as_ref(), it.output.as_ref());
    if brought != Brought::default() {
        Arc::make_mut(&mut state.brought).insert(it.approval_id, brought);
    }
    if it.decision == ApprovalDecision::ApproveForSession {
        state.grants.insert(tool);
    }
    if it.decision.answers() == Question::WhatHappened {
        // A report that comes after the person's word is kept, so that both can be compared.
        state.given_up.insert(it.call_id, attempt);
    }
    let closed = ClosedApproval {
        decision: Some(it.decision),
        by: event.actor.clone(),
        at: event.time,
        reason: it.reason.clone(),
    };
    close_approval(state, it.approval_id, closed);
    Ok(())
}

/// What the model is told when a person settles a lost call as failed and gives no reason.
const OUTCOME_FAILED: &str = "the worker was lost while it ran this call; a person looked and says \
    that it failed";

fn denial(by: &Actor, reason: &str) -> String {
    let who = match by {
        Actor::Person(name) => name.clone(),
        Actor::Engine | Actor::Worker(_) | Actor::Model(_) => by.to_string(),
    };
    if reason.is_empty() {
        format!("{who} denied this call")
    } else {
        format!("{who} denied this call: {reason}")
    }
}

pub(super) fn close_approval(
    state: &mut SessionState,
    approval_id: ApprovalId,
    closed: ClosedApproval,
) {
    state.approvals.remove(&approval_id);
    state.timers.remove(&Timer::ApprovalExpiry(approval_id));
    Arc::make_mut(&mut state.closed_approvals).insert(approval_id, closed);
}

/// The worker's own report answers the question that a person was asked.
pub(super) fn answer_question(state: &mut SessionState, event: &Event, it: &ToolFinished) {
    let open = state.approvals.iter().find(|(_, approval)| approval.call_id == it.call_id);
    let Some(approval_id) = open.map(|(approval_id, _)| *approval_id) else { return };
    let decision = match it.outcome {
        ToolOutcome::Ok => ApprovalDecision::Happened,
        ToolOutcome::Error => ApprovalDecision::Failed,
    };
    let closed = ClosedApproval {
        decision: Some(decision),
        by: event.actor.clone(),
        at: event.time,
        reason: "the worker reported it".to_string(),
    };
    close_approval(state, approval_id, closed);
}
