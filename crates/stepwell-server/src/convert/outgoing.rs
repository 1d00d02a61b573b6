//! Answers: core types as wire types. Nothing here can fail.

use std::collections::BTreeMap;

use stepwell_core::account::{Account, ModelAccount, Price};
use stepwell_core::event::{Question, Usage};
use stepwell_core::spans::Row;
use stepwell_core::state::CallStatus;
use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{Effect, SessionId, SessionState, Status, TimestampMs, ToolSpec};
use stepwell_ports::{AgentRecord, Redaction, StoredEvent};
use stepwell_proto::v1;
use stepwell_runtime::LiveChunk;

use crate::gateway::WorkerInfo;

/// A time on the wire. One that no signed number holds means "never", like the largest that does.
pub(crate) fn time(at: TimestampMs) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// The status on the wire.
pub(crate) fn status_to_wire(status: Status) -> v1::SessionStatus {
    match status {
        Status::Pending => v1::SessionStatus::Pending,
        Status::Thinking => v1::SessionStatus::Thinking,
        Status::ExecutingTools => v1::SessionStatus::ExecutingTools,
        Status::WaitingApproval => v1::SessionStatus::WaitingApproval,
        Status::WaitingInput => v1::SessionStatus::WaitingInput,
        Status::Sleeping => v1::SessionStatus::Sleeping,
        Status::Paused => v1::SessionStatus::Paused,
        Status::Completed => v1::SessionStatus::Completed,
        Status::Failed => v1::SessionStatus::Failed,
        Status::Cancelled => v1::SessionStatus::Cancelled,
        Status::LimitReached => v1::SessionStatus::LimitReached,
        Status::Quarantined => v1::SessionStatus::Quarantined,
    }
}

/// A list row. `explain` is the row's own sentence, or a better one.
pub(crate) fn session(row: SessionRow, explain: String) -> v1::Session {
    v1::Session {
        session_id: row.session_id.to_string(),
        status: status_to_wire(row.status).into(),
        title: row.title,
        agent: row.agent,
        agent_version: row.agent_version,
        labels: row.labels.into_iter().map(|it| (it.key, it.value)).collect(),
        head_seq: row.head_seq.0,
        step: row.step,
        usage: Some(usage(row.usage)),
        created_at_ms: time(row.created_at),
        updated_at_ms: time(row.updated_at),
        explain,
        parent_id: row.parent.map(|it| it.session_id.to_string()).unwrap_or_default(),
        parent_seq: row.parent.map(|it| it.seq.0).unwrap_or_default(),
    }
}

fn usage(usage: Usage) -> v1::Usage {
    v1::Usage {
        prompt_tokens: usage.prompt_tokens,
        cached_tokens: usage.cached_tokens,
        completion_tokens: usage.completion_tokens,
    }
}

/// What a session cost, by the server's price table.
pub(crate) fn account(account: &Account, prices: &BTreeMap<String, Price>) -> v1::Account {
    let models = account.models.iter();
    v1::Account {
        bound_tokens: account.bound_tokens,
        uncached_tokens: account.total().usage.uncached_tokens(),
        read_ratio_thousandths: account.read_ratio().unwrap_or_default(),
        models: models.map(|(model, sums)| model_account(model, sums, prices.get(model))).collect(),
    }
}

fn model_account(model: &str, sums: &ModelAccount, price: Option<&Price>) -> v1::ModelAccount {
    v1::ModelAccount {
        model: model.to_owned(),
        replies: sums.replies,
        prompt_tokens: sums.usage.prompt_tokens,
        cached_tokens: sums.usage.cached_tokens,
        created_tokens: sums.usage.created_tokens,
        completion_tokens: sums.usage.completion_tokens,
        reasoning_tokens: sums.usage.reasoning_tokens,
        first_token_ms: sums.first_token_ms,
        decode_ms: sums.decode_ms,
        decode_tokens: sums.decode_tokens,
        cost_micros: price.map(|price| sums.cost(price)),
    }
}

/// What is known of a redacted session.
pub(crate) fn redaction(it: &Redaction) -> v1::Redaction {
    v1::Redaction {
        last_seq: it.last.0,
        original_head_hash: it.original_head.clone().unwrap_or_default(),
    }
}

/// The calls of the current step that are not settled.
pub(crate) fn open_calls(state: &SessionState) -> Vec<v1::OpenCall> {
    let mut open = Vec::new();
    for (call_id, call) in &state.calls {
        let (status, worker) = match &call.status {
            CallStatus::Settled { .. } => continue,
            // What is decided but not begun (the session is paused) stands where it stood.
            CallStatus::Proposed | CallStatus::Approved | CallStatus::TurnedDown { .. } => {
                ("proposed", "")
            }
            CallStatus::AwaitingApproval => ("awaiting_approval", ""),
            CallStatus::Scheduled => ("scheduled", ""),
            CallStatus::Dispatched { worker } => ("dispatched", worker.as_str()),
            CallStatus::AwaitingRetry => ("awaiting_retry", ""),
            CallStatus::Lost { .. } | CallStatus::AwaitingOutcome => ("awaiting_outcome", ""),
            CallStatus::AwaitingAnswer => ("awaiting_answer", ""),
            CallStatus::Sleeping => ("sleeping", ""),
        };
        open.push(v1::OpenCall {
            call_id: call_id.to_string(),
            tool: call.tool.clone(),
            arguments: call.effective_arguments().to_owned(),
            status: status.to_owned(),
            attempt: call.attempt,
            worker: worker.to_owned(),
        });
    }
    open
}

/// An event as it is stored.
pub(crate) fn event(session_id: SessionId, event: StoredEvent) -> v1::Event {
    v1::Event {
        session_id: session_id.to_string(),
        seq: event.seq.0,
        time_ms: time(event.time),
        r#type: event.kind,
        schema: event.schema.into(),
        cause: event.cause.0,
        actor: event.actor,
        body_json: event.body,
    }
}

/// A live piece.
pub(crate) fn chunk(chunk: LiveChunk) -> v1::LiveChunk {
    v1::LiveChunk {
        kind: chunk.kind.as_str().to_owned(),
        text: chunk.text,
        step: chunk.step,
        attempt: chunk.attempt,
        call_id: chunk.call_id.map(|it| it.to_string()).unwrap_or_default(),
    }
}

/// An approval as the inbox shows it.
pub(crate) fn approval(row: ApprovalRow) -> v1::Approval {
    let question = match row.question {
        Question::MayRun => "may_run",
        Question::WhatHappened => "what_happened",
    };
    v1::Approval {
        approval_id: format!("{}.{}", row.session_id, row.approval_id),
        session_id: row.session_id.to_string(),
        call_id: row.call_id.to_string(),
        question: question.to_owned(),
        tool: row.tool,
        arguments: row.arguments,
        action_digest: row.action_digest,
        rule: row.rule,
        status: row.status.as_str().to_owned(),
        requested_at_ms: time(row.requested_at),
        expires_at_ms: row.expires_at.map(time).unwrap_or_default(),
        decided_by: row.decided_by,
        decided_at_ms: row.decided_at.map(time).unwrap_or_default(),
        reason: row.reason,
    }
}

/// A stored definition.
pub(crate) fn agent_record(record: AgentRecord) -> v1::Agent {
    v1::Agent {
        name: record.name,
        version: record.version,
        definition: record.definition,
        created_at_ms: time(record.created_at),
    }
}

/// A tool and who offers it now.
pub(crate) fn tool(tool: &ToolSpec, workers: Vec<String>) -> v1::Tool {
    let effect = match tool.effect {
        Effect::Read => "read",
        Effect::Idempotent => "idempotent",
        Effect::Write => "write",
    };
    v1::Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.as_str().to_owned(),
        output_schema: tool
            .output_schema
            .as_ref()
            .map(|it| it.as_str().to_owned())
            .unwrap_or_default(),
        effect: effect.to_owned(),
        timeout_ms: tool.timeout_ms,
        workers,
    }
}

/// A connected worker.
pub(crate) fn worker(worker: WorkerInfo) -> v1::Worker {
    v1::Worker {
        name: worker.name,
        tools: worker.tools,
        running_calls: worker.running_calls,
        capacity: worker.capacity,
        connected_at_ms: time(worker.connected_at),
        seen_at_ms: time(worker.seen_at),
        draining: worker.is_draining,
    }
}

/// A derived interval.
pub(crate) fn span(row: Row) -> v1::Span {
    let Row { span, row, size, children, is_last } = row;
    v1::Span {
        span_id: span.span_id,
        parent_id: span.parent.unwrap_or_default(),
        depth: span.depth,
        kind: span.kind.as_str().to_owned(),
        name: span.name,
        start_ms: time(span.start),
        end_ms: span.end.map(time).unwrap_or_default(),
        first_seq: span.first_seq.0,
        last_seq: span.last_seq.0,
        status: span.status.as_str().to_owned(),
        detail: span.detail,
        row,
        subtree_size: size,
        child_count: children,
        is_last_child: is_last,
        folded: false,
    }
}
