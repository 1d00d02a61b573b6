//! From the codes of SQLite to what a caller can do about them.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::ErrorCode;
use stepwell_core::SessionId;
use stepwell_ports::StoreError;

use crate::folder;

/// What a call of the store was about, for its error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    pub(crate) operation: &'static str,
    pub(crate) session_id: Option<SessionId>,
}

impl About {
    /// A call that is about no session, or about many.
    pub(crate) fn all(operation: &'static str) -> Self {
        Self { operation, session_id: None }
    }

    /// A call that is about one session.
    pub(crate) fn session(operation: &'static str, session_id: SessionId) -> Self {
        Self { operation, session_id: Some(session_id) }
    }

    fn place(self, folder: &Path) -> String {
        match self.session_id {
            Some(session_id) => format!("session {session_id}"),
            None => format!("the store in {}", folder.display()),
        }
    }

    pub(crate) fn corrupt(self, folder: &Path, reason: String) -> StoreError {
        StoreError::Corrupt { place: self.place(folder), reason }
    }

    pub(crate) fn failed(self, reason: &(impl ToString + ?Sized)) -> StoreError {
        StoreError::Failed { operation: self.operation, reason: reason.to_string() }
    }

    /// What an error of SQLite means.
    pub(crate) fn error(self, folder: &Path, error: &rusqlite::Error) -> StoreError {
        let place = folder.display().to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::DiskFull { place },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { place, reason: error.to_string() },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                self.corrupt(folder, error.to_string())
            }
            Some(ErrorCode::SystemIoFailure) if is_short_read(error) => {
                self.corrupt(folder, "the file is shorter than it must be".to_owned())
            }
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
                self.system_error(folder, error)
            }
            None if is_bad_value(error) => self.corrupt(folder, error.to_string()),
            _ => self.failed(error),
        }
    }

    /// SQLite says only that the system refused; the folder is asked why.
    fn system_error(self, folder: &Path, error: &rusqlite::Error) -> StoreError {
        let place = folder.display().to_string();
        let Some(cause) = folder::why_unwritable(folder) else { return self.failed(error) };
        match cause.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::DiskFull { place },
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                StoreError::ReadOnly { place, reason: cause.to_string() }
            }
            _ => self.failed(&format!("{error}: {cause}")),
        }
    }
}

/// The file of a store is not where it was opened.
pub(crate) fn removed(file: &Path) -> rusqlite::Error {
    let name = file.file_name().unwrap_or_default().display();
    let words = format!("its {name} was removed or replaced while it is in use: put it back");
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
    rusqlite::Error::SqliteFailure(code, Some(words))
}

fn is_short_read(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|it| it.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_SHORT_READ)
}

/// A column whose value no release ever wrote.
fn is_bad_value(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// Whether the connection must be opened anew before it is used again: after an error of the system
/// its file handles or its view of the log may be stale.
pub(crate) fn breaks_connection(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::ReadOnly
        )
    )
}
