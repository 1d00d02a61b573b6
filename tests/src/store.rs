//! A look into a store from outside, as with the sqlite3 shell.

use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OpenFlags};

/// A connection that only reads.
pub struct Look {
    connection: Connection,
}

/// Looks into the store of a data folder.
///
/// # Errors
/// When there is none.
pub fn look(data: &Path) -> Result<Look> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(data.join("stepwell.db"), flags)?;
    connection.pragma_update(None, "busy_timeout", 5_000)?;
    Ok(Look { connection })
}

impl Look {
    /// Head of a session's log.
    ///
    /// # Errors
    /// Those of the store.
    pub fn head(&self, session_id: &str) -> Result<u64> {
        let sql = "SELECT head FROM sessions WHERE session_id = ?1";
        let head: i64 = self.connection.query_row(sql, [session_id], |row| row.get(0))?;
        Ok(u64::try_from(head)?)
    }

    /// Types of a session's events, in order.
    ///
    /// # Errors
    /// Those of the store.
    pub fn kinds(&self, session_id: &str) -> Result<Vec<String>> {
        let sql = "SELECT kind FROM events_readable WHERE session_id = ?1 ORDER BY seq";
        let mut statement = self.connection.prepare(sql)?;
        let kinds = statement.query_map([session_id], |row| row.get(0))?;
        Ok(kinds.collect::<rusqlite::Result<_>>()?)
    }

    /// Rows of a table.
    ///
    /// # Errors
    /// Those of the store.
    pub fn rows(&self, table: &str) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM {table}");
        let count: i64 = self.connection.query_row(&sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    }

    /// Events of all sessions together.
    ///
    /// # Errors
    /// Those of the store.
    pub fn events(&self) -> Result<u64> {
        let sql = "SELECT coalesce(max(id), 0) FROM events";
        let count: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    }
}
