//! The data folder: where it may lie, and the lock that one process holds on it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use stepwell_core::TimestampMs;

use crate::options::OpenError;

/// Name of the database in the data folder.
const DATABASE: &str = "stepwell.db";

/// Name of the lock file. It stays when the process ends: removing it would let two processes lock
/// two files of that name.
const LOCK: &str = "stepwell.lock";

/// How much of a lock file is read: two short lines.
const LOCK_BYTES_MAX: u64 = 512;

/// File systems on which locks or shared memory of several machines are not sure, by their number
/// in `statfs(2)`.
const NETWORK_KINDS: &[(u32, &str)] = &[
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xfe53_4d42, "SMB2"),
    (0xff53_4d42, "CIFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x786f_4256, "VirtualBox shared folder"),
];

/// The database file of a data folder.
pub(crate) fn database(folder: &Path) -> PathBuf {
    folder.join(DATABASE)
}

/// Makes the folder and those above it, for its owner only: prompts and tool outputs are private.
pub(crate) fn create(folder: &Path) -> Result<(), OpenError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| OpenError::folder(folder, &error))
}

/// Gives a finished file its name, and makes that durable.
pub(crate) fn give_name(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    let folder = to.parent().unwrap_or_else(|| Path::new("."));
    // Without it a crash could bring the old name back.
    File::open(folder)?.sync_all()
}

/// Makes a file for its owner only, if there is none: a database has the rights of the file that it
/// finds, and gives them to its log. When that fails, opening it says why.
pub(crate) fn make_private(file: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // It is there already, or the database cannot be made either.
    let _ = options.open(file);
}

/// A file as it was when it was opened. One that was removed since can be written as long as it is
/// open, and all of that is gone when the process ends.
#[derive(Debug)]
pub(crate) struct Known {
    file: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Known {
    pub(crate) fn new(file: PathBuf) -> Self {
        let identity = identity(&file);
        Self { file, identity }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Whether its name still leads to it. One system call.
    pub(crate) fn is_in_place(&self) -> bool {
        identity(&self.file) == self.identity
    }
}

#[cfg(unix)]
fn identity(file: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(file).ok().map(|it| (it.dev(), it.ino()))
}

/// Systems that do not let an open file be removed.
#[cfg(not(unix))]
fn identity(_file: &Path) -> Option<(u64, u64)> {
    None
}

/// Number of the file system of a path that exists.
#[cfg(target_os = "linux")]
pub(crate) fn file_system(path: &Path) -> io::Result<u32> {
    // The numbers have 32 bits; the type that holds them differs between C libraries.
    Ok(nix::sys::statfs::statfs(path)?.filesystem_type().0 as u32)
}

/// Number of the file system of a path that exists: not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn file_system(_path: &Path) -> io::Result<u32> {
    Ok(0)
}

/// Refuses a folder on a network file system. `probe` tells the number of a file system.
pub(crate) fn check_file_system(
    folder: &Path,
    is_allowed: bool,
    probe: impl Fn(&Path) -> io::Result<u32>,
) -> Result<(), OpenError> {
    // The folder may not exist yet; what exists above it lies on the same file system.
    let existing = folder.ancestors().find(|it| it.exists()).unwrap_or_else(|| Path::new("."));
    let number = probe(existing).map_err(|error| OpenError::folder(existing, &error))?;
    match NETWORK_KINDS.iter().find(|(it, _)| *it == number) {
        Some((_, kind)) if is_allowed => {
            tracing::warn!(
                "{} lies on a network file system ({kind}): it is safe only while no other machine \
                 uses it",
                folder.display()
            );
            Ok(())
        }
        Some((_, kind)) => Err(OpenError::NetworkFileSystem { folder: folder.to_owned(), kind }),
        None => Ok(()),
    }
}

/// The right of one process to write in a data folder; given back when it is dropped, and by the
/// system when the process ends in any way.
#[derive(Debug)]
pub(crate) struct FolderLock {
    file: File,
}

impl FolderLock {
    pub(crate) fn take(folder: &Path, opened_at: TimestampMs) -> Result<Self, OpenError> {
        let path = folder.join(LOCK);
        let failed = |error: io::Error| OpenError::folder(&path, &error);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = describe_holder(file);
                return Err(OpenError::InUse { folder: folder.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let text = format!("process {}\nsince {}\n", std::process::id(), time_text(opened_at));
        file.set_len(0).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(Self { file })
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is being started holds the handle until its exec.
        if let Err(error) = self.file.unlock() {
            tracing::debug!("the lock of the data folder was not given back: {error}");
        }
    }
}

/// What the holder of the lock wrote about itself, on one line.
fn describe_holder(file: File) -> String {
    let mut text = String::new();
    // What cannot be read is not needed to refuse.
    let _ = file.take(LOCK_BYTES_MAX).read_to_string(&mut text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    if lines.is_empty() { "another process".to_owned() } else { lines.join(" ") }
}

fn time_text(time: TimestampMs) -> String {
    let ms = i64::try_from(time.0).ok();
    let timestamp = ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    timestamp.map_or_else(|| time.to_string(), |it| it.to_string())
}

/// Why nothing can be written in the folder, found by writing: SQLite's codes do not always tell.
pub(crate) fn why_unwritable(folder: &Path) -> Option<io::Error> {
    /// One block, so that a file system that keeps tiny files in its inodes cannot hide.
    const PROBE_BYTES: usize = 4096;
    let path = folder.join("stepwell.probe");
    let write = || {
        let mut file = File::create(&path)?;
        file.write_all(&[0; PROBE_BYTES])?;
        file.sync_all()
    };
    let outcome = write();
    // It was made only to be tried.
    let _ = std::fs::remove_file(&path);
    outcome.err()
}
