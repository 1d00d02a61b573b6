//! A file that appears under its name when it is whole, or stdout.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tempfile::NamedTempFile;

use crate::exit::{ReaderGone, UsageError};

/// Where bytes go.
pub(super) enum Target {
    Stdout(BufWriter<io::Stdout>),
    File(Named),
}

/// A file that has another name beside the one that it will have; removed when it is dropped.
pub(super) struct Named {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
    replaces: bool,
}

impl Target {
    /// `-` is stdout; bytes that no terminal can show are not written to one. A file that is there
    /// is kept, unless it is to be replaced.
    pub(super) fn open(path: &Path, is_text: bool, replaces: bool) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            if !is_text && io::stdout().is_terminal() {
                let problem = "a packed file is not for a terminal: give -o FILE, or send it on \
                               with a pipe";
                return Err(UsageError(problem.to_owned()).into());
            }
            return Ok(Self::Stdout(BufWriter::new(io::stdout())));
        }
        if path.is_dir() {
            bail!("{} is a folder: name a file in it", path.display());
        }
        if !replaces && path.exists() {
            bail!(taken(path));
        }
        if path == Path::new("") {
            return Err(UsageError("the name of the file is empty".to_owned()).into());
        }
        refuse_missing_folder(path)?;
        let file = part_of(path).map_err(without_name);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let (file, path) = (BufWriter::new(file), path.to_owned());
        Ok(Self::File(Named { file, path, replaces }))
    }

    /// Makes the file durable and gives it its name.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(mut stdout) => Ok(stdout.flush()?),
            Self::File(named) => named.finish(),
        }
    }
}

impl Named {
    fn finish(self) -> anyhow::Result<()> {
        let path = &self.path;
        let failed = || format!("cannot write {}", path.display());
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error);
        let file = file.with_context(failed)?;
        file.as_file().sync_all().with_context(failed)?;
        let named = if self.replaces { file.persist(path) } else { file.persist_noclobber(path) };
        match named.map_err(|error| error.error) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(taken(path)),
            Err(error) => Err(without_name(error)).with_context(failed),
        }
    }
}

/// Between the name and the end of a part: what [`tempfile`] puts there.
const RANDOM_CHARS: usize = 6;

/// Tries to make a part that nobody takes for a left one at the same moment.
const PART_TRIES: u32 = 8;

const PART_END: &str = ".part";

/// A file whose name says what it was to become, should this process be killed before it can remove
/// it: `.NAME.XXXXXX.part`, readable by its owner only. It is locked as long as it is open, and those
/// of the same name that nobody holds any more are removed.
pub(super) fn part_of(path: &Path) -> io::Result<NamedTempFile> {
    let folder = folder_of(path);
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    remove_left(folder, &prefix);
    let mut tries = 1;
    loop {
        let part = tempfile::Builder::new().prefix(&prefix).suffix(PART_END).tempfile_in(folder)?;
        // Another process may have taken it for a left one before it was locked.
        let is_ours = match part.as_file().try_lock() {
            Ok(()) => part.path().exists(),
            Err(TryLockError::WouldBlock) => false,
            // A file system without locks: there nothing is removed either.
            Err(TryLockError::Error(_)) => true,
        };
        if is_ours || tries >= PART_TRIES {
            return Ok(part);
        }
        tries += 1;
    }
}

/// The folder in which a file stands.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    }
}

/// Removes the parts that killed processes left. What cannot be looked at stays.
fn remove_left(folder: &Path, prefix: &OsStr) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_file = entry.file_type().is_ok_and(|it| it.is_file());
        if !is_file || !is_part(&entry.file_name(), prefix) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        // Whoever still writes it holds the lock.
        if file.try_lock().is_ok() {
            // One that stays is found again next time.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_part(name: &OsStr, prefix: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    let random = rest.and_then(|it| it.strip_suffix(PART_END.as_bytes()));
    random.is_some_and(|it| it.len() == RANDOM_CHARS && it.iter().all(u8::is_ascii_alphanumeric))
}

/// A folder is not made unasked: the name may be a mistake.
pub(super) fn refuse_missing_folder(path: &Path) -> anyhow::Result<()> {
    let folder = folder_of(path);
    if folder.exists() {
        return Ok(());
    }
    let (path, folder) = (path.display(), folder.display());
    bail!("cannot write {path}: there is no folder {folder}; make it first: mkdir -p {folder}")
}

fn taken(path: &Path) -> String {
    format!("{} is there already: choose another name, or replace it with --force", path.display())
}

/// The error without the name of the file that stands for the wanted one: nobody asked for that.
fn without_name(error: io::Error) -> anyhow::Error {
    let words = error.to_string();
    match words.split_once(" at path ") {
        Some((words, _)) => anyhow::Error::msg(words.to_owned()),
        None => error.into(),
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(named) => named.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(named) => named.file.flush(),
        }
    }
}

/// A reader of stdout that went away is no error.
pub(super) fn reader_gone(error: anyhow::Error) -> anyhow::Error {
    let is_gone = error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
    });
    if is_gone { ReaderGone.into() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(done: anyhow::Result<Target>) -> String {
        match done {
            Ok(_) => panic!("it opened"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn a_file_that_is_there_is_kept_unless_it_is_to_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stepwell");
        let write = |replaces: bool, text: &str| {
            let mut target = Target::open(&path, true, replaces)?;
            target.write_all(text.as_bytes())?;
            target.finish()
        };
        write(false, "old").unwrap();
        let error = write(false, "new").unwrap_err().to_string();
        assert!(error.contains("a.stepwell is there already") && error.contains("--force"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        write(true, "new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_came_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stepwell");
        let target = Target::open(&path, true, false).unwrap();
        std::fs::write(&path, "theirs").unwrap();
        assert!(target.finish().unwrap_err().to_string().contains("is there already"));
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
    }

    #[test]
    fn a_folder_is_no_place_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = error_of(Target::open(folder.path(), true, true));
        assert!(error.ends_with("is a folder: name a file in it"), "{error}");
    }

    #[test]
    fn what_a_killed_process_leaves_says_what_it_was_to_become() {
        let folder = tempfile::tempdir().unwrap();
        let _target = Target::open(&folder.path().join("a.stepwell"), true, false).unwrap();
        let left = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let name = left.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(".a.stepwell."), "{name}");
        assert_eq!(left.extension().unwrap(), "part");
    }

    #[test]
    fn parts_that_nobody_holds_go_with_the_next_write_of_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let others =
            [".a.stepwell.AbC12.part", ".a.stepwell.AbC12_.part", ".b.stepwell.AbC123.part"];
        for name in others.iter().chain(&[".a.stepwell.AbC123.part"]) {
            std::fs::write(at(name), "left").unwrap();
        }
        let written = Target::open(&at("a.stepwell"), true, false).unwrap();
        assert!(!at(".a.stepwell.AbC123.part").exists());
        assert!(others.iter().all(|name| at(name).exists()));
        let parts = || std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(parts(), others.len() + 1);
        // What is being written is not taken for left.
        let second = Target::open(&at("a.stepwell"), true, false).unwrap();
        assert_eq!(parts(), others.len() + 2);
        drop(second);
        written.finish().unwrap();
        assert!(at("a.stepwell").exists());
    }

    #[test]
    fn an_error_names_the_wanted_file_only() {
        let error = error_of(Target::open(Path::new("/proc/a.stepwell"), true, false));
        assert!(error.starts_with("cannot write /proc/a.stepwell: "), "{error}");
        assert!(!error.contains(".part"), "{error}");
    }

    #[test]
    fn a_name_that_cannot_be_one_says_what_is_missing() {
        let error = error_of(Target::open(Path::new("/nowhere/at/a.stepwell"), true, false));
        assert!(error.ends_with("make it first: mkdir -p /nowhere/at"), "{error}");
        let error = error_of(Target::open(Path::new(""), true, false));
        assert_eq!(error, "the name of the file is empty");
    }
}
