//! A copy of the whole store in use.
//!
//! One read transaction, so the copy is the store at one moment; the pages are copied in small steps,
//! between which whoever wants the copy may end it. Meanwhile the writer goes on, and its log grows by
//! what it writes, for it cannot begin anew before the reader is done.
//!
//! The copy has no name: it is gone when it is closed, or when the process ends in any way.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use stepwell_ports::retention::{CopyProgress, CopyWatcher, StoreCopy};

use crate::read::{self, ReadError, Target};
use crate::{check, folder};

/// Pages of one step: 4 MiB.
const STEP_PAGES: i32 = 256;

/// How the file of a copy is called while it is made.
const PREFIX: &str = "stepwell.backup-";
const SUFFIX: &str = ".tmp";

/// Copies the store of a folder. `None` when the watcher ended it. Blocks for as long as it takes.
pub(crate) fn copy(
    folder: &Path,
    source: &Target,
    watcher: &CopyWatcher,
) -> Result<Option<StoreCopy>, ReadError> {
    let named = Named(folder.join(format!("{PREFIX}{}{SUFFIX}", std::process::id())));
    named.remove();
    folder::make_private(&named.0);
    let mut conn = open_copy(&named.0)?;
    if !copy_pages(&read::connection(source)?, &mut conn, watcher)? {
        return Ok(None);
    }
    check(&conn)?;
    // One file that needs no log beside it, wherever it is opened.
    conn.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    conn.close().map_err(|(_, error)| error)?;
    let file = named.open().map_err(|error| failed(&named.0, &error))?;
    let bytes = file.metadata().map_err(|error| failed(&named.0, &error))?.len();
    Ok(Some(StoreCopy { file, bytes }))
}

/// Removes what a killed process left of a copy.
pub(crate) fn remove_left(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_left = name.to_str().is_some_and(|it| it.starts_with(PREFIX) && it.contains(SUFFIX));
        if is_left && let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::warn!("{} is left of a backup and stays: {error}", entry.path().display());
        }
    }
}

/// The file of a copy, as long as it has a name.
struct Named(PathBuf);

impl Named {
    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).open(&self.0)
    }

    fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("{} of a backup stays: {error}", self.0.display());
        }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.remove();
    }
}

fn open_copy(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    // Nobody needs it after a crash.
    conn.pragma_update(None, "synchronous", "OFF")?;
    Ok(conn)
}

/// Copies all pages; says no when the watcher ended it.
fn copy_pages(
    source: &Connection,
    copy: &mut Connection,
    watcher: &CopyWatcher,
) -> rusqlite::Result<bool> {
    // Held from here on: without it each write would make the copy begin anew.
    let moment = source.unchecked_transaction()?;
    moment.query_row("SELECT count(*) FROM store_info", [], |_| Ok(()))?;
    let page_bytes: u32 = moment.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let bytes = |pages: i32| u64::try_from(pages).unwrap_or(0) * u64::from(page_bytes);
    let backup = Backup::new(&moment, copy)?;
    loop {
        let step = backup.step(STEP_PAGES)?;
        let at = backup.progress();
        let copied = bytes(at.pagecount.saturating_sub(at.remaining));
        if !watcher(CopyProgress { copied, total: bytes(at.pagecount) }) {
            return Ok(false);
        }
        if step == StepResult::Done {
            return Ok(true);
        }
    }
}

/// A backup that cannot be read is found now and not when it is needed.
fn check(copy: &Connection) -> Result<(), ReadError> {
    match check::contradiction(copy)? {
        None => Ok(()),
        Some(found) => Err(ReadError::Damaged(format!(
            "no backup is made, for the file is damaged ({found}): stop the server and copy the \
             folder as it is"
        ))),
    }
}

fn failed(file: &Path, error: &io::Error) -> ReadError {
    let reason = format!("{}: {error}", file.display());
    ReadError::Store(stepwell_ports::StoreError::Failed { operation: "backup", reason })
}
