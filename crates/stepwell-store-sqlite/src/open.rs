//! Opening: checks first, then the lock, then the database.

use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::copy;
use crate::error::About;
use crate::folder::{self, FolderLock};
use crate::options::{OpenError, SqliteOptions};
use crate::read::{self, Target};
use crate::schema::{self, Found, PAGE_BYTES};
use crate::write::{self, KEPT_LOG_BYTES};

/// How long the writer waits for somebody who writes by hand (the sqlite3 shell), in milliseconds.
const BUSY_TIMEOUT_MS: i32 = 10_000;

/// Pages that the writer keeps, in KiB: the hot ends of the tables and their indexes.
const CACHE_KIB: i32 = 4_096;

/// Statements that stay prepared.
const STATEMENTS_MAX: usize = 64;

/// A store that was opened for writing.
pub(crate) struct Opened {
    pub(crate) lock: FolderLock,
    pub(crate) conn: Connection,
}

/// Opens for writing; makes what is missing.
pub(crate) fn for_writing(folder: &Path, options: &SqliteOptions) -> Result<Opened, OpenError> {
    let is_allowed = options.allow_network_file_system;
    folder::check_file_system(folder, is_allowed, folder::file_system)?;
    folder::create(folder)?;
    let lock = FolderLock::take(folder, options.opened_at)?;
    // Only the holder of the lock makes copies.
    copy::remove_left(folder);
    let file = folder::database(folder);
    let about = About::all("open");
    let failed = |error: rusqlite::Error| about.error(folder, &error);
    if file.exists() {
        check_found(folder, &file, Need::Writing)?;
        report_unclean_end(&file);
    } else {
        make(&file).map_err(failed)?;
        folder::give_name(&new_of(&file), &file)
            .map_err(|error| OpenError::folder(folder, &error))?;
    }
    let mut conn = write_connection(&file).map_err(failed)?;
    schema::migrate(&mut conn).map_err(failed)?;
    write::forget_imports(&conn).map_err(failed)?;
    Ok(Opened { lock, conn })
}

/// Makes a store under another name, so that one is there whole or not at all: an empty file is then
/// never one that was about to be made.
fn make(file: &Path) -> rusqlite::Result<()> {
    let new = new_of(file);
    for end in ["", "-wal", "-shm", "-journal"] {
        // What a process left that was killed here before; opening says what is wrong with the rest.
        let _ = std::fs::remove_file(beside(&new, end));
    }
    let mut conn = write_connection(&new)?;
    schema::migrate(&mut conn)?;
    // One file that needs no log beside it.
    conn.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    conn.close().map_err(|(_, error)| error)
}

/// How a store is called while it is made.
fn new_of(file: &Path) -> PathBuf {
    beside(file, ".new")
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Finds out how to read a store that exists; makes nothing.
pub(crate) fn for_reading(folder: &Path) -> Result<Target, OpenError> {
    let file = folder::database(folder);
    if !file.exists() {
        return Err(OpenError::NoStore { folder: folder.to_owned() });
    }
    check_found(folder, &file, Need::Reading)
}

/// Who asks, and what that needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Reading,
    Writing,
}

/// Looks at the file through a connection that cannot write, so that a newer release's store is left
/// as it is.
fn check_found(folder: &Path, file: &Path, need: Need) -> Result<Target, OpenError> {
    // SQLite takes it for a new database, and the sessions that were in it would not be missed.
    if std::fs::metadata(file).is_ok_and(|it| it.len() == 0) {
        return Err(OpenError::Emptied { file: file.to_owned() });
    }
    let failed = |error: &rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            OpenError::Foreign { file: file.to_owned(), reason: error.to_string() }
        }
        _ => OpenError::Store(About::all("open").error(folder, error)),
    };
    let shared = Target::Shared(file.to_owned());
    let (target, conn, found) = match look(&shared) {
        Ok((conn, found)) => (shared, conn, found),
        // The log's index cannot be made on a medium that is read-only.
        Err(error) if need == Need::Reading && is_frozen(file, &error) => {
            let frozen = Target::Frozen(file.to_owned());
            let (conn, found) = look(&frozen).map_err(|error| failed(&error))?;
            (frozen, conn, found)
        }
        Err(error) => return Err(failed(&error)),
    };
    let (folder, known) = (folder.to_owned(), schema::newest());
    match found {
        Found::Foreign(reason) => Err(OpenError::Foreign { file: file.to_owned(), reason }),
        Found::Store(version) if version > known => {
            let release = schema::written_by(&conn);
            Err(OpenError::Newer { folder, release, found: version, known })
        }
        Found::Empty if need == Need::Reading => Err(OpenError::NoStore { folder }),
        Found::Store(version) if need == Need::Reading && version < known => {
            Err(OpenError::Older { folder, found: version, known })
        }
        Found::Empty | Found::Store(_) => Ok(target),
    }
}

fn look(target: &Target) -> rusqlite::Result<(Connection, Found)> {
    let conn = read::connection(target)?;
    let found = schema::inspect(&conn)?;
    Ok((conn, found))
}

/// Whether nobody can be writing: the folder is not writable and no log is left to be read.
fn is_frozen(file: &Path, error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    let cannot = matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
    let log = log_bytes(file);
    cannot && log == 0 && file.parent().is_some_and(|it| folder::why_unwritable(it).is_some())
}

/// Bytes of the write-ahead log beside a database.
pub(crate) fn log_bytes(file: &Path) -> u64 {
    std::fs::metadata(beside(file, "-wal")).map_or(0, |it| it.len())
}

/// A store that was closed well has no log. Said once, here: what SQLite finds torn at the log's end
/// was never acknowledged, and is cut off by the next write.
fn report_unclean_end(file: &Path) {
    let bytes = log_bytes(file);
    if bytes > 0 {
        tracing::info!(
            "the last process did not close {}: its log of {bytes} bytes is read back, up to the \
             last commit that is whole",
            file.display()
        );
    }
}

/// Plans depend on the statement alone. Otherwise `SQLite` prepares every statement with a bound
/// `LIMIT` anew each time that it runs, which costs as much as a short read itself.
pub(crate) fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

/// Opens the connection that writes. Its file handles are closed in child processes: `SQLite` opens
/// all its files with `O_CLOEXEC`.
pub(crate) fn write_connection(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    crate::folder::make_private(file);
    let conn = Connection::open_with_flags(file, flags)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    keep_plans(&conn)?;
    conn.pragma_update(None, "busy_timeout", BUSY_TIMEOUT_MS)?;
    // Takes effect on an empty file only, and must come before the journal mode.
    conn.pragma_update(None, "page_size", PAGE_BYTES)?;
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        tracing::warn!("{} has journal mode {mode}, not WAL", file.display());
    }
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // The writer copies the log between commits, when nobody waits.
    conn.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    conn.pragma_update_and_check(None, "journal_size_limit", KEPT_LOG_BYTES, |_| Ok(()))?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "trusted_schema", false)?;
    Ok(conn)
}
