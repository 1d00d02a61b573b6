//! States for the cache: they wait for the next write and share its fsync.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use stepwell_core::{Seq, SessionId};

use super::SnapshotKey;
use super::sessions::find;
use crate::rows::to_sql;

/// States that wait, at most.
const SESSIONS_MAX: usize = 64;

/// Compressed bytes that wait, at most: the point is to save an fsync, not to hold memory.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A state of a session, compressed.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) key: SnapshotKey,
    /// Size before compression.
    pub(crate) bytes: usize,
    pub(crate) data: Vec<u8>,
    /// An outline, kept beside earlier ones.
    pub(crate) is_checkpoint: bool,
}

impl Snapshot {
    /// Writes it, unless the session is unknown or its cache is further already.
    pub(crate) fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        let (session_id, seq, version) = self.key;
        let Some(found) = find(conn, session_id)? else { return Ok(()) };
        if self.is_checkpoint {
            return insert_checkpoint(conn, found.key, (seq, version), self.bytes, &self.data);
        }
        let kept: Option<(i64, u32)> = conn
            .prepare_cached("SELECT seq, version FROM snapshots WHERE session = ?1")?
            .query_row([found.key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if kept.is_some_and(|(kept, of)| of == version && kept > to_sql(seq.0)) {
            return Ok(());
        }
        conn.prepare_cached(
            "INSERT OR REPLACE INTO snapshots (session, seq, version, bytes, state)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![found.key, to_sql(seq.0), version, to_sql(self.bytes as u64), self.data])
        .map(|_| ())
    }
}

/// Writes an outline: `data` is its `bytes` bytes, compressed.
pub(super) fn insert_checkpoint(
    conn: &Connection,
    key: i64,
    (seq, version): (Seq, u32),
    bytes: usize,
    data: &[u8],
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO checkpoints (session, seq, version, bytes, state)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![key, to_sql(seq.0), version, to_sql(bytes as u64), data])
    .map(|_| ())
}

/// States that wait: of each session the latest one, and its checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Lazy {
    waiting: BTreeMap<(SessionId, Option<Seq>), Snapshot>,
    bytes: usize,
}

impl Lazy {
    pub(crate) fn keep(&mut self, snapshot: Snapshot) {
        let (session_id, seq, _) = snapshot.key;
        let key = (session_id, snapshot.is_checkpoint.then_some(seq));
        self.bytes += snapshot.data.len();
        if let Some(older) = self.waiting.insert(key, snapshot) {
            self.bytes -= older.data.len();
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= SESSIONS_MAX || self.bytes >= BYTES_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes all. If their transaction fails they are lost, which costs time only.
    pub(crate) fn take(&mut self) -> Vec<Snapshot> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}
