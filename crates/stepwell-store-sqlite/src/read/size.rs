//! What a session takes.

use rusqlite::{OptionalExtension as _, Transaction};
use stepwell_core::SessionId;
use stepwell_ports::SessionSize;

use super::ReadError;
use crate::rows::number;

/// Events, and the bytes that would be free without the session. Sizes of values stand in the heads of
/// their rows, so that no long content is read.
pub(crate) fn size(
    transaction: &Transaction<'_>,
    session_id: SessionId,
) -> Result<Option<SessionSize>, ReadError> {
    let found: Option<(i64, u64)> = transaction
        .prepare_cached("SELECT key, head FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.to_string()], |row| Ok((row.get(0)?, number(row, 1)?)))
        .optional()?;
    let Some((key, events)) = found else { return Ok(None) };
    let sum = |query: &str| -> rusqlite::Result<u64> {
        transaction.prepare_cached(query)?.query_row([key], |row| number(row, 0))
    };
    let bodies = sum("SELECT coalesce(sum(octet_length(body)), 0) FROM events WHERE session = ?1")?;
    let payloads = sum("SELECT coalesce(sum(octet_length(blobs.data)), 0)
         FROM blob_refs JOIN blobs ON blobs.address = blob_refs.address
         WHERE blob_refs.session = ?1 AND NOT EXISTS
             (SELECT 1 FROM blob_refs AS other
              WHERE other.address = blob_refs.address AND other.session <> ?1)")?;
    Ok(Some(SessionSize { events, bytes: bodies.saturating_add(payloads) }))
}
