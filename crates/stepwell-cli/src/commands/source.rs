//! Where a recorded session comes from: a server, or an exported file.
//!
//! Whatever only reads takes either. A file is brought into a store in memory, with the server's own
//! API in front of it in this process: so every command sees it as it sees a served session.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use stepwell_archive::{Item, Limits, Reader};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::{ImportPage, Redaction, Store as _};
use stepwell_runtime::import::ImportFold;
use stepwell_server::ServerOptions;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::client::Client;
use crate::serve::idle;

/// Unpacked bytes of a file that is read into memory, at most.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Names stdin in place of a file.
const STDIN: &str = "-";

/// Events that are handed over at once.
const PAGE_EVENTS: usize = 500;

/// Bytes on their way inside the process.
const PIPE_BYTES: usize = 256 * 1024;

/// One recorded session that was not read yet.
#[derive(Debug, Clone)]
pub(super) enum Source {
    File(PathBuf),
    Session(String),
}

impl Source {
    /// What a person named. The id of a session has no dot and no slash; `-` is a file from stdin.
    pub(super) fn of(what: &str) -> Self {
        if what == STDIN || what.contains(['.', '/']) {
            Self::File(PathBuf::from(what))
        } else {
            Self::Session(what.to_owned())
        }
    }

    /// Whether it lies in a file.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// What to call it before its id is known.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Session(id) => id.clone(),
        }
    }
}

/// Opens an exported file.
pub(super) fn open_file(path: &Path, limits: Limits) -> anyhow::Result<Reader<BufReader<File>>> {
    Reader::open(BufReader::new(open(path)?), limits).with_context(|| path.display().to_string())
}

/// A file of which nothing was read yet; `-` is stdin.
pub(super) fn open(path: &Path) -> anyhow::Result<File> {
    let opened = if path == Path::new(STDIN) {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::open(path)
    };
    opened.with_context(|| format!("cannot open {}", path.display()))
}

/// A session that can be asked about.
pub(super) struct Opened {
    /// Who answers.
    pub(super) client: Client,
    /// The session's id, as far as it is known.
    pub(super) id: String,
    /// It lies in a file: nothing moves it.
    pub(super) is_file: bool,
    /// The server of a file, as long as it is needed.
    _server: JoinSet<()>,
}

impl Context {
    /// The session that a person named, by id or by file.
    pub(super) async fn open(&self, what: &str) -> anyhow::Result<Opened> {
        match Source::of(what) {
            Source::Session(id) => {
                let client = self.client().await?;
                Ok(Opened { client, id, is_file: false, _server: JoinSet::new() })
            }
            Source::File(path) => serve_file(path).await,
        }
    }
}

async fn serve_file(path: PathBuf) -> anyhow::Result<Opened> {
    let store = Arc::new(MemoryStore::default());
    let id = fill(&store, path).await?;
    let services = idle(store, None);
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let mut server = JoinSet::new();
    let stop = CancellationToken::new();
    let serving = stepwell_server::serve_within(far, services, ServerOptions::default(), stop);
    // It fails only when its client is gone.
    server.spawn(async move { drop(serving.await) });
    let client = Client::within(near).await?;
    Ok(Opened { client, id, is_file: true, _server: server })
}

/// Brings the session of a file in, exactly as it is there. Gives its id.
async fn fill(store: &MemoryStore, path: PathBuf) -> anyhow::Result<String> {
    let shown = path.display().to_string();
    let read = tokio::task::spawn_blocking(move || read_whole(&path)).await?;
    let (fold, pages, redaction) = read?;
    let session_id = fold.session_id();
    let import = store.import_begin(session_id).await?;
    for page in pages {
        store.import_events(import, page).await?;
    }
    let imported = fold.finish(redaction).with_context(|| format!("{shown} holds no event"))?;
    store.import_finish(import, imported).await?;
    Ok(session_id.to_string())
}

type Whole = (ImportFold, Vec<ImportPage>, Option<Redaction>);

fn read_whole(path: &Path) -> anyhow::Result<Whole> {
    let limits = Limits { total_bytes: FILE_BYTES_MAX, ..Limits::default() };
    let mut reader = open_file(path, limits)?;
    let shown = || path.display().to_string();
    let mut fold = ImportFold::new(reader.header().session_id);
    let (mut pages, mut page) = (Vec::new(), ImportPage::default());
    while let Some(item) = reader.next_item().with_context(shown)? {
        let Item { line, event, stored, blobs, .. } = item;
        fold.take(&event).with_context(|| format!("{}: line {line}", shown()))?;
        let seq = stored.seq;
        page.events.push(stored);
        page.blobs.extend(blobs);
        if page.events.len() >= PAGE_EVENTS {
            let next = ImportPage { after: seq, ..ImportPage::default() };
            pages.push(std::mem::replace(&mut page, next));
        }
    }
    if !page.events.is_empty() {
        pages.push(page);
    }
    Ok((fold, pages, reader.redaction()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_neither_dot_nor_slash() {
        for file in ["a.stepwell", "./a", "/tmp/a", "x.jsonl", "-"] {
            assert!(matches!(Source::of(file), Source::File(_)), "{file}");
        }
        for id in ["01KYS8", "01KYS8D3V0QXG6N9T7W2B4C5E6", "a-b"] {
            assert!(matches!(Source::of(id), Source::Session(_)), "{id}");
        }
    }
}
