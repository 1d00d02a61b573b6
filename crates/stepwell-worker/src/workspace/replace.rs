//! Replacing a file's content whole: readers see the old content or the new one, never a part, and
//! so does a restart after a crash.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{Kind, PathError, Place, errno_of, open_listing};

/// Names tried for the temporary file. Taken ones are what a crashed process of the same number
/// left behind, so there are few.
const TEMPORARY_NAMES_MAX: u32 = 100;
/// Permission bits of a file's mode.
const PERMISSIONS: u32 = 0o7777;
/// Set where anybody may write.
const ANY_WRITE: u32 = 0o222;

static TEMPORARY_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Writes `content` to a temporary file beside the place and renames it over the name. The mode
/// and owner of a replaced file are kept, where the process may set them; other hard links to it
/// keep the old content.
///
/// The file and its folder are synced first: the session's log says that the write happened, and
/// that must still be true after a power loss.
pub(crate) fn replace_file(place: &Place, content: &[u8]) -> Result<(), PathError> {
    let Some(name) = place.name.as_deref() else {
        return Err(place.not_a_file(Kind::Folder));
    };
    match place.kind() {
        None => {}
        Some(Kind::File) => check_writable(place)?,
        Some(other) => return Err(place.not_a_file(other)),
    }
    let fail = |reason| place.io("write", reason);
    let mut temporary = Temporary::create(&place.folder).map_err(fail)?;
    temporary.fill(content, place.state.as_ref()).map_err(|error| fail(errno_of(&error)))?;
    temporary.rename(Path::new(name)).map_err(fail)?;
    sync_folder(&place.folder).map_err(|error| fail(errno_of(&error)))
}

/// Renaming would replace a read-only file without asking; that a person took the write bits away
/// is a wish to be heard.
fn check_writable(place: &Place) -> Result<(), PathError> {
    let mode = place.state.as_ref().map_or(ANY_WRITE, |state| state.st_mode & PERMISSIONS);
    if mode & ANY_WRITE == 0 {
        return Err(PathError::ReadOnly { asked: place.asked.clone(), mode });
    }
    Ok(())
}

fn sync_folder(folder: &OwnedFd) -> std::io::Result<()> {
    // The handle that is held may be good for walking only.
    File::from(open_listing(folder, Path::new("."))?).sync_all()
}

/// A temporary file that goes away again unless it was renamed.
struct Temporary<'folder> {
    folder: &'folder OwnedFd,
    name: OsString,
    file: File,
    is_renamed: bool,
}

impl<'folder> Temporary<'folder> {
    fn create(folder: &'folder OwnedFd) -> Result<Self, Errno> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        for _ in 0..TEMPORARY_NAMES_MAX {
            let number = TEMPORARY_NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".stepwell-{}-{number}.tmp", std::process::id()));
            match openat(folder, Path::new(&name), flags, Mode::from_bits_truncate(0o666)) {
                Ok(handle) => {
                    return Ok(Self { folder, name, file: File::from(handle), is_renamed: false });
                }
                Err(Errno::EEXIST) => {}
                Err(reason) => return Err(reason),
            }
        }
        Err(Errno::EEXIST)
    }

    fn fill(&mut self, content: &[u8], replaced: Option<&FileStat>) -> std::io::Result<()> {
        self.file.write_all(content)?;
        if let Some(old) = replaced {
            let own = fstat(&self.file)?;
            if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid) {
                // Only root may give a file away; anybody else's file then is the writer's.
                drop(fchown(&self.file, Some(old.st_uid), Some(old.st_gid)));
            }
            self.file.set_permissions(Permissions::from_mode(old.st_mode & PERMISSIONS))?;
        }
        self.file.sync_all()
    }

    fn rename(&mut self, name: &Path) -> Result<(), Errno> {
        renameat(self.folder, Path::new(&self.name), self.folder, name)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            // What cannot be removed stays; its name says whose it is.
            let _ = unlinkat(self.folder, Path::new(&self.name), UnlinkatFlags::NoRemoveDir);
        }
    }
}
