//! Where traces go.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::send::Collector;
use super::wire::Request;
use crate::args::ExportArgs;
use crate::commands::target::Target;
use crate::out::Out;

/// What stands in front of the host in an address.
const SCHEME_END: &str = "://";

/// A file or stdout, or a collector.
pub(super) enum Sink {
    Target { target: Target, place: String },
    Collector(Collector),
}

impl Sink {
    /// What `place` names: an address, a file, or `-` for stdout.
    pub(super) fn open(out: Out, place: &str, args: &ExportArgs) -> anyhow::Result<Self> {
        if place.contains(SCHEME_END) {
            return Ok(Self::Collector(Collector::new(place, &args.headers, out)?));
        }
        let target = Target::open(Path::new(place), true, args.force)?;
        let place = if place == "-" { "stdout" } else { place };
        Ok(Self::Target { target, place: place.to_owned() })
    }

    /// Its name.
    pub(super) fn place(&self) -> &str {
        match self {
            Self::Target { place, .. } => place,
            Self::Collector(collector) => collector.address(),
        }
    }

    /// Writes or sends a batch.
    pub(super) async fn write(&mut self, request: &Request) -> anyhow::Result<()> {
        let body = serde_json::to_string(request).context("a span cannot be written as JSON")?;
        match self {
            Self::Target { target, place } => {
                writeln!(target, "{body}").with_context(|| format!("cannot write {place}"))
            }
            Self::Collector(collector) => collector.send(body).await,
        }
    }

    /// All was written.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Target { target, .. } => target.finish(),
            Self::Collector(_) => Ok(()),
        }
    }
}
