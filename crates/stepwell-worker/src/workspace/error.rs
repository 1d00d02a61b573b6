//! What can be wrong with a path that a model gave. Every message names the path and says what to do.

use std::path::PathBuf;

use nix::errno::Errno;

use crate::tool::ToolError;

/// Why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    #[error(
        "the path is empty; give a path relative to the workspace, `.` is the workspace itself"
    )]
    Empty,
    #[error("the path holds a NUL character, which no file name can; remove it")]
    Nul,
    #[error("the path has {bytes} bytes, more than the {max} a path may have; use a shorter one")]
    TooLong { bytes: usize, max: usize },
    #[error("`{0}`: `~` is not expanded here; give a path relative to the workspace")]
    Tilde(String),
    #[error(
        "`{asked}` is outside of the workspace {root}; give a path relative to the workspace that does not leave it"
    )]
    Outside { asked: String, root: String },
    #[error(
        "`{asked}` goes through the symbolic link `{link}`, which points outside of the workspace (to `{target}`); use a path that stays inside"
    )]
    LinkOutside { asked: String, link: String, target: String },
    #[error(
        "`{asked}` goes through more than {max} symbolic links, probably in a circle; use the path of the file itself"
    )]
    TooManyLinks { asked: String, max: u32 },
    #[error("the workspace folder {} cannot be opened ({}); it may have been removed or renamed: restore it, nothing else is used in its place", root.display(), reason.desc())]
    NoWorkspace { root: PathBuf, reason: Errno },
    #[error("`{asked}`: there is no folder `{at}`; use list_files to see what is there")]
    NoFolder { asked: String, at: String },
    #[error(
        "`{asked}` does not exist in the workspace, which itself is `.`; use list_files to see what is there"
    )]
    Missing { asked: String },
    #[error("`{asked}`: `{at}` is not a folder")]
    NotAFolder { asked: String, at: String },
    #[error("`{asked}` is {what}, not a file; {advice}")]
    NotAFile { asked: String, what: &'static str, advice: &'static str },
    #[error(
        "`{asked}` is read-only (mode {mode:o}); if it really should change, make it writable first"
    )]
    ReadOnly { asked: String, mode: u32 },
    #[error(
        "`{asked}` has {size} bytes, more than the {max} that this tool takes; use the shell tool for it"
    )]
    TooLarge { asked: String, size: u64, max: u64 },
    #[error("cannot {action} `{asked}`: {}", reason.desc())]
    Io { action: &'static str, asked: String, reason: Errno },
}

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        Self::failed(error)
    }
}

/// The system's number of an error of the standard library.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
