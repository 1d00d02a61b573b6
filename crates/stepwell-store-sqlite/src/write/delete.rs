//! Deleting: a session's row goes at once, what it leaves behind goes in pieces.
//!
//! Invariant: the short name of a session is never given out again, so nothing that is still in the
//! file can come to belong to another session.

use rusqlite::{Connection, OptionalExtension as _, params};
use stepwell_core::{SessionId, TimestampMs};
use stepwell_ports::retention::{DeleteOnly, Deleted};

use crate::rows::{self, number};

/// Keeps the highest short name that was deleted; in `store_info`, where values are texts.
const LAST_DELETED: &str = "last_deleted_key";

/// Deletes a session if it is as `only` wants it: its row, its cached state and its client key, each
/// of which is one row. What is many rows is noted for [`super::sweep`].
pub(crate) fn delete(
    conn: &Connection,
    session_id: SessionId,
    only: &DeleteOnly,
) -> rusqlite::Result<Deleted> {
    let found = conn
        .prepare_cached("SELECT key, status, updated_at FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.to_string()], |row| {
            let key: i64 = row.get(0)?;
            Ok((key, rows::status(row, 1)?, TimestampMs(number(row, 2)?)))
        })
        .optional()?;
    let Some((key, status, updated_at)) = found else { return Ok(Deleted::NotFound) };
    if !only.fits(status, updated_at) {
        return Ok(Deleted::Kept { status, updated_at });
    }
    conn.prepare_cached("INSERT INTO deletions (session) VALUES (?1)")?.execute([key])?;
    note_key(conn, key)?;
    conn.prepare_cached(
        "INSERT INTO deleted_keys (client_key, session_id, request_digest)
         SELECT client_key, ?2, request_digest FROM client_keys WHERE session = ?1",
    )?
    .execute(params![key, session_id.to_string()])?;
    for query in [
        "DELETE FROM client_keys WHERE session = ?1",
        "DELETE FROM snapshots WHERE session = ?1",
        // One in a thousand events.
        "DELETE FROM checkpoints WHERE session = ?1",
        "DELETE FROM redactions WHERE session = ?1",
        "DELETE FROM sessions WHERE key = ?1",
    ] {
        conn.prepare_cached(query)?.execute([key])?;
    }
    Ok(Deleted::Yes)
}

pub(super) fn note_key(conn: &Connection, key: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO store_info (name, value) VALUES (?1, CAST(?2 AS TEXT))
         ON CONFLICT (name) DO UPDATE SET value = excluded.value
         WHERE CAST(value AS INTEGER) < CAST(excluded.value AS INTEGER)",
    )?
    .execute(params![LAST_DELETED, key])
    .map(|_| ())
}

/// The short name of the next session. Costs three looks at the ends of small indexes, no write.
pub(crate) fn next_key(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached(
        "SELECT 1 + max(
             coalesce((SELECT max(key) FROM sessions), 0),
             coalesce((SELECT max(key) FROM imports), 0),
             coalesce((SELECT CAST(value AS INTEGER) FROM store_info WHERE name = ?1), 0))",
    )?
    .query_row([LAST_DELETED], |row| row.get(0))
}
