//! How a store is opened, and why it may not be.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stepwell_core::TimestampMs;
use stepwell_ports::StoreError;

/// How a store is opened for writing.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// Time of opening, for the message that a second server gets.
    pub opened_at: TimestampMs,
    /// Open the store although it lies on a network file system, where locks are not sure.
    pub allow_network_file_system: bool,
}

/// Why a store could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is none, and the caller only reads.
    #[error("there is no store at {}", folder.display())]
    NoStore {
        /// The data folder.
        folder: PathBuf,
    },
    /// Another process writes to it.
    #[error(
        "{} is in use by {holder}: stop that process, or choose another data folder",
        folder.display()
    )]
    InUse {
        /// The data folder.
        folder: PathBuf,
        /// Process and since when, as far as known.
        holder: String,
    },
    /// A newer release wrote it.
    #[error(
        "{} was written by release {release} (schema {found}), this release knows schemas up to \
         {known}: use release {release} or a later one; nothing was changed",
        folder.display()
    )]
    Newer {
        /// The data folder.
        folder: PathBuf,
        /// The release that wrote it last.
        release: String,
        /// Its schema number.
        found: u32,
        /// The newest schema number that this release knows.
        known: u32,
    },
    /// An older release wrote it, and the caller only reads.
    #[error(
        "{} has schema {found}, this release reads schema {known}: start the server once, it \
         brings the store up to date",
        folder.display()
    )]
    Older {
        /// The data folder.
        folder: PathBuf,
        /// Its schema number.
        found: u32,
        /// The schema number of this release.
        known: u32,
    },
    /// The file is there and holds nothing at all, which no store ever does.
    #[error(
        "{} is empty (0 bytes): if sessions were in it, they are lost in this file; restore a \
         backup in its place, or remove the file to begin with an empty store; nothing was changed",
        file.display()
    )]
    Emptied {
        /// The file.
        file: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a store of Stepwell: {reason}", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Locks and shared memory are not sure there.
    #[error(
        "{} lies on a network file system ({kind}), where SQLite can lose data: choose a local \
         folder, or allow it if only this machine ever mounts it",
        folder.display()
    )]
    NetworkFileSystem {
        /// The data folder.
        folder: PathBuf,
        /// Which kind.
        kind: &'static str,
    },
    /// A file stands where the data folder is to be.
    #[error("{} is a file and no folder", place.display())]
    NoFolder {
        /// The file.
        place: PathBuf,
    },
    /// The folder or the lock file could not be used.
    #[error("{} cannot be used: {reason}", place.display())]
    Folder {
        /// File or folder.
        place: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The database could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    pub(crate) fn folder(place: &Path, error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                StoreError::DiskFull { place: place.display().to_string() }.into()
            }
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                let file = place.ancestors().find(|it| it.is_file());
                Self::NoFolder { place: file.unwrap_or(place).to_owned() }
            }
            _ => Self::Folder { place: place.to_owned(), reason: error.to_string() },
        }
    }
}
