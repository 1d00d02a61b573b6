//! `ApprovalService`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::future::try_join_all;
use stepwell_core::decide::Verdict;
use stepwell_core::event::{ApprovalDecision, Question};
use stepwell_core::state::Approval;
use stepwell_core::summary::ApprovalRow;
use stepwell_core::{ApprovalId, CallId, Input, JsonText, SessionId, Text, ToolSpec};
use stepwell_ports::{ApprovalFilter, Store};
use stepwell_proto::v1;
use stepwell_runtime::{EngineError, validate};
use tonic::{Request, Response, Status, async_trait};

use super::Api;
use crate::convert::{self, ApprovalQuery, BadField, Ruling};
use crate::{find, status};

/// The service.
#[derive(Clone)]
pub(crate) struct Approvals(pub(crate) Arc<Api>);

#[async_trait]
impl v1::approval_service_server::ApprovalService for Approvals {
    async fn list_approvals(
        &self,
        request: Request<v1::ListApprovalsRequest>,
    ) -> Result<Response<v1::ListApprovalsResponse>, Status> {
        let query = ApprovalQuery::try_from(request.into_inner())?;
        let session_id = match &query.session {
            Some(text) => Some(self.0.find(text).await?),
            None => None,
        };
        let filter = ApprovalFilter { statuses: query.statuses, session_id };
        let store = self.0.engine.store();
        let page = store.approvals(&filter, query.page.as_deref(), query.rows).await;
        let page = page.map_err(|error| status::store(&error))?;
        let session_titles = titles(&**store, &page.rows).await?;
        Ok(Response::new(v1::ListApprovalsResponse {
            session_titles,
            approvals: page.rows.into_iter().map(convert::approval).collect(),
            next_page_token: page.next_page.unwrap_or_default(),
        }))
    }

    async fn decide_approval(
        &self,
        request: Request<v1::DecideApprovalRequest>,
    ) -> Result<Response<v1::DecideApprovalResponse>, Status> {
        let ruling = Ruling::try_from(request.into_inner())?;
        let store = self.0.engine.store().clone();
        let (session_id, approval_id) = find::approval(&*store, &ruling.approval).await?;
        let asked = self.asked(session_id, approval_id).await?;
        let tool = asked.as_ref().and_then(|it| it.tool.clone());
        let arguments = checked_arguments(tool.as_ref(), ruling.arguments)?;
        if ruling.decision == ApprovalDecision::Happened
            && let Some(tool) = &tool
        {
            let output = ruling.output.as_ref().map(Text::preview).unwrap_or_default();
            validate::output(tool, output).map_err(|problem| {
                let problem = format!("does not fit the result of `{}`: {problem}", tool.name);
                BadField::new("output", problem)
            })?;
        }
        let verdict = Verdict {
            approval_id,
            decision: ruling.decision,
            reason: ruling.reason,
            arguments,
            output: ruling.output,
            action_digest: ruling.action_digest,
            tool: ruling.tool,
            by: ruling.by,
        };
        if let Some(asked) = &asked {
            self.expect_dead(session_id, asked)?;
        }
        let submitted = self.0.engine.submit(session_id, Input::Decide(verdict)).await;
        let submitted = submitted.map_err(|error| status::engine(session_id, error))?;
        let row = find::approval_row(&*store, session_id, approval_id).await?;
        Ok(Response::new(v1::DecideApprovalResponse {
            session: Some(self.0.row_to_wire(submitted.row)),
            approval: row.map(convert::approval),
            unchanged: !submitted.changed,
        }))
    }
}

/// Titles of the sessions of a page, by id. One that was deleted meanwhile has none.
async fn titles(
    store: &dyn Store,
    rows: &[ApprovalRow],
) -> Result<HashMap<String, String>, Status> {
    let ids: BTreeSet<SessionId> = rows.iter().map(|it| it.session_id).collect();
    // All at once: what is read at the same time shares a transaction.
    let read = try_join_all(ids.into_iter().map(|id| store.session(id))).await;
    let found = read.map_err(|error| status::store(&error))?;
    let titled = found.into_iter().flatten().map(|it| it.row);
    Ok(titled.map(|row| (row.session_id.to_string(), row.title)).collect())
}

impl Approvals {
    /// What an open approval is about. `None` when it is not open (any more): the engine says then
    /// what is wrong.
    async fn asked(
        &self,
        session_id: SessionId,
        approval_id: ApprovalId,
    ) -> Result<Option<Asked>, Status> {
        let state = match self.0.engine.state(session_id).await {
            Ok(state) => state,
            // Only an owner may put it away, and the decision brings it one.
            Err(EngineError::Quarantined { .. }) => return Ok(None),
            Err(error) => return Err(status::engine(session_id, error)),
        };
        let Some(approval) = state.approvals.get(&approval_id) else { return Ok(None) };
        let Some(call) = state.calls.get(&approval.call_id) else { return Ok(None) };
        let tool = state.agent().and_then(|agent| agent.tool(&call.tool)).cloned();
        let Approval { call_id, question, .. } = *approval;
        Ok(Some(Asked { call_id, attempt: call.attempt, question, tool }))
    }

    /// Nobody says what became of a call that its worker still has: the worker will.
    fn expect_dead(&self, session_id: SessionId, asked: &Asked) -> Result<(), Status> {
        let Asked { call_id, attempt, question, .. } = *asked;
        if question != Question::WhatHappened {
            return Ok(());
        }
        let Some(worker) = self.0.gateway.holder(session_id, call_id, attempt) else {
            return Ok(());
        };
        Err(Status::failed_precondition(format!(
            "session {session_id}: worker {worker} is connected and still has call {call_id}, so its \
             outcome is not for a person to say: wait for its result, which answers the question; if \
             the call hangs, stop that worker and ask again, or cancel the session"
        )))
    }
}

/// What an open approval is about.
struct Asked {
    call_id: CallId,
    attempt: u32,
    question: Question,
    /// `None` for a tool that the agent lacks.
    tool: Option<ToolSpec>,
}

/// The arguments that a person puts in the place of the model's; they must fit the tool's schema.
fn checked_arguments(
    tool: Option<&ToolSpec>,
    arguments: Option<String>,
) -> Result<Option<JsonText>, Status> {
    let Some(text) = arguments else { return Ok(None) };
    let checked = match tool {
        Some(tool) => validate::arguments(tool, &text).map_err(|problem| {
            format!("do not fit `{}`, the approval stays open: {problem}", tool.name)
        }),
        // Not run: an approval that is not open is refused by the engine.
        None => JsonText::parse(&text).map_err(|problem| format!("are no JSON: {problem}")),
    };
    Ok(Some(checked.map_err(|problem| BadField::new("arguments", problem))?))
}
