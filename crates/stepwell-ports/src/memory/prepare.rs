//! What every store does with an append before it writes: check its form, move large payloads out,
//! encode.
//!
//! Invariant: nothing here needs the store, so it runs in the caller's task and costs the one writer
//! nothing.

use stepwell_core::codec::{self, EVENT_SCHEMA};
use stepwell_core::event::Event;
use stepwell_core::state::ForkedFrom;
use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{Seq, SessionId, TimestampMs};

use crate::import::{ImportPage, Imported};
use crate::store::{APPEND_EVENTS_MAX, Append, AppendError, NewSession, StoredEvent};

/// Largest number that a store keeps: databases have signed 64-bit integers. A later time means the
/// same, "never".
pub const NUMBER_MAX: u64 = i64::MAX as u64;

/// An append in the form in which it is written.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The head that the events follow.
    pub expected: Seq,
    /// The head after them.
    pub head: Seq,
    /// The events; payloads above the inline limit are blob references.
    pub events: Vec<StoredEvent>,
    /// The list row after them.
    pub row: SessionRow,
    /// When the session next needs an owner.
    pub wake_at: Option<TimestampMs>,
    /// Approvals that were opened or closed.
    pub approvals: Vec<ApprovalRow>,
    /// Payloads by address, those of the events and those that came beside them.
    pub blobs: Vec<(String, Vec<u8>)>,
    /// Every address that the session refers to from now on, each once: those of `blobs`, and what
    /// the events name without bringing it. Most appends have none.
    pub refs: Vec<String>,
}

/// Checks and encodes the append of a session that exists. Cost: O(bytes of the events).
///
/// # Errors
/// [`AppendError::Malformed`].
pub fn prepare(session_id: SessionId, append: Append) -> Result<Prepared, AppendError> {
    let malformed = |reason: String| AppendError::Malformed { session_id, reason };
    let head = check(session_id, &append).map_err(malformed)?;
    let Append { expected, events, mut row, mut wake_at, mut approvals, mut blobs } = append;
    let mut refs = Vec::new();
    let events: Result<Vec<_>, String> =
        events.into_iter().map(|event| stored_form(event, &mut blobs, &mut refs)).collect();
    let events = events.map_err(malformed)?;
    refs.extend(blobs.iter().map(|(address, _)| address.clone()));
    refs.sort_unstable();
    refs.dedup();
    bound_row(&mut row);
    approvals.iter_mut().for_each(bound_approval);
    wake_at.as_mut().map(bound);
    Ok(Prepared { expected, head, events, row, wake_at, approvals, blobs, refs })
}

/// A session that does not exist yet, in the form in which it is written.
#[derive(Debug, Clone)]
pub struct PreparedNew {
    /// Its id.
    pub session_id: SessionId,
    /// The client's key.
    pub client_key: Option<String>,
    /// BLAKE3 of the client's request.
    pub request_digest: String,
    /// The node that will own it.
    pub owner: String,
    /// The session whose first events it begins with, and the last of them.
    pub beginning: Option<ForkedFrom>,
    /// Its first append.
    pub first: Prepared,
}

/// Checks and encodes the first append of a session.
///
/// # Errors
/// [`AppendError::Malformed`].
pub fn prepare_new(new: NewSession) -> Result<PreparedNew, AppendError> {
    let NewSession { session_id, client_key, request_digest, owner, beginning, append } = new;
    let begins_at = beginning.map_or(Seq(0), |it| it.seq);
    if append.expected != begins_at {
        let reason = format!("it begins at seq {begins_at}, not at {}", append.expected);
        return Err(AppendError::Malformed { session_id, reason });
    }
    let first = prepare(session_id, append)?;
    Ok(PreparedNew { session_id, client_key, request_digest, owner, beginning, first })
}

/// Checks a page that is brought in; gives the head after it. Cost: O(events).
///
/// # Errors
/// [`AppendError::Malformed`].
pub fn check_import_page(session_id: SessionId, page: &ImportPage) -> Result<Seq, AppendError> {
    let malformed = |reason: String| AppendError::Malformed { session_id, reason };
    if page.events.len() > APPEND_EVENTS_MAX {
        let reason = format!("{} events, more than {APPEND_EVENTS_MAX}", page.events.len());
        return Err(malformed(reason));
    }
    let mut head = page.after;
    for event in &page.events {
        check_place(head, (event.seq, event.time, event.cause)).map_err(malformed)?;
        head = event.seq;
    }
    Ok(head)
}

/// Checks and bounds what makes a session visible that was brought in.
///
/// # Errors
/// [`AppendError::Malformed`].
pub fn prepare_imported(
    session_id: SessionId,
    mut imported: Imported,
) -> Result<Imported, AppendError> {
    check_rows(session_id, &imported.row, &imported.approvals)
        .map_err(|reason| AppendError::Malformed { session_id, reason })?;
    bound_row(&mut imported.row);
    imported.approvals.iter_mut().for_each(bound_approval);
    imported.wake_at.as_mut().map(bound);
    Ok(imported)
}

/// Addresses of the payloads that a page of an import refers to.
///
/// # Errors
/// [`AppendError::Malformed`] for an event that cannot be read.
pub fn import_refs(session_id: SessionId, page: &ImportPage) -> Result<Vec<String>, AppendError> {
    let mut refs = self::refs(session_id, &page.events)?;
    refs.extend(page.blobs.iter().map(|(address, _)| address.clone()));
    refs.sort_unstable();
    refs.dedup();
    Ok(refs)
}

/// Addresses of the payloads that stored events refer to.
///
/// # Errors
/// [`AppendError::Malformed`] for an event that cannot be read.
pub(super) fn refs(
    session_id: SessionId,
    events: &[StoredEvent],
) -> Result<Vec<String>, AppendError> {
    let mut refs = Vec::new();
    for event in events {
        let mut body = codec::decode(&event.kind, event.schema, &event.body).map_err(|error| {
            let reason = format!("event {}: {error}", event.seq);
            AppendError::Malformed { session_id, reason }
        })?;
        refs.extend(codec::payloads(&mut body).into_iter().map(|payload| payload.blob.blob));
    }
    Ok(refs)
}

fn check(session_id: SessionId, append: &Append) -> Result<Seq, String> {
    if append.events.is_empty() {
        return Err("it has no events".into());
    }
    if append.events.len() > APPEND_EVENTS_MAX {
        return Err(format!("{} events, more than {APPEND_EVENTS_MAX}", append.events.len()));
    }
    let mut head = append.expected;
    for event in &append.events {
        check_place(head, (event.seq, event.time, event.cause))?;
        head = event.seq;
    }
    check_rows(session_id, &append.row, &append.approvals)?;
    if append.row.head_seq != head {
        return Err(format!("its row has head {}, its events end at {head}", append.row.head_seq));
    }
    Ok(head)
}

/// Whether an event may follow `head`.
fn check_place(head: Seq, (seq, time, cause): (Seq, TimestampMs, Seq)) -> Result<(), String> {
    if seq != head.next() {
        return Err(format!("event {seq} follows event {head}"));
    }
    for (name, number) in [("seq", seq.0), ("time", time.0), ("cause", cause.0)] {
        if number > NUMBER_MAX {
            return Err(format!("the {name} of event {seq} is too large: {number}"));
        }
    }
    Ok(())
}

/// Whether rows are those of the session.
fn check_rows(
    session_id: SessionId,
    row: &SessionRow,
    approvals: &[ApprovalRow],
) -> Result<(), String> {
    if row.session_id != session_id {
        return Err(format!("its row is that of session {}", row.session_id));
    }
    match approvals.iter().find(|it| it.session_id != session_id) {
        Some(other) => Err(format!("it has an approval of session {}", other.session_id)),
        None => Ok(()),
    }
}

fn stored_form(
    event: Event,
    blobs: &mut Vec<(String, Vec<u8>)>,
    refs: &mut Vec<String>,
) -> Result<StoredEvent, String> {
    let Event { seq, time, cause, actor, mut body } = event;
    if !codec::is_whole(&mut body) {
        return Err(format!("event {seq} has a payload that was left in the blob table"));
    }
    codec::detach(&mut body, &mut |address, payload| {
        blobs.push((address.to_owned(), payload.as_bytes().to_vec()));
    });
    refs.extend(codec::payloads(&mut body).into_iter().map(|payload| payload.blob.blob));
    let json = codec::encode(&body).map_err(|error| error.to_string())?;
    Ok(StoredEvent {
        seq,
        time,
        cause,
        actor: actor.to_string(),
        kind: body.kind().as_str().to_owned(),
        schema: EVENT_SCHEMA,
        body: json,
    })
}

fn bound(time: &mut TimestampMs) {
    time.0 = time.0.min(NUMBER_MAX);
}

fn bound_approval(approval: &mut ApprovalRow) {
    bound(&mut approval.requested_at);
    approval.expires_at.as_mut().map(bound);
    approval.decided_at.as_mut().map(bound);
}

fn bound_row(row: &mut SessionRow) {
    bound(&mut row.created_at);
    bound(&mut row.updated_at);
    for tokens in [
        &mut row.usage.prompt_tokens,
        &mut row.usage.cached_tokens,
        &mut row.usage.completion_tokens,
    ] {
        *tokens = (*tokens).min(NUMBER_MAX);
    }
}
