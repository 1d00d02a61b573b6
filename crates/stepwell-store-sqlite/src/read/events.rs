//! Reads of one session: its row, its events, its cached state; and payloads.

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use stepwell_core::{Fence, Seq, SessionId};
use stepwell_ports::memory::page_rows;
use stepwell_ports::store::Keyed;
use stepwell_ports::{EventPage, Redaction, SessionInfo, StoredEvent};

use super::ReadError;
use crate::blob::{address_of, decompress};
use crate::rows::{self, SESSION_COLUMNS, SESSION_COLUMNS_LEN, number, to_sql};

/// What is known of a session beside its events.
pub(crate) fn session(
    transaction: &Transaction<'_>,
    session_id: SessionId,
) -> Result<Option<SessionInfo>, ReadError> {
    const OWNER: usize = SESSION_COLUMNS_LEN;
    let query = format!(
        "SELECT {SESSION_COLUMNS}, owner, fence, wake_at, redactions.last, original_head
         FROM sessions LEFT JOIN redactions ON redactions.session = sessions.key
         WHERE session_id = ?1"
    );
    let found = transaction
        .prepare_cached(&query)?
        .query_row([session_id.to_string()], |row| {
            Ok(SessionInfo {
                row: rows::session_row(row)?,
                owner: row.get(OWNER)?,
                fence: Fence(number(row, OWNER + 1)?),
                wake_at: rows::wake_at(row, OWNER + 2)?,
                redaction: redaction(row, OWNER + 3)?,
            })
        })
        .optional()?;
    Ok(found)
}

/// Reads two columns of the table `redactions` from `at` on; no row of it, no redaction.
fn redaction(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Redaction>> {
    let last: Option<i64> = row.get(at)?;
    let original_head = row.get(at + 1)?;
    let last = last.map(|_| number(row, at)).transpose()?;
    Ok(last.map(|last| Redaction { last: Seq(last), original_head }))
}

/// What a client's key was used for. Also for the writer, which must see its own uncommitted writes.
pub(crate) fn keyed(conn: &Connection, client_key: &str) -> rusqlite::Result<Option<Keyed>> {
    conn.prepare_cached(
        "SELECT sessions.session_id, client_keys.request_digest, 0
         FROM client_keys JOIN sessions ON sessions.key = client_keys.session
         WHERE client_keys.client_key = ?1
         UNION ALL
         SELECT session_id, request_digest, 1 FROM deleted_keys WHERE client_key = ?1",
    )?
    .query_row([client_key], |row| {
        Ok(Keyed {
            session_id: rows::session_id(row, 0)?,
            request_digest: row.get(1)?,
            is_deleted: row.get(2)?,
        })
    })
    .optional()
}

/// Events after `after`, and the head. Says which event is missing, if one is.
pub(crate) fn events(
    transaction: &Transaction<'_>,
    session_id: SessionId,
    after: Seq,
    limit: usize,
) -> Result<EventPage, ReadError> {
    let limit = page_rows(limit);
    let Some((key, head)) = key_and_head(transaction, session_id)? else {
        return Ok(EventPage::default());
    };
    let mut statement = transaction.prepare_cached(
        "SELECT seq, time, cause, actor, kind, schema, body FROM events
         WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let found = statement
        .query_map(params![key, to_sql(after.0), to_sql(limit as u64)], rows::stored_event)?;
    let events = found.collect::<rusqlite::Result<Vec<StoredEvent>>>()?;
    check_complete(&events, after, head, limit)?;
    Ok(EventPage { events, head })
}

fn key_and_head(
    transaction: &Transaction<'_>,
    session_id: SessionId,
) -> rusqlite::Result<Option<(i64, Seq)>> {
    transaction
        .prepare_cached("SELECT key, head FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.to_string()], |row| Ok((row.get(0)?, Seq(number(row, 1)?))))
        .optional()
}

/// A session's events are 1, 2, 3 … up to its head; anything else must not be folded.
fn check_complete(
    events: &[StoredEvent],
    after: Seq,
    head: Seq,
    limit: usize,
) -> Result<(), ReadError> {
    let mut last = after;
    for event in events {
        if event.seq != last.next() {
            return Err(ReadError::Damaged(format!("event {} is missing", last.next())));
        }
        last = event.seq;
    }
    if last > head && last > after {
        return Err(ReadError::Damaged(format!("event {last} stands behind its head {head}")));
    }
    if last < head && events.len() < limit {
        return Err(ReadError::Damaged(format!("event {} is missing", last.next())));
    }
    Ok(())
}

/// A payload.
pub(crate) fn blob(
    transaction: &Transaction<'_>,
    address: &str,
) -> Result<Option<Vec<u8>>, ReadError> {
    let found: Option<(u64, Vec<u8>)> = transaction
        .prepare_cached("SELECT bytes, data FROM blobs WHERE address = ?1")?
        .query_row([address], |row| Ok((number(row, 0)?, row.get(1)?)))
        .optional()?;
    let Some((bytes, data)) = found else { return Ok(None) };
    let damaged = |reason: String| ReadError::Damaged(format!("payload {address}: {reason}"));
    let payload = decompress(&data, bytes as usize).map_err(damaged)?;
    if address_of(&payload) != address {
        return Err(damaged("it is not what was written".to_owned()));
    }
    Ok(Some(payload))
}

/// The cached state, compressed, with its size: when its version is that one and it is not ahead of
/// the session.
pub(crate) fn checkpoint(
    transaction: &Transaction<'_>,
    session_id: SessionId,
    (at, version): (Seq, u32),
) -> Result<Option<(Seq, usize, Vec<u8>)>, ReadError> {
    let found = transaction
        .prepare_cached(
            "SELECT checkpoints.seq, checkpoints.bytes, checkpoints.state
             FROM sessions JOIN checkpoints ON checkpoints.session = sessions.key
             WHERE sessions.session_id = ?1 AND checkpoints.version = ?2
               AND checkpoints.seq <= ?3
             ORDER BY checkpoints.seq DESC LIMIT 1",
        )?
        .query_row(params![session_id.to_string(), version, to_sql(at.0)], |row| {
            Ok((Seq(number(row, 0)?), number(row, 1)? as usize, row.get(2)?))
        })
        .optional()?;
    Ok(found)
}

pub(crate) fn snapshot(
    transaction: &Transaction<'_>,
    session_id: SessionId,
    version: u32,
) -> Result<Option<(Seq, usize, Vec<u8>)>, ReadError> {
    let found = transaction
        .prepare_cached(
            "SELECT snapshots.seq, snapshots.bytes, snapshots.state
             FROM sessions JOIN snapshots ON snapshots.session = sessions.key
             WHERE sessions.session_id = ?1 AND snapshots.version = ?2
               AND snapshots.seq <= sessions.head",
        )?
        .query_row(params![session_id.to_string(), version], |row| {
            Ok((Seq(number(row, 0)?), number(row, 1)? as usize, row.get(2)?))
        })
        .optional()?;
    Ok(found)
}
