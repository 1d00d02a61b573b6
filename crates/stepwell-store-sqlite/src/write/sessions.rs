//! Writes to sessions: create, append, claim, quarantine.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use stepwell_core::state::ForkedFrom;
use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{Fence, Seq, SessionId, Status, TimestampMs};
use stepwell_ports::memory::{Prepared, PreparedNew, page_rows};
use stepwell_ports::store::Created;
use stepwell_ports::{AppendError, Claim, StoreError, StoredEvent};

use super::delete::next_key;
use super::import::inherit_redaction;
use crate::blob::StoredBlob;
use crate::error::About;
use crate::read::{BEFORE_ALL, DUE_BUSY, DUE_PARKED, keyed};
use crate::rows::{self, is_busy, labels_text, number, question_name, to_sql};

/// An append with its payloads compressed.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) prepared: Prepared,
    pub(crate) blobs: Vec<StoredBlob>,
}

/// What must be known of a session before it is written to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundSession {
    /// Its short name in this file.
    pub(crate) key: i64,
    pub(super) head: Seq,
    fence: Fence,
    is_busy: bool,
}

/// Looks a session up.
pub(crate) fn find(
    conn: &Connection,
    session_id: SessionId,
) -> rusqlite::Result<Option<FoundSession>> {
    conn.prepare_cached("SELECT key, head, fence, busy FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.to_string()], |row| {
            Ok(FoundSession {
                key: row.get(0)?,
                head: Seq(number(row, 1)?),
                fence: Fence(number(row, 2)?),
                is_busy: row.get(3)?,
            })
        })
        .optional()
}

/// Creates a session, or says which one the client's key belongs to.
pub(crate) fn create(
    conn: &Connection,
    new: &PreparedNew,
    blobs: &[StoredBlob],
) -> rusqlite::Result<Result<Created, AppendError>> {
    if let Some(client_key) = &new.client_key
        && let Some(keyed) = keyed(conn, client_key)?
    {
        return Ok(Ok(Created::of_key(&keyed, &new.request_digest)));
    }
    let session_id = new.session_id;
    if let Some(found) = find(conn, session_id)? {
        let actual = found.head;
        return Ok(Err(AppendError::Conflict { session_id, expected: Seq(0), actual }));
    }
    let parent = match new.beginning {
        None => None,
        Some(beginning) => match parent_of(conn, beginning)? {
            Ok(parent) => Some((parent, beginning.seq)),
            Err(refusal) => return Ok(Err(refusal)),
        },
    };
    let key = next_key(conn)?;
    let Prepared { row, wake_at, .. } = &new.first;
    insert_row(conn, &NewRow { key, row, wake_at: *wake_at, owner: &new.owner })?;
    if let Some((parent, last)) = parent {
        copy_beginning(conn, parent, last, key)?;
        inherit_redaction(conn, parent, last, key)?;
    }
    if let Some(client_key) = &new.client_key {
        conn.prepare_cached(
            "INSERT INTO client_keys (client_key, session, request_digest) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![client_key, key, new.request_digest])?;
    }
    write_rest(conn, key, &new.first, blobs)?;
    Ok(Ok(Created::New(Claim { session_id, fence: Fence(1) })))
}

/// The session that a fork begins with, if it has those events.
fn parent_of(
    conn: &Connection,
    beginning: ForkedFrom,
) -> rusqlite::Result<Result<i64, AppendError>> {
    let ForkedFrom { session_id, seq } = beginning;
    Ok(match find(conn, session_id)? {
        None => Err(AppendError::NotFound { session_id }),
        Some(found) if found.head < seq => {
            Err(AppendError::Conflict { session_id, expected: seq, actual: found.head })
        }
        Some(found) => Ok(found.key),
    })
}

/// Copies the first events. Payloads in the blob table are shared by their addresses: those of the
/// parent that these events name, as the member "blob" of an object. An imported event is kept as it
/// was written, so the name may have escapes.
fn copy_beginning(conn: &Connection, parent: i64, last: Seq, key: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(
        r#"INSERT INTO blob_refs (session, address)
         SELECT ?1, address FROM blob_refs WHERE session = ?2 AND address IN (
             SELECT member.value
             FROM events, json_tree(iif(json_valid(events.body), events.body, '{}')) AS member
             WHERE events.session = ?2 AND events.seq <= ?3
                 AND (instr(events.body, '"blob"') > 0 OR instr(events.body, '\u006') > 0)
                 AND member.key = 'blob' AND member.type = 'text')"#,
    )?
    .execute(params![key, parent, to_sql(last.0)])?;
    let copied = conn
        .prepare_cached(
            "INSERT INTO events (session, seq, time, cause, actor, kind, schema, body)
             SELECT ?1, seq, time, cause, actor, kind, schema, body
             FROM events WHERE session = ?2 AND seq <= ?3 ORDER BY seq",
        )?
        .execute(params![key, parent, to_sql(last.0)])?;
    if copied as u64 == last.0 {
        return Ok(());
    }
    // A gap in the parent's history: its own reader finds and names it.
    Err(rusqlite::Error::StatementChangedRows(copied))
}

/// Appends to a session, or refuses before anything is written. `hint` is what may be its short name;
/// the right one spares a look. Gives the new head and the short name.
pub(crate) fn append(
    conn: &Connection,
    claim: Claim,
    write: &Write,
    hint: Option<i64>,
) -> rusqlite::Result<Result<(Seq, i64), AppendError>> {
    let prepared = &write.prepared;
    if let Some(key) = hint
        && update_row(conn, UPDATE_STEADY, (key, claim), prepared)?
    {
        write_rest(conn, key, prepared, &write.blobs)?;
        return Ok(Ok((prepared.head, key)));
    }
    let Claim { session_id, fence } = claim;
    let Some(found) = find(conn, session_id)? else {
        return Ok(Err(AppendError::NotFound { session_id }));
    };
    if found.fence != fence {
        let current = found.fence;
        return Ok(Err(AppendError::Fenced { session_id, held: fence, current }));
    }
    let (expected, actual) = (prepared.expected, found.head);
    if expected != actual {
        return Ok(Err(AppendError::Conflict { session_id, expected, actual }));
    }
    let update =
        if found.is_busy == is_busy(prepared.row.status) { UPDATE_STEADY } else { UPDATE_TURNED };
    if !update_row(conn, update, (found.key, claim), prepared)? {
        return Err(rusqlite::Error::StatementChangedRows(0));
    }
    write_rest(conn, found.key, prepared, &write.blobs)?;
    Ok(Ok((prepared.head, found.key)))
}

/// The row of a session that was not there.
pub(super) struct NewRow<'a> {
    pub(super) key: i64,
    pub(super) row: &'a SessionRow,
    pub(super) wake_at: Option<TimestampMs>,
    pub(super) owner: &'a str,
}

pub(super) fn insert_row(conn: &Connection, new: &NewRow<'_>) -> rusqlite::Result<()> {
    let NewRow { key, row, wake_at, owner } = new;
    conn.prepare_cached(
        "INSERT INTO sessions (session_id, status, head, step, prompt_tokens, cached_tokens,
             completion_tokens, created_at, updated_at, agent, agent_version, labels, title,
             explain, wake_at, busy, fence, owner, key, parent, parent_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, 1, ?17,
             ?18, ?19, ?20)",
    )?
    .execute(params![
        row.session_id.to_string(),
        row.status.as_str(),
        to_sql(row.head_seq.0),
        row.step,
        to_sql(row.usage.prompt_tokens),
        to_sql(row.usage.cached_tokens),
        to_sql(row.usage.completion_tokens),
        to_sql(row.created_at.0),
        to_sql(row.updated_at.0),
        row.agent,
        row.agent_version,
        labels_text(&row.labels),
        row.title,
        row.explain,
        wake_at.map(|it| to_sql(it.0)),
        is_busy(row.status),
        owner,
        key,
        row.parent.map(|it| it.session_id.to_string()),
        row.parent.map(|it| to_sql(it.seq.0)),
    ])?;
    Ok(())
}

/// `SQLite` rewrites an index entry whenever its columns are named, changed or not. So `busy` is
/// named only when it changes, and a step of a busy session touches no index of this table.
macro_rules! update_row {
    ($turn:literal, $when:literal) => {
        concat!(
            "UPDATE sessions SET status = ?2, head = ?3, step = ?4, prompt_tokens = ?5, \
             cached_tokens = ?6, completion_tokens = ?7, created_at = ?8, updated_at = ?9, \
             agent = ?10, agent_version = ?11, labels = ?12, title = ?13, explain = ?14, \
             wake_at = ?15",
            $turn,
            " WHERE key = ?1 AND session_id = ?16 AND fence = ?17 AND head = ?18 AND ",
            $when
        )
    };
}
const UPDATE_STEADY: &str = update_row!("", "busy = ?19");
const UPDATE_TURNED: &str = update_row!(", busy = ?19", "busy <> ?19");

/// Writes the row of a session with this key, fence and head if it is as busy as `update` wants it;
/// says no if there is none, and has then changed nothing.
fn update_row(
    conn: &Connection,
    update: &str,
    (key, claim): (i64, Claim),
    prepared: &Prepared,
) -> rusqlite::Result<bool> {
    let row: &SessionRow = &prepared.row;
    let changed = conn.prepare_cached(update)?.execute(params![
        key,
        row.status.as_str(),
        to_sql(row.head_seq.0),
        row.step,
        to_sql(row.usage.prompt_tokens),
        to_sql(row.usage.cached_tokens),
        to_sql(row.usage.completion_tokens),
        to_sql(row.created_at.0),
        to_sql(row.updated_at.0),
        row.agent,
        row.agent_version,
        labels_text(&row.labels),
        row.title,
        row.explain,
        prepared.wake_at.map(|it| to_sql(it.0)),
        claim.session_id.to_string(),
        to_sql(claim.fence.0),
        to_sql(prepared.expected.0),
        is_busy(row.status),
    ])?;
    Ok(changed == 1)
}

/// Events, payloads and approvals of an append.
fn write_rest(
    conn: &Connection,
    key: i64,
    prepared: &Prepared,
    blobs: &[StoredBlob],
) -> rusqlite::Result<()> {
    insert_events(conn, key, &prepared.events)?;
    insert_refs(conn, key, &prepared.refs)?;
    insert_blobs(conn, blobs)?;
    prepared.approvals.iter().try_for_each(|it| write_approval(conn, key, it))
}

pub(super) fn insert_events(
    conn: &Connection,
    key: i64,
    events: &[StoredEvent],
) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO events (session, seq, time, cause, actor, kind, schema, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for event in events {
        insert.execute(params![
            key,
            to_sql(event.seq.0),
            to_sql(event.time.0),
            to_sql(event.cause.0),
            event.actor,
            event.kind,
            event.schema,
            event.body,
        ])?;
    }
    Ok(())
}

/// Notes which payloads a session refers to.
pub(super) fn insert_refs(conn: &Connection, key: i64, refs: &[String]) -> rusqlite::Result<()> {
    for address in refs {
        conn.prepare_cached(
            "INSERT INTO blob_refs (session, address) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute(params![key, address])?;
    }
    Ok(())
}

pub(super) fn insert_blobs(conn: &Connection, blobs: &[StoredBlob]) -> rusqlite::Result<()> {
    for blob in blobs {
        conn.prepare_cached(
            "INSERT INTO blobs (address, bytes, data) VALUES (?1, ?2, ?3)
             ON CONFLICT (address) DO NOTHING",
        )?
        .execute(params![blob.address, to_sql(blob.bytes as u64), blob.data])?;
    }
    Ok(())
}

pub(super) fn write_approval(
    conn: &Connection,
    key: i64,
    approval: &ApprovalRow,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO approvals (session, approval_id, call_id, question, tool,
             arguments, action_digest, rule, requested_at, expires_at, status, decided_by,
             decided_at, reason)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        key,
        to_sql(approval.approval_id.0),
        approval.call_id.to_string(),
        question_name(approval.question),
        approval.tool,
        approval.arguments,
        approval.action_digest,
        approval.rule,
        to_sql(approval.requested_at.0),
        approval.expires_at.map(|it| to_sql(it.0)),
        approval.status.as_str(),
        approval.decided_by,
        approval.decided_at.map(|it| to_sql(it.0)),
        approval.reason,
    ])?;
    Ok(())
}

/// Takes a session over, unless `owner` has it already.
pub(crate) fn claim(
    conn: &Connection,
    session_id: SessionId,
    owner: &str,
) -> rusqlite::Result<Result<Claim, AppendError>> {
    let found: Option<(i64, Fence, String)> = conn
        .prepare_cached("SELECT key, fence, owner FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.to_string()], |row| {
            Ok((row.get(0)?, Fence(number(row, 1)?), row.get(2)?))
        })
        .optional()?;
    match found {
        None => Ok(Err(AppendError::NotFound { session_id })),
        Some((_, fence, holder)) if holder == owner => Ok(Ok(Claim { session_id, fence })),
        Some((key, fence, _)) => take_over(conn, key, session_id, (fence, owner)).map(Ok),
    }
}

fn take_over(
    conn: &Connection,
    key: i64,
    session_id: SessionId,
    (fence, owner): (Fence, &str),
) -> rusqlite::Result<Claim> {
    let fence = Fence(fence.0.saturating_add(1));
    conn.prepare_cached("UPDATE sessions SET owner = ?2, fence = ?3 WHERE key = ?1")?
        .execute(params![key, owner, to_sql(fence.0)])?;
    Ok(Claim { session_id, fence })
}

/// What [`claim_due`] is asked.
#[derive(Debug)]
pub(crate) struct ClaimDue {
    pub(crate) owner: String,
    pub(crate) live_owners: Vec<String>,
    pub(crate) now: TimestampMs,
    pub(crate) limit: usize,
}

/// A session that needs an owner.
struct Due {
    wake_at: i64,
    key: i64,
    session_id: SessionId,
    fence: Fence,
}

/// Takes over what is due and belongs to nobody alive, earliest first.
pub(crate) fn claim_due(conn: &Connection, asked: &ClaimDue) -> rusqlite::Result<Vec<Claim>> {
    let limit = page_rows(asked.limit);
    let now = to_sql(asked.now.0);
    let mut due = Vec::new();
    for (query, is_sorted) in [(DUE_PARKED, true), (DUE_BUSY, false)] {
        let mut statement = conn.prepare_cached(query)?;
        let mut found = statement.query([BEFORE_ALL, now])?;
        let mut taken = 0;
        while let Some(row) = found.next()? {
            let holder = row.get_ref(4)?.as_str()?;
            if holder == asked.owner || asked.live_owners.iter().any(|it| it == holder) {
                continue;
            }
            due.push(due_row(row)?);
            taken += 1;
            if is_sorted && taken == limit {
                break;
            }
        }
    }
    due.sort_unstable_by_key(|it| (it.wake_at, it.key));
    due.truncate(limit);
    due.into_iter()
        .map(|it| take_over(conn, it.key, it.session_id, (it.fence, &asked.owner)))
        .collect()
}

fn due_row(row: &Row<'_>) -> rusqlite::Result<Due> {
    Ok(Due {
        wake_at: row.get(0)?,
        key: row.get(1)?,
        session_id: rows::session_id(row, 2)?,
        fence: Fence(number(row, 3)?),
    })
}

/// Marks a session whose log cannot be used. It is not woken again.
pub(crate) fn quarantine(
    conn: &Connection,
    session_id: SessionId,
    reason: &str,
) -> rusqlite::Result<Result<(), StoreError>> {
    let changed = conn
        .prepare_cached(
            "UPDATE sessions SET status = ?2, explain = ?3, wake_at = NULL, busy = 0
             WHERE session_id = ?1",
        )?
        .execute(params![session_id.to_string(), Status::Quarantined.as_str(), reason])?;
    let about = About::session("quarantine", session_id);
    let missing = || about.failed(&format!("there is no session {session_id}"));
    Ok(if changed > 0 { Ok(()) } else { Err(missing()) })
}
