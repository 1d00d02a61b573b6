//! Sessions that are brought in from elsewhere: events first, under a key that no session has yet;
//! the session's row last.

use rusqlite::{Connection, OptionalExtension as _, params};
use stepwell_core::{Seq, SessionId};
use stepwell_ports::{AppendError, Import, Imported, StoredEvent};

use super::sessions::{
    NewRow, find, insert_blobs, insert_events, insert_row, next_key, write_approval,
};
use crate::blob::StoredBlob;
use crate::rows::{number, to_sql};

/// Events that are deleted in one transaction: about as long as a large append takes.
const DROPPED_AT_ONCE: u32 = 2_000;

/// A page in the form in which it is written.
#[derive(Debug)]
pub(crate) struct PackedPage {
    pub(crate) after: Seq,
    /// Head after it, checked.
    pub(crate) head: Seq,
    pub(crate) events: Vec<StoredEvent>,
    pub(crate) blobs: Vec<StoredBlob>,
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
    insert_blobs(conn, &page.blobs)?;
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
    for approval in &imported.approvals {
        write_approval(conn, key, approval)?;
    }
    conn.prepare_cached("DELETE FROM imports WHERE key = ?1")?.execute([key])?;
    Ok(Ok(()))
}

/// First of all nobody can go on with it.
pub(crate) fn import_close(conn: &Connection, import: Import) -> rusqlite::Result<bool> {
    let closed = conn
        .prepare_cached("UPDATE imports SET session_id = '' WHERE key = ?1 AND session_id = ?2")?
        .execute(params![to_sql(import.key), import.session_id.to_string()])?;
    Ok(closed > 0)
}

/// Deletes some events of a closed import; `false` when there was none left and it is gone itself.
pub(crate) fn import_clear(conn: &Connection, import: Import) -> rusqlite::Result<bool> {
    let key = to_sql(import.key);
    let deleted = conn
        .prepare_cached(
            "DELETE FROM events WHERE id IN
             (SELECT id FROM events WHERE session = ?1 ORDER BY seq LIMIT ?2)",
        )?
        .execute(params![key, DROPPED_AT_ONCE])?;
    if deleted == 0 {
        conn.prepare_cached("DELETE FROM imports WHERE key = ?1")?.execute([key])?;
    }
    Ok(deleted > 0)
}

/// Deletes what imports left behind that were cut off by the end of their process. Nothing else may
/// use the store yet.
pub(crate) fn forget_imports(conn: &Connection) -> rusqlite::Result<()> {
    let left: u32 = conn.query_row("SELECT count(*) FROM imports", [], |row| row.get(0))?;
    if left == 0 {
        return Ok(());
    }
    tracing::info!("{left} imports were cut off by the end of their process and are deleted");
    conn.execute("DELETE FROM events WHERE session IN (SELECT key FROM imports)", [])?;
    conn.execute("DELETE FROM imports", [])?;
    Ok(())
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
