//! Reads: a bounded pool of read-only connections, used on blocking threads.
//!
//! Invariant: no read transaction lives longer than one call, so the log can always be shortened. A
//! call is short, but for a copy of the whole store.

mod catalogue;
mod events;
mod lists;
mod size;
mod wake;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags, Transaction};
use stepwell_ports::StoreError;
use stepwell_ports::retention::{CopyWatcher, StoreCopy};
use tokio::sync::Semaphore;

pub(crate) use catalogue::{agent, agent_record, agents, nodes, tools};
pub(crate) use events::{blob, checkpoint, events, keyed, session, snapshot};
pub(crate) use lists::{approvals, sessions};
pub(crate) use size::size;
pub(crate) use wake::{BEFORE_ALL, DUE_BUSY, DUE_PARKED, due, next_wake};
#[cfg(test)]
pub(crate) use {
    lists::{Walk, walks},
    wake::{NEXT_BUSY, NEXT_PARKED},
};

use crate::copy;
use crate::error::{self, About};

/// Connections that read at the same time. Reads are short and mostly from memory, so more than a
/// few only compete for the processor; each holds a cache of its own.
const READERS_MAX: usize = 4;

/// Pages that a reader keeps, in KiB; the system's own cache lies behind it. Sessions that ran side by
/// side share pages: after a restart one after the other is read, and finds most pages here.
const CACHE_KIB: i32 = 2_048;

/// How long a reader waits when the log is being recovered by another process, in milliseconds.
const BUSY_TIMEOUT_MS: i32 = 5_000;

/// Why a read gave nothing: SQLite failed, or what it gave cannot be.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// Not mapped yet: the caller knows what was read.
    Sqlite(rusqlite::Error),
    /// What is stored contradicts itself.
    Damaged(String),
    /// Anything that is an error of the port already.
    Store(StoreError),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Readers {
    folder: PathBuf,
    target: Target,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

/// How the file is opened.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// As a part of a store in use.
    Shared(PathBuf),
    /// As a file that nobody can change: on a medium where not even the log's index can be made.
    Frozen(PathBuf),
}

impl Readers {
    pub(crate) fn new(folder: &Path, target: Target) -> Self {
        Self {
            folder: folder.to_owned(),
            target,
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(READERS_MAX)),
        }
    }

    /// Runs `work` in a read transaction on a blocking thread.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, about: About, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Transaction<'_>) -> Result<T, ReadError> + Send + 'static,
        T: Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| about.failed("the store was closed"))?;
        let pool = Arc::clone(self);
        let read = move || {
            let outcome = pool.read(about, work);
            drop(permit);
            outcome
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| about.failed(&error))?
    }

    fn read<T>(
        &self,
        about: About,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        let conn = self.take().map_err(|error| about.error(&self.folder, &error))?;
        let outcome = transact(&conn, work);
        match &outcome {
            // Its cache may hold what is damaged.
            Err(ReadError::Sqlite(error)) if error::breaks_connection(error) => {}
            Ok(_) | Err(_) => self.give_back(conn),
        }
        outcome.map_err(|error| self.store_error(about, error))
    }

    fn store_error(&self, about: About, error: ReadError) -> StoreError {
        match error {
            ReadError::Sqlite(error) => about.error(&self.folder, &error),
            ReadError::Damaged(reason) => about.corrupt(&self.folder, reason),
            ReadError::Store(error) => error,
        }
    }

    /// Copies the store, with a connection beside the pool: it takes long, and others must read
    /// meanwhile.
    pub(crate) async fn copy(
        self: &Arc<Self>,
        about: About,
        watcher: CopyWatcher,
    ) -> Result<Option<StoreCopy>, StoreError> {
        let pool = Arc::clone(self);
        let work = move || {
            let copied = copy::copy(&pool.folder, &pool.target, &watcher);
            copied.map_err(|error| pool.store_error(about, error))
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| about.failed(&error))?
    }

    fn take(&self) -> rusqlite::Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| connection(&self.target), Ok)
    }

    fn give_back(&self, conn: Connection) {
        // Nobody waits for the connections of a store that was closed.
        if !self.permits.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
    }

    /// Lets no new read begin and closes what is idle.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn transact<T>(
    conn: &Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let transaction = conn.unchecked_transaction()?;
    let found = work(&transaction)?;
    transaction.finish()?;
    Ok(found)
}

/// Opens a connection that cannot write.
pub(crate) fn connection(target: &Target) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = match target {
        Target::Shared(file) => Connection::open_with_flags(file, flags)?,
        Target::Frozen(file) => {
            Connection::open_with_flags(frozen_uri(file), flags | OpenFlags::SQLITE_OPEN_URI)?
        }
    };
    conn.set_prepared_statement_cache_capacity(64);
    conn.pragma_update(None, "busy_timeout", BUSY_TIMEOUT_MS)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "trusted_schema", false)?;
    Ok(conn)
}

fn frozen_uri(file: &Path) -> String {
    let path = file.to_string_lossy();
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}?immutable=1")
}
