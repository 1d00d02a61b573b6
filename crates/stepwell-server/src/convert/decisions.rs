//! Requests about approvals, checked.

use stepwell_core::event::ApprovalDecision;
use stepwell_core::summary::ApprovalStatus;
use stepwell_core::{Actor, Text};
use stepwell_proto::v1;

use super::{
    ARGUMENTS_BYTES_MAX, BadField, NAME_BYTES_MAX, PAGE_ROWS_DEFAULT, REASON_BYTES_MAX,
    TEXT_BYTES_MAX, expect_short, line, page_rows,
};

/// Which page of which approvals. The session is not resolved yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ApprovalQuery {
    pub(crate) statuses: Vec<ApprovalStatus>,
    pub(crate) session: Option<String>,
    pub(crate) page: Option<String>,
    pub(crate) rows: usize,
}

impl TryFrom<v1::ListApprovalsRequest> for ApprovalQuery {
    type Error = BadField;

    fn try_from(request: v1::ListApprovalsRequest) -> Result<Self, BadField> {
        let mut statuses = Vec::with_capacity(request.statuses.len().max(1));
        for (i, name) in request.statuses.iter().enumerate() {
            let unknown = || {
                let all: Vec<_> = ApprovalStatus::ALL.iter().map(|it| it.as_str()).collect();
                let problem = format!("{name:?} is not one of {}", all.join(", "));
                BadField::new(format!("statuses[{i}]"), problem)
            };
            statuses.push(ApprovalStatus::from_name(name).ok_or_else(unknown)?);
        }
        if statuses.is_empty() {
            statuses.push(ApprovalStatus::Open);
        }
        let given = |text: String| (!text.is_empty()).then_some(text);
        Ok(Self {
            statuses,
            session: given(request.session_id),
            page: given(request.page_token),
            rows: page_rows(request.page_size, PAGE_ROWS_DEFAULT),
        })
    }
}

/// A person's word on an approval. The approval is not resolved and its arguments and result are
/// not checked against the tool's schemas yet.
#[derive(Debug)]
pub(crate) struct Ruling {
    pub(crate) approval: String,
    pub(crate) decision: ApprovalDecision,
    pub(crate) reason: String,
    pub(crate) arguments: Option<String>,
    pub(crate) output: Option<Text>,
    pub(crate) action_digest: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) by: Actor,
}

impl TryFrom<v1::DecideApprovalRequest> for Ruling {
    type Error = BadField;

    fn try_from(request: v1::DecideApprovalRequest) -> Result<Self, BadField> {
        let decision = decision(request.decision())?;
        let by = line("decided_by", request.decided_by, NAME_BYTES_MAX)?;
        if by.trim().is_empty() {
            return Err(BadField::new("decided_by", "is empty: say who decides"));
        }
        expect_short("reason", &request.reason, REASON_BYTES_MAX)?;
        let given = |text: String| (!text.is_empty()).then_some(text);
        Ok(Self {
            approval: request.approval_id,
            decision,
            reason: request.reason,
            arguments: arguments(decision, request.arguments)?,
            output: output(decision, request.output)?,
            action_digest: given(request.action_digest),
            tool: given(request.tool),
            by: Actor::Person(by.trim().to_owned()),
        })
    }
}

fn decision(decision: v1::ApprovalDecision) -> Result<ApprovalDecision, BadField> {
    Ok(match decision {
        v1::ApprovalDecision::Unspecified => {
            return Err(BadField::new(
                "decision",
                "is missing or unknown: approve, approve_for_session or deny; for an unknown \
                 outcome happened, did_not_happen or failed",
            ));
        }
        v1::ApprovalDecision::Approve => ApprovalDecision::Approve,
        v1::ApprovalDecision::ApproveForSession => ApprovalDecision::ApproveForSession,
        v1::ApprovalDecision::Deny => ApprovalDecision::Deny,
        v1::ApprovalDecision::Happened => ApprovalDecision::Happened,
        v1::ApprovalDecision::DidNotHappen => ApprovalDecision::DidNotHappen,
        v1::ApprovalDecision::Failed => ApprovalDecision::Failed,
    })
}

/// Other arguments make sense for decisions that let the call run.
fn arguments(decision: ApprovalDecision, text: String) -> Result<Option<String>, BadField> {
    if text.is_empty() {
        return Ok(None);
    }
    expect_short("arguments", &text, ARGUMENTS_BYTES_MAX)?;
    match decision {
        ApprovalDecision::Approve
        | ApprovalDecision::ApproveForSession
        | ApprovalDecision::DidNotHappen => Ok(Some(text)),
        ApprovalDecision::Deny | ApprovalDecision::Happened | ApprovalDecision::Failed => {
            let problem =
                format!("do not go with {}: nothing will run, leave them out", decision.as_str());
            Err(BadField::new("arguments", problem))
        }
    }
}

/// A result is what the person vouches for: it goes with `happened` only, where none given means
/// that the call gave an empty one.
fn output(decision: ApprovalDecision, text: String) -> Result<Option<Text>, BadField> {
    if text.is_empty() {
        return Ok(None);
    }
    expect_short("output", &text, TEXT_BYTES_MAX)?;
    match decision {
        ApprovalDecision::Happened => Ok(Some(Text::from(text))),
        ApprovalDecision::Approve
        | ApprovalDecision::ApproveForSession
        | ApprovalDecision::Deny
        | ApprovalDecision::DidNotHappen
        | ApprovalDecision::Failed => {
            let problem = format!("does not go with {}: leave it out", decision.as_str());
            Err(BadField::new("output", problem))
        }
    }
}
