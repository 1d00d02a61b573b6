//! What deleted sessions left behind is removed in pieces that are small enough to go between two
//! groups of writes.
//!
//! Each piece is a transaction, and `deletions` says what is left, so a crash costs nothing. A payload
//! goes with the last row of `blob_refs` that names it; an append writes that row together with the
//! payload, on the same thread, so none can be on its way when a payload goes.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use stepwell_ports::retention::Swept;

use crate::moment;
use crate::rows::{number, to_sql};

/// Rows that one piece removes, at most …
const PIECE_ROWS: u64 = 128;

/// … and bytes of their contents, one row apart. Each row may lie on a page of its own, so a piece
/// writes a few MiB at worst.
const PIECE_BYTES: u64 = 1024 * 1024;

/// Under load a piece follows the last one after this time at the latest, so that what was deleted
/// goes away on a store that is never idle.
const PIECE_EVERY: Duration = Duration::from_millis(100);

/// How long it rests after a failure, mostly a full disk.
const REST: Duration = Duration::from_secs(5);

/// When the writer does the next piece.
#[derive(Debug)]
pub(super) struct Pace {
    last: Instant,
    rests_until: Option<Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { last: moment(), rests_until: None }
    }

    /// Whether a writer that has nothing else to do may go on.
    pub(super) fn is_rested(&self) -> bool {
        self.rests_until.is_none_or(|until| moment() >= until)
    }

    /// Whether a piece must be done though others wait.
    pub(super) fn is_overdue(&self) -> bool {
        self.is_rested() && self.last.elapsed() >= PIECE_EVERY
    }

    pub(super) fn done(&mut self, is_ok: bool) {
        let now = moment();
        self.last = now;
        self.rests_until = (!is_ok).then(|| now + REST);
    }
}

/// Whether anything is left to do. Costs one look at a table that is mostly empty.
pub(super) fn is_needed(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(next(conn)?.is_some())
}

fn next(conn: &Connection) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT min(session) FROM deletions")?.query_row([], |row| row.get(0))
}

/// Removes one piece. To be called in a transaction.
pub(crate) fn sweep(conn: &Connection) -> rusqlite::Result<Swept> {
    let mut piece = Piece { conn, rows: PIECE_ROWS, bytes: PIECE_BYTES, swept: Swept::default() };
    while let Some(session) = next(conn)? {
        if !piece.remove(session)? {
            return Ok(piece.swept);
        }
        conn.prepare_cached("DELETE FROM deletions WHERE session = ?1")?.execute([session])?;
    }
    piece.swept.is_done = true;
    Ok(piece.swept)
}

/// What is left of the bounds of one piece.
struct Piece<'a> {
    conn: &'a Connection,
    rows: u64,
    bytes: u64,
    swept: Swept,
}

impl Piece<'_> {
    /// Removes what is left of a session; says no when there may be more than fits.
    fn remove(&mut self, session: i64) -> rusqlite::Result<bool> {
        Ok(self.remove_events(session)?
            && self.remove_approvals(session)?
            && self.remove_payloads(session)?)
    }

    fn take(&mut self, bytes: u64) {
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn is_full(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    fn remove_events(&mut self, session: i64) -> rusqlite::Result<bool> {
        let mut delete = self.conn.prepare_cached("DELETE FROM events WHERE id = ?1")?;
        let query = "SELECT id, octet_length(body) FROM events WHERE session = ?1
                     ORDER BY seq LIMIT ?2";
        let found = self.keys(query, session)?;
        for (id, bytes) in found {
            if self.is_full() {
                return Ok(false);
            }
            delete.execute([id])?;
            self.take(bytes);
            self.swept.events += 1;
        }
        Ok(!self.is_full())
    }

    fn remove_approvals(&mut self, session: i64) -> rusqlite::Result<bool> {
        let mut delete = self.conn.prepare_cached("DELETE FROM approvals WHERE rowid = ?1")?;
        let query = "SELECT rowid, octet_length(arguments) FROM approvals WHERE session = ?1
                     LIMIT ?2";
        let found = self.keys(query, session)?;
        for (rowid, bytes) in found {
            if self.is_full() {
                return Ok(false);
            }
            delete.execute([rowid])?;
            self.take(bytes);
        }
        Ok(!self.is_full())
    }

    /// Keys of rows and the sizes of what they hold, not more than fit.
    fn keys(&self, query: &str, session: i64) -> rusqlite::Result<Vec<(i64, u64)>> {
        let mut statement = self.conn.prepare_cached(query)?;
        let pair = |row: &Row<'_>| Ok((row.get(0)?, number(row, 1)?));
        statement.query_map(params![session, to_sql(self.rows)], pair)?.collect()
    }

    fn remove_payloads(&mut self, session: i64) -> rusqlite::Result<bool> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT address FROM blob_refs WHERE session = ?1 LIMIT ?2")?;
        let found = statement.query_map(params![session, to_sql(self.rows)], |row| row.get(0))?;
        for address in found.collect::<rusqlite::Result<Vec<String>>>()? {
            if self.is_full() {
                return Ok(false);
            }
            let bytes = self.let_go(session, &address)?;
            self.take(bytes);
        }
        Ok(!self.is_full())
    }

    /// Forgets that the session refers to a payload, and removes that if it was the last one. Gives
    /// the bytes of what was removed.
    fn let_go(&mut self, session: i64, address: &str) -> rusqlite::Result<u64> {
        self.conn
            .prepare_cached("DELETE FROM blob_refs WHERE session = ?1 AND address = ?2")?
            .execute(params![session, address])?;
        let orphaned: Option<u64> = self
            .conn
            .prepare_cached(
                "SELECT octet_length(data) FROM blobs WHERE address = ?1
                 AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE address = ?1)",
            )?
            .query_row([address], |row| number(row, 0))
            .optional()?;
        let Some(bytes) = orphaned else { return Ok(0) };
        self.conn.prepare_cached("DELETE FROM blobs WHERE address = ?1")?.execute([address])?;
        self.swept.payloads += 1;
        Ok(bytes)
    }
}
