//! A file that appears under its name when it is whole, or stdout.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use crate::exit::{ReaderGone, UsageError};

/// Where bytes go.
pub(super) enum Target {
    Stdout(BufWriter<io::Stdout>),
    /// A file of another name beside the one that it will be; removed when it is dropped.
    File(BufWriter<NamedTempFile>, PathBuf),
}

impl Target {
    /// `-` is stdout; bytes that no terminal can show are not written to one.
    pub(super) fn open(path: &Path, is_text: bool) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            if !is_text && io::stdout().is_terminal() {
                let problem = "a packed file is not for a terminal: give -o FILE, or send it on \
                               with a pipe";
                return Err(UsageError(problem.to_owned()).into());
            }
            return Ok(Self::Stdout(BufWriter::new(io::stdout())));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            Some(_) | None => Path::new("."),
        };
        let file = NamedTempFile::new_in(folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(Self::File(BufWriter::new(file), path.to_owned()))
    }

    /// Makes the file durable and gives it its name.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(mut stdout) => Ok(stdout.flush()?),
            Self::File(file, path) => {
                let shown = path.display();
                let file = file.into_inner().map_err(io::IntoInnerError::into_error);
                let file = file.with_context(|| format!("cannot write {shown}"))?;
                file.as_file().sync_all().with_context(|| format!("cannot write {shown}"))?;
                file.persist(&path).with_context(|| format!("cannot make {shown}"))?;
                Ok(())
            }
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(file, _) => file.flush(),
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
