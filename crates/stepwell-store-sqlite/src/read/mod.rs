//! Reads: queries, and a bounded pool of read-only connections for them, used on blocking threads.
//!
//! Invariant: no read transaction outlives the calls that it serves, so the log can always be
//! shortened. All are short, but for a copy of the whole store.

mod catalogue;
mod events;
mod lists;
mod pool;
mod size;
mod wake;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use stepwell_ports::StoreError;

pub(crate) use catalogue::{agent, agent_record, agents, nodes, tools};
pub(crate) use events::{blob, checkpoint, events, keyed, session, snapshot};
pub(crate) use lists::{approvals, sessions};
pub(crate) use pool::Readers;
pub(crate) use size::size;
pub(crate) use wake::{BEFORE_ALL, DUE_BUSY, DUE_PARKED, due, next_wake};
#[cfg(test)]
pub(crate) use {
    lists::{Walk, walks},
    wake::{NEXT_BUSY, NEXT_PARKED},
};

use crate::open::keep_plans;

/// Pages that a reader keeps, in KiB; the system's own cache lies behind it.
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

/// How the file is opened.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// As a part of a store in use.
    Shared(PathBuf),
    /// As a file that nobody can change: on a medium where not even the log's index can be made.
    Frozen(PathBuf),
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
    keep_plans(&conn)?;
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
