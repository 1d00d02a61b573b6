//! Keeps the write-ahead log bounded, between commits, while no caller waits for an answer.

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use crate::schema::PAGE_BYTES;

/// Pages in the log at which it is copied into the database: 8 MiB. Later costs disk and time to
/// open after a crash, sooner costs two more fsyncs per so many commits.
const CHECKPOINT_PAGES: i32 = 512;

/// Bytes that the log file keeps when it starts again from its beginning. Rewriting it in place is
/// faster than growing it; what a long reader made it grow beyond this is given back.
pub(crate) const KEPT_BYTES: i64 = 2 * CHECKPOINT_PAGES as i64 * PAGE_BYTES as i64;

/// When to look at the log again.
#[derive(Debug)]
pub(crate) struct Wal {
    due_at_pages: i32,
}

impl Default for Wal {
    fn default() -> Self {
        Self { due_at_pages: CHECKPOINT_PAGES }
    }
}

impl Wal {
    /// Copies the log into the database when it has grown enough since the last time.
    pub(crate) fn checkpoint_if_due(&mut self, conn: &Connection) {
        let pages = match checkpoint(conn, CheckpointMode::NOOP) {
            Ok((pages, _)) => pages,
            Err(error) => {
                tracing::debug!("the size of the log is not known: {error}");
                return;
            }
        };
        if pages < self.due_at_pages {
            return;
        }
        match checkpoint(conn, CheckpointMode::PASSIVE) {
            // A reader still needs the log: it cannot begin anew yet, and asking at every commit
            // would be as slow as it is useless.
            Ok((pages, copied)) if copied < pages => self.due_at_pages = pages + CHECKPOINT_PAGES,
            Ok(_) => self.due_at_pages = CHECKPOINT_PAGES,
            Err(error) => {
                tracing::warn!("the log could not be copied into the database: {error}");
                self.due_at_pages = pages + CHECKPOINT_PAGES;
            }
        }
    }

    /// Copies all of the log and empties it, if no reader holds it.
    pub(crate) fn finish(conn: &Connection) {
        if let Err(error) = checkpoint(conn, CheckpointMode::TRUNCATE) {
            tracing::debug!("the log stays for the next start: {error}");
        }
    }
}

fn checkpoint(conn: &Connection, mode: CheckpointMode) -> rusqlite::Result<(i32, i32)> {
    conn.wal_checkpoint_v2(None::<&str>, mode)
}
