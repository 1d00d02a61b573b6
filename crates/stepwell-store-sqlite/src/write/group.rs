//! The writer thread's loop: take what waits, one transaction, answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use stepwell_ports::StoreError;
use tokio::sync::mpsc::{self, error::TryRecvError};

use super::Message;
use super::job::Job;
use super::lazy::Lazy;
use super::sweep::{self, Pace};
use super::wait::receive_within;
use super::wal::Wal;
use crate::error::{self, About};
use crate::folder::{self, Known};
use crate::{moment, open};

/// Writes of one transaction, at most: bounds how long the first of them waits for the others, and
/// is far above what shares one fsync in practice.
const GROUP_MAX: usize = 256;

/// How long it waits with nothing arriving before a group is taken to be complete: a fraction of what
/// an fsync takes.
const COMPLETE_AFTER: Duration = Duration::from_micros(30);

/// How long states for the cache wait for a write that takes them along: what nobody reads from the
/// cache is computed again at each look.
const LAZY_AFTER: Duration = Duration::from_millis(250);

/// The writer thread's state.
pub(crate) struct Writer {
    folder: PathBuf,
    database: Known,
    /// `None` after an error of the system: opened anew for the next group.
    conn: Option<Connection>,
    messages: mpsc::Receiver<Message>,
    /// Writes of the last group: as many are likely to come again.
    expected: usize,
    lazy: Lazy,
    wal: Wal,
    /// What was deleted may not be removed yet.
    has_rest: Arc<AtomicBool>,
    pace: Pace,
}

impl Writer {
    pub(crate) fn new(
        folder: PathBuf,
        conn: Connection,
        messages: mpsc::Receiver<Message>,
        has_rest: Arc<AtomicBool>,
    ) -> Self {
        Self {
            database: Known::new(folder::database(&folder)),
            folder,
            conn: Some(conn),
            messages,
            expected: 1,
            lazy: Lazy::default(),
            wal: Wal::default(),
            has_rest,
            pace: Pace::new(),
        }
    }

    /// Runs until every sender is gone and all that waits is done.
    pub(crate) fn run(mut self) {
        let mut messages = Vec::with_capacity(GROUP_MAX);
        let mut group = Vec::with_capacity(GROUP_MAX);
        while self.receive(&mut messages) {
            let nothing_came = messages.is_empty();
            for message in messages.drain(..) {
                match message {
                    Message::Job(job) => group.push(job),
                    Message::Snapshot(snapshot) => self.lazy.keep(snapshot),
                }
            }
            let is_idle = group.is_empty();
            let is_late = nothing_came && !self.lazy.is_empty();
            if !group.is_empty() || self.lazy.is_full() || is_late {
                self.write(&mut group);
            }
            if self.has_rest() && (is_idle || self.pace.is_overdue()) {
                self.sweep();
            }
        }
        self.close();
    }

    fn has_rest(&self) -> bool {
        self.has_rest.load(Ordering::Relaxed)
    }

    /// Takes what waits; sleeps while there is nothing. `false` at the end. Comes back with nothing
    /// while there is a rest of deleted sessions to remove, and when states waited long enough.
    ///
    /// Sessions that were answered together come back one after the other. To begin with the first
    /// of them would leave the rest for a second fsync, again and again, at half the speed. So as
    /// many as came last time are waited for, a moment. A lone writer is never made to wait.
    fn receive(&mut self, messages: &mut Vec<Message>) -> bool {
        self.linger(messages, 1, Duration::ZERO);
        // Whoever closes the store need not wait: the next one goes on with it.
        if messages.is_empty()
            && self.has_rest()
            && self.pace.is_rested()
            && !self.messages.is_closed()
        {
            return true;
        }
        if messages.is_empty() {
            let patience = if self.lazy.is_empty() { Duration::MAX } else { LAZY_AFTER };
            match receive_within(&mut self.messages, messages, GROUP_MAX, patience) {
                Some(0) => return false,
                Some(_) => {}
                None => return true,
            }
        }
        self.linger(messages, self.expected, COMPLETE_AFTER);
        self.linger(messages, GROUP_MAX, Duration::ZERO);
        self.expected = messages.len();
        true
    }

    /// Takes messages until there are so many, or none has come for that long.
    fn linger(&mut self, messages: &mut Vec<Message>, wanted: usize, idle: Duration) {
        let mut last = moment();
        while messages.len() < wanted.min(GROUP_MAX) {
            match self.messages.try_recv() {
                Ok(message) => {
                    messages.push(message);
                    last = moment();
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) if last.elapsed() >= idle => return,
                // Not `yield_now`: on a busy machine that costs milliseconds.
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
    }

    /// Writes a group and answers it.
    fn write(&mut self, group: &mut Vec<Box<dyn Job>>) {
        match self.commit(group) {
            Ok(()) => {
                for job in group.drain(..) {
                    job.answer(Ok(()));
                }
                self.bound_wal();
            }
            Err(failure) if group.len() > 1 && self.conn.is_some() => {
                tracing::warn!(
                    "a group of {} writes failed, each is tried alone: {failure}",
                    group.len()
                );
                for job in group.drain(..) {
                    let mut alone = vec![job];
                    let outcome = self.commit(&mut alone);
                    self.answer_all(&mut alone, &outcome);
                }
            }
            failed @ Err(_) => self.answer_all(group, &failed),
        }
    }

    fn answer_all(&self, group: &mut Vec<Box<dyn Job>>, outcome: &Result<(), rusqlite::Error>) {
        for job in group.drain(..) {
            let outcome = match outcome {
                Ok(()) => Ok(()),
                Err(error) => Err(job.about().error(&self.folder, error)),
            };
            job.answer(outcome);
        }
    }

    /// One transaction. After an error nothing of it is left in this process; when the commit itself
    /// failed, the disk may still hold it if the process dies now, so the outcome is unknown.
    fn commit(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), rusqlite::Error> {
        let snapshots = self.lazy.take();
        let conn = self.connection()?;
        let outcome = transact(&conn, |conn| {
            group.iter_mut().try_for_each(|job| job.apply(conn))?;
            snapshots.iter().try_for_each(|it| it.write(conn))
        });
        self.keep(conn, outcome.as_ref().err());
        outcome
    }

    /// The connection, as long as what it writes will still be there tomorrow. A new one is never
    /// opened on another file: it would begin an empty store beside all that is open.
    fn connection(&mut self) -> Result<Connection, rusqlite::Error> {
        if !self.database.is_in_place() {
            return Err(error::removed(self.database.file()));
        }
        match self.conn.take() {
            Some(conn) => Ok(conn),
            None => open::write_connection(self.database.file()),
        }
    }

    /// Removes one piece of what deleted sessions left behind.
    fn sweep(&mut self) {
        let swept = self.connection().and_then(|conn| self.sweep_with(conn));
        self.pace.done(swept.is_ok());
        match swept {
            Ok(is_done) => {
                self.has_rest.store(!is_done, Ordering::Relaxed);
                self.bound_wal();
            }
            Err(error) => {
                tracing::warn!(
                    "what was deleted cannot be removed yet, tried again later: {error}"
                );
            }
        }
    }

    fn sweep_with(&mut self, conn: Connection) -> Result<bool, rusqlite::Error> {
        let outcome = if sweep::is_needed(&conn)? {
            transact(&conn, |conn| sweep::sweep(conn).map(|it| it.is_done))
        } else {
            Ok(true)
        };
        self.keep(conn, outcome.as_ref().err());
        outcome
    }

    /// Keeps the connection for the next transaction, unless the error broke it.
    fn keep(&mut self, conn: Connection, error: Option<&rusqlite::Error>) {
        match error {
            Some(error) if error::breaks_connection(error) || !conn.is_autocommit() => {
                tracing::warn!("the write connection is opened anew: {error}");
            }
            Some(_) | None => self.conn = Some(conn),
        }
    }

    fn bound_wal(&mut self) {
        if let Some(conn) = &self.conn {
            self.wal.checkpoint_if_due(conn);
        }
    }

    /// Leaves one tidy file behind.
    fn close(mut self) {
        if !self.lazy.is_empty()
            && let Err(error) = self.commit(&mut [])
        {
            tracing::debug!("the last snapshots were not cached: {error}");
        }
        if let Some(conn) = self.conn.take() {
            Wal::finish(&conn);
            if let Err((_, error)) = conn.close() {
                let error: StoreError = About::all("close").error(&self.folder, &error);
                tracing::warn!("the store was not closed well: {error}");
            }
        }
    }
}

fn transact<T>(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    run(conn, "BEGIN IMMEDIATE")?;
    let outcome = work(conn).and_then(|done| run(conn, "COMMIT").map(|()| done));
    // Some errors end the transaction by themselves.
    if outcome.is_err()
        && !conn.is_autocommit()
        && let Err(error) = run(conn, "ROLLBACK")
    {
        tracing::warn!("a failed transaction could not be rolled back: {error}");
    }
    outcome
}

fn run(conn: &Connection, statement: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(statement)?.execute([]).map(|_| ())
}
