//! A workspace folder, and paths that cannot leave it.
//!
//! A path is walked one name at a time on open folder handles: no name is ever opened through a
//! symbolic link, links are read and their targets walked the same way, and `..` goes back to a
//! handle that is held, never to what `..` means on disk. This is what `openat2` with
//! `RESOLVE_BENEATH` does, and unlike it works on every kernel and inside containers that forbid
//! that call, accepts absolute links back into the workspace, and can say which link it was.
//!
//! Invariant: whatever other processes do to names and links meanwhile, no handle that comes out
//! of here was opened outside of the workspace folder. The one thing left: a folder that another
//! process moves out of the workspace while a handle on it is held takes that handle with it.

mod error;
mod locate;
mod replace;
mod walk;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag};

pub(crate) use error::{PathError, errno_of};
pub(crate) use locate::{OnMissing, Place};
pub(crate) use replace::replace_file;
pub(crate) use walk::{Entry, Traversal, Tree};

/// The largest file that tools hold in memory: far above any source file, small enough that a few
/// calls side by side do not hurt.
pub(crate) const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// An open workspace folder.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// As it was given; absolute paths in arguments may begin with it.
    given: PathBuf,
    /// Without links; absolute paths and links may begin with it.
    root: PathBuf,
    folder: Arc<OwnedFd>,
}

/// What a name stands for, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

impl Kind {
    fn of_mode(mode: u32) -> Self {
        let format = SFlag::from_bits_truncate(mode) & SFlag::S_IFMT;
        match format {
            SFlag::S_IFREG => Self::File,
            SFlag::S_IFDIR => Self::Folder,
            SFlag::S_IFLNK => Self::Link,
            _ => Self::Special,
        }
    }
}

impl Workspace {
    /// Opens the folder. Links in the folder's own path are the operator's choice and are followed.
    pub(crate) fn open(root: &Path) -> Result<Self, PathError> {
        let fail = |reason| PathError::NoWorkspace { root: root.to_owned(), reason };
        let real = std::fs::canonicalize(root).map_err(|error| fail(errno_of(&error)))?;
        let flags = folder_flags() | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = open(&real, flags, Mode::empty()).map_err(fail)?;
        Ok(Self { given: root.to_owned(), root: real, folder: Arc::new(folder) })
    }

    /// Finds the place that `path` names; see the module's doc.
    pub(crate) fn locate(&self, path: &str, missing: OnMissing) -> Result<Place, PathError> {
        locate::locate(self, path, missing)
    }

    /// The workspace's own path without links.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The rest of an absolute path that is written as one into this workspace.
    fn strip_root<'path>(&self, path: &'path Path) -> Option<&'path Path> {
        path.strip_prefix(&self.root).or_else(|_| path.strip_prefix(&self.given)).ok()
    }
}

/// How folders are opened to walk on from them. On Linux this needs no permission to list them.
#[cfg(target_os = "linux")]
fn folder_flags() -> OFlag {
    OFlag::O_PATH
}

/// How folders are opened to walk on from them.
#[cfg(not(target_os = "linux"))]
fn folder_flags() -> OFlag {
    OFlag::O_RDONLY
}

/// Opens the folder of this name for walking on; never through a link.
fn open_folder(parent: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = folder_flags() | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    nix::fcntl::openat(parent, name, flags, Mode::empty())
}

/// Opens the folder of this name for listing; never through a link.
fn open_listing(parent: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    nix::fcntl::openat(parent, name, flags, Mode::empty())
}
