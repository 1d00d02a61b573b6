//! Between the types of the port and the columns of the tables.

use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type, ValueRef};
use stepwell_core::event::{Label, Question, Usage};
use stepwell_core::state::ForkedFrom;
use stepwell_core::summary::{ApprovalRow, ApprovalStatus, SessionRow};
use stepwell_core::{ApprovalId, Seq, SessionId, Status, TimestampMs};
use stepwell_ports::StoredEvent;

/// Columns that [`session_row`] reads, in its order.
pub(crate) const SESSION_COLUMNS: &str = "session_id, status, head, step, prompt_tokens, \
     cached_tokens, completion_tokens, created_at, updated_at, agent, agent_version, labels, \
     title, explain, parent, parent_seq";

/// How many columns [`SESSION_COLUMNS`] are: what follows them has this index.
pub(crate) const SESSION_COLUMNS_LEN: usize = 16;

/// Columns that [`approval_row`] reads, in its order.
pub(crate) const APPROVAL_COLUMNS: &str = "approval_id, call_id, question, tool, arguments, \
     action_digest, rule, requested_at, expires_at, status, decided_by, decided_at, reason";

/// How many columns [`APPROVAL_COLUMNS`] are.
pub(crate) const APPROVAL_COLUMNS_LEN: usize = 13;

/// A number for a column. Larger ones were bounded before (`NUMBER_MAX`).
pub(crate) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of a column. A negative one was never written.
pub(crate) fn number(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(index)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value))
}

fn maybe_time(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<TimestampMs>> {
    let value: Option<i64> = row.get(index)?;
    value.map(|_| number(row, index).map(TimestampMs)).transpose()
}

/// When a session must be woken.
pub(crate) fn wake_at(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<TimestampMs>> {
    maybe_time(row, index)
}

/// A session's status.
pub(crate) fn status(row: &Row<'_>, index: usize) -> rusqlite::Result<Status> {
    named(row, index, Status::from_name)
}

/// A name that only this code writes; an unknown one is damage, or a release that came later.
fn named<T>(
    row: &Row<'_>,
    index: usize,
    read: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    read(text).ok_or_else(|| {
        let error = FromSqlError::Other(format!("unknown name {text:?}").into());
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
    })
}

pub(crate) fn session_id(row: &Row<'_>, index: usize) -> rusqlite::Result<SessionId> {
    named(row, index, |text| text.parse().ok())
}

/// Whether a session with this status is written at each of its steps. A choice of index, nothing
/// else: such rows stay out of the sorted indexes.
pub(crate) fn is_busy(status: Status) -> bool {
    matches!(status, Status::Thinking | Status::ExecutingTools)
}

/// Reads [`SESSION_COLUMNS`].
pub(crate) fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        session_id: session_id(row, 0)?,
        status: status(row, 1)?,
        head_seq: Seq(number(row, 2)?),
        step: row.get(3)?,
        usage: Usage {
            prompt_tokens: number(row, 4)?,
            cached_tokens: number(row, 5)?,
            completion_tokens: number(row, 6)?,
            ..Usage::default()
        },
        created_at: TimestampMs(number(row, 7)?),
        updated_at: TimestampMs(number(row, 8)?),
        agent: row.get(9)?,
        agent_version: row.get(10)?,
        labels: named(row, 11, labels_of)?,
        title: row.get(12)?,
        explain: row.get(13)?,
        parent: parent(row)?,
    })
}

fn parent(row: &Row<'_>) -> rusqlite::Result<Option<ForkedFrom>> {
    if row.get_ref(14)? == ValueRef::Null {
        return Ok(None);
    }
    Ok(Some(ForkedFrom { session_id: session_id(row, 14)?, seq: Seq(number(row, 15)?) }))
}

/// Text of the column `labels`. Most sessions have none.
pub(crate) fn labels_text(labels: &[Label]) -> String {
    if labels.is_empty() {
        return "[]".to_owned();
    }
    // Strings always serialise.
    serde_json::to_string(labels).unwrap_or_else(|_| "[]".to_owned())
}

fn labels_of(text: &str) -> Option<Vec<Label>> {
    if text == "[]" { Some(Vec::new()) } else { serde_json::from_str(text).ok() }
}

/// Reads [`APPROVAL_COLUMNS`].
pub(crate) fn approval_row(session_id: SessionId, row: &Row<'_>) -> rusqlite::Result<ApprovalRow> {
    Ok(ApprovalRow {
        session_id,
        approval_id: ApprovalId(number(row, 0)?),
        call_id: named(row, 1, |text| text.parse().ok())?,
        question: named(row, 2, question_of)?,
        tool: row.get(3)?,
        arguments: row.get(4)?,
        action_digest: row.get(5)?,
        rule: row.get(6)?,
        requested_at: TimestampMs(number(row, 7)?),
        expires_at: maybe_time(row, 8)?,
        status: named(row, 9, ApprovalStatus::from_name)?,
        decided_by: row.get(10)?,
        decided_at: maybe_time(row, 11)?,
        reason: row.get(12)?,
    })
}

/// Name of a question in the column `question`.
pub(crate) fn question_name(question: Question) -> &'static str {
    match question {
        Question::MayRun => "may_run",
        Question::WhatHappened => "what_happened",
    }
}

fn question_of(name: &str) -> Option<Question> {
    [Question::MayRun, Question::WhatHappened].into_iter().find(|it| question_name(*it) == name)
}

/// Reads `seq, time, cause, actor, kind, schema, body`.
pub(crate) fn stored_event(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent {
        seq: Seq(number(row, 0)?),
        time: TimestampMs(number(row, 1)?),
        cause: Seq(number(row, 2)?),
        actor: row.get(3)?,
        kind: row.get(4)?,
        schema: row.get(5)?,
        body: row.get(6)?,
    })
}
