//! The physical limit: the same payloads written with bare rusqlite at the same durability.
//!
//! One append-only table, one index on (session, seq), WAL, `synchronous=FULL`, prepared statements:
//! what a person would write who wants nothing but the bytes on the disk.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::time::Stopwatch;
use crate::workload::{reply_text, result_text};

/// A bare database.
pub(crate) struct Raw {
    connection: Connection,
}

impl Raw {
    /// Opens one in `folder`.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(folder.join("raw.db"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS events (
                 id INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL,
                 body TEXT NOT NULL);
             CREATE UNIQUE INDEX IF NOT EXISTS by_session ON events (session, seq);",
        )?;
        Ok(Self { connection })
    }

    /// One transaction with one row for each of `sessions`.
    pub(crate) fn commit(
        &mut self,
        sessions: std::ops::Range<u64>,
        seq: u64,
        body: &str,
    ) -> anyhow::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction
                .prepare_cached("INSERT INTO events (session, seq, body) VALUES (?1, ?2, ?3)")?;
            for session in sessions {
                insert.execute(params![session as i64, seq as i64, body])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// `steps` steps of each of `sessions`, in lock step: two commits a step.
    pub(crate) fn steps(
        &mut self,
        sessions: &std::ops::Range<u64>,
        steps: std::ops::Range<u64>,
    ) -> anyhow::Result<Duration> {
        let (reply, result) = (reply_text(), result_text());
        let watch = Stopwatch::start();
        for step in steps {
            self.commit(sessions.clone(), step * 2 + 1, &reply)?;
            self.commit(sessions.clone(), step * 2 + 2, &result)?;
        }
        Ok(watch.elapsed())
    }

    /// Reads every row of every session back, session by session.
    pub(crate) fn read_all(
        &self,
        sessions: std::ops::Range<u64>,
    ) -> anyhow::Result<(Duration, u64)> {
        let watch = Stopwatch::start();
        let mut bytes = 0;
        let mut select =
            self.connection.prepare("SELECT body FROM events WHERE session = ?1 ORDER BY seq")?;
        for session in sessions {
            let mut rows = select.query(params![session as i64])?;
            while let Some(row) = rows.next()? {
                bytes += row.get_ref(0)?.as_str()?.len() as u64;
            }
        }
        Ok((watch.elapsed(), bytes))
    }
}
