//! Sessions that are brought in from elsewhere: events first, under a key that no session has yet;
//! the session's row last.

use rusqlite::{Connection, OptionalExtension as _, params};
use stepwell_core::{Seq, SessionId};
use stepwell_ports::{AppendError, Import, Imported, Redaction, StoredEvent};

use super::delete::{next_key, note_key};
use super::lazy::insert_checkpoint;
use super::sessions::{
    NewRow, find, insert_blobs, insert_events, insert_refs, insert_row, write_approval,
};
use crate::blob::StoredBlob;
use crate::rows::{number, to_sql};

/// A page in the form in which it is written.
#[derive(Debug)]
pub(crate) struct PackedPage {
    pub(crate) after: Seq,
    /// Head after it, checked.
    pub(crate) head: Seq,
    pub(crate) events: Vec<StoredEvent>,
    pub(crate) blobs: Vec<StoredBlob>,
    /// Addresses of the payloads that they refer to.
    pub(crate) refs: Vec<String>,
    pub(crate) checkpoints: Vec<PackedCheckpoint>,
}

/// An outline, compressed.
#[derive(Debug)]
pub(crate) struct PackedCheckpoint {
    pub(crate) seq: Seq,
    pub(crate) version: u32,
    /// Size before compression.
    pub(crate) bytes: usize,
    pub(crate) data: Vec<u8>,
}

/// Reserves a key.
pub(crate) fn import_begin(
    conn: &Connection,
    session_id: SessionId,
) -> rusqlite::Result<Result<Import, AppendError>> {
    if let Some(refusal) = taken(conn, session_id)? {
        return Ok(Err(refusal));
    }
    let key = next_key(conn)?;
    conn.prepare_cached("INSERT INTO imports (key, session_id, head) VALUES (?1, ?2, 0)")?
        .execute(params![key, session_id.to_string()])?;
    Ok(Ok(Import { session_id, key: u64::try_from(key).unwrap_or_default() }))
}

/// Writes a page, or refuses before anything is written.
pub(crate) fn import_events(
    conn: &Connection,
    import: Import,
    page: &PackedPage,
) -> rusqlite::Result<Result<Seq, AppendError>> {
    let session_id = import.session_id;
    let Some(actual) = head(conn, import)? else {
        return Ok(Err(AppendError::NotFound { session_id }));
    };
    let expected = page.after;
    if expected != actual {
        return Ok(Err(AppendError::Conflict { session_id, expected, actual }));
    }
    insert_events(conn, to_sql(import.key), &page.events)?;
    insert_refs(conn, to_sql(import.key), &page.refs)?;
    insert_blobs(conn, &page.blobs)?;
    for it in &page.checkpoints {
        insert_checkpoint(conn, to_sql(import.key), (it.seq, it.version), it.bytes, &it.data)?;
    }
    conn.prepare_cached("UPDATE imports SET head = ?2 WHERE key = ?1")?
        .execute(params![to_sql(import.key), to_sql(page.head.0)])?;
    Ok(Ok(page.head))
}

/// Makes the session visible, or refuses before anything is written.
pub(crate) fn import_finish(
    conn: &Connection,
    import: Import,
    imported: &Imported,
) -> rusqlite::Result<Result<(), AppendError>> {
    let session_id = import.session_id;
    let Some(actual) = head(conn, import)? else {
        return Ok(Err(AppendError::NotFound { session_id }));
    };
    if let Some(refusal) = taken(conn, session_id)? {
        return Ok(Err(refusal));
    }
    let expected = imported.row.head_seq;
    if expected != actual || actual == Seq(0) {
        return Ok(Err(AppendError::Conflict { session_id, expected, actual }));
    }
    let key = to_sql(import.key);
    let row = NewRow { key, row: &imported.row, wake_at: imported.wake_at, owner: "" };
    insert_row(conn, &row)?;
    if let Some(redaction) = &imported.redaction {
        insert_redaction(conn, key, redaction)?;
    }
    for approval in &imported.approvals {
        write_approval(conn, key, approval)?;
    }
    conn.prepare_cached("DELETE FROM imports WHERE key = ?1")?.execute([key])?;
    Ok(Ok(()))
}

fn insert_redaction(conn: &Connection, key: i64, it: &Redaction) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO redactions (session, last, original_head) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![key, to_sql(it.last.0), it.original_head])
    .map(|_| ())
}

/// A fork shares the redacted beginning of its parent; see [`Redaction::of_fork`].
pub(super) fn inherit_redaction(
    conn: &Connection,
    parent: i64,
    last: Seq,
    key: i64,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO redactions (session, last)
         SELECT ?1, min(last, ?3) FROM redactions WHERE session = ?2",
    )?
    .execute(params![key, parent, to_sql(last.0)])
    .map(|_| ())
}

/// Nobody can go on with it, and what it left behind goes as that of a deleted session does.
pub(crate) fn import_drop(conn: &Connection, import: Import) -> rusqlite::Result<()> {
    let key = to_sql(import.key);
    let closed = conn
        .prepare_cached("DELETE FROM imports WHERE key = ?1 AND session_id = ?2")?
        .execute(params![key, import.session_id.to_string()])?;
    if closed > 0 { leave_to_sweep(conn, key) } else { Ok(()) }
}

/// Drops imports that were cut off by the end of their process. Nothing else may use the store yet.
pub(crate) fn forget_imports(conn: &Connection) -> rusqlite::Result<()> {
    let keys: Vec<i64> = conn
        .prepare("SELECT key FROM imports")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if keys.is_empty() {
        return Ok(());
    }
    tracing::info!("{} imports were cut off by the end of their process", keys.len());
    conn.execute_batch("BEGIN IMMEDIATE")?;
    keys.iter().try_for_each(|key| leave_to_sweep(conn, *key))?;
    conn.execute_batch("DELETE FROM imports; COMMIT")
}

fn leave_to_sweep(conn: &Connection, key: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT INTO deletions (session) VALUES (?1)")?.execute([key])?;
    conn.prepare_cached("DELETE FROM checkpoints WHERE session = ?1")?.execute([key])?;
    note_key(conn, key)
}

fn head(conn: &Connection, import: Import) -> rusqlite::Result<Option<Seq>> {
    conn.prepare_cached("SELECT head FROM imports WHERE key = ?1 AND session_id = ?2")?
        .query_row(params![to_sql(import.key), import.session_id.to_string()], |row| {
            number(row, 0).map(Seq)
        })
        .optional()
}

fn taken(conn: &Connection, session_id: SessionId) -> rusqlite::Result<Option<AppendError>> {
    let found = find(conn, session_id)?;
    Ok(found.map(|it| AppendError::Conflict { session_id, expected: Seq(0), actual: it.head }))
}
