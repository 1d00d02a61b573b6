//! Where traces go.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::send::Collector;
use super::wire::Request;
use crate::out::Out;

/// A file, stdout, or a collector.
pub(super) enum Sink {
    Stdout(Out),
    File { path: PathBuf, file: BufWriter<File> },
    Collector(Collector),
}

impl Sink {
    /// The collector if there is one, else the file, else stdout.
    pub(super) fn open(
        out: Out,
        collector: Option<Collector>,
        output: Option<&Path>,
    ) -> anyhow::Result<Self> {
        if let Some(collector) = collector {
            return Ok(Self::Collector(collector));
        }
        let Some(path) = output.filter(|it| it.as_os_str() != "-") else {
            return Ok(Self::Stdout(out));
        };
        let file = File::create(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self::File { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Its name.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Stdout(_) => "stdout".into(),
            Self::File { path, .. } => path.display().to_string(),
            Self::Collector(collector) => collector.address().to_owned(),
        }
    }

    /// Writes or sends a batch.
    pub(super) async fn write(&mut self, request: &Request) -> anyhow::Result<()> {
        let body = serde_json::to_string(request).context("a span cannot be written as JSON")?;
        match self {
            Self::Stdout(out) => out.line(&body),
            Self::File { path, file } => {
                let written = writeln!(file, "{body}").and_then(|()| file.flush());
                written.with_context(|| format!("cannot write {}", path.display()))
            }
            Self::Collector(collector) => collector.send(body).await,
        }
    }
}
