//! Brings in sessions from exported files.
//!
//! A file is first kept whole in a nameless temporary file, then read, checked and folded on a
//! blocking thread, whose pages go into the store as they come. Nothing is seen before the last byte
//! was found to be right.
//!
//! Invariant: whatever goes wrong, nothing of the file is left, on the disk or in the store.

mod bring;
mod compare;
mod keys;
mod pages;
mod spool;

use std::sync::Arc;

use axum::body::Body;
use stepwell_archive::{ArchiveError, Header, Limits, Reader};
use stepwell_core::{Seq, SessionId};
use stepwell_proto::v1;
use tokio::sync::oneshot;
use tonic::{Status, Streaming};

use self::keys::Allowed;
use crate::api::Api;
use crate::status;

/// Largest file of an import, in bytes, packed or unpacked, when nothing else is said.
pub const IMPORT_BYTES_MAX_DEFAULT: u64 = 8 * 1024 * 1024 * 1024;

/// Imports that run at the same time; each may take disk for a whole file.
pub(crate) const IMPORTS_MAX: usize = 4;

/// A file that is being read.
type FileReader = Reader<std::io::BufReader<std::fs::File>>;

/// What became of an import.
struct Outcome {
    session_id: SessionId,
    is_new: bool,
    events: u64,
    head_hash: String,
    /// It is held; what it asks when it goes on.
    held: Option<Vec<v1::ModelAddress>>,
}

/// What a session comes to.
#[derive(Debug)]
enum Place {
    /// An engine runs here: one that is not over is held by one more event, and keys are sent only
    /// where it is allowed.
    Engine(Allowed),
    /// Nothing here ever runs it: it stays exactly as the file has it.
    Shelf,
}

/// Takes a file and brings its session in.
pub(crate) async fn run(
    api: &Arc<Api>,
    stream: Streaming<v1::ImportSessionRequest>,
) -> Result<v1::ImportSessionResponse, Status> {
    let permit = api.imports.clone().try_acquire_owned().map_err(|_| {
        Status::resource_exhausted(format!(
            "nothing was imported: {IMPORTS_MAX} imports are running; try again when one is over"
        ))
    })?;
    let (spooled, trusts_keys) = spool::take(stream, &api.options).await?;
    let allowed = if trusts_keys { Allowed::All } else { Allowed::here(api).await? };
    let (reply, answer) = oneshot::channel();
    let shared = api.clone();
    // In a task of its own: what is begun is ended or dropped, even when the client goes away.
    api.watches.spawn(async move {
        // A client that is gone does not want to know.
        let _ = reply.send(bring_in(&shared, spooled, Place::Engine(allowed)).await);
        drop(permit);
    });
    let broken = || Status::unavailable("the server is going down; import the file again");
    let outcome = answer.await.map_err(|_| broken())??;
    let info = api.session_info(outcome.session_id).await?;
    Ok(v1::ImportSessionResponse {
        session: Some(api.row_to_wire(info.row)),
        created: outcome.is_new,
        events: outcome.events,
        head_hash: outcome.head_hash,
        held: outcome.held.is_some(),
        models: outcome.held.unwrap_or_default(),
    })
}

/// A file that was read into a store of its own.
pub(crate) struct Viewed {
    pub(crate) session_id: SessionId,
    /// BLAKE3 of the file.
    pub(crate) hash: blake3::Hash,
}

/// Takes a file and reads its session into the store of `view`, which has no other and no engine that
/// runs. The places of imports are those of `api`.
pub(crate) async fn view(
    api: &Arc<Api>,
    view: &Api,
    body: Body,
    name: String,
) -> Result<Viewed, Status> {
    let _permit = api.imports.try_acquire().map_err(|_| {
        Status::resource_exhausted(format!(
            "the file was not opened: {IMPORTS_MAX} files are being read; try again in a moment"
        ))
    })?;
    let spooled = spool::take_body(body, name, &view.options).await.map_err(not_opened)?;
    let hash = spooled.hash;
    let brought = bring_in(view, spooled, Place::Shelf).await;
    let Outcome { session_id, .. } = brought.map_err(not_opened)?;
    Ok(Viewed { session_id, hash })
}

/// Whoever wants to look at a file did not want to import it.
fn not_opened(refused: Status) -> Status {
    match refused.message().strip_prefix("nothing was imported: ") {
        Some(why) => Status::new(refused.code(), format!("the file was not opened: {why}")),
        None => refused,
    }
}

async fn bring_in(api: &Api, spooled: spool::Spooled, place: Place) -> Result<Outcome, Status> {
    let spool::Spooled { file, name, hash: _ } = spooled;
    let limits = Limits { total_bytes: api.options.import_bytes_max, ..Limits::default() };
    let open = move || Reader::open(std::io::BufReader::new(file), limits);
    let reader = on_thread(open).await?.map_err(|error| damaged(&error))?;
    let session_id = check_header(reader.header())?;
    let found = api.engine.store().session(session_id).await;
    match found.map_err(|error| status::store(&error))? {
        Some(info) => compare::run(api, reader, info.row.head_seq).await,
        None => bring::run(api, reader, &name, place).await,
    }
}

fn check_header(header: &Header) -> Result<SessionId, Status> {
    match header.events {
        Some(0) => Err(Status::invalid_argument("the file holds a session without events")),
        Some(_) | None => Ok(header.session_id),
    }
}

/// Runs blocking work; fails only when the work panics.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Status::internal(format!("reading the file broke off: {error}")))
}

/// What is wrong with a file, with its place.
fn damaged(error: &ArchiveError) -> Status {
    let text = format!("nothing was imported: {error}");
    match error {
        ArchiveError::TooLarge { .. } => Status::resource_exhausted(text),
        ArchiveError::Io { .. } => Status::unavailable(text),
        ArchiveError::NewerFormat { .. } | ArchiveError::NewerEvent { .. } => {
            Status::failed_precondition(text)
        }
        ArchiveError::Foreign { .. }
        | ArchiveError::Cut { .. }
        | ArchiveError::BadData { .. }
        | ArchiveError::BadLine { .. }
        | ArchiveError::Missing { .. }
        | ArchiveError::Swapped { .. }
        | ArchiveError::Changed { .. }
        | ArchiveError::BadBlob { .. }
        | ArchiveError::WindowTooLarge { .. }
        | ArchiveError::Trailing { .. } => Status::invalid_argument(text),
    }
}

/// Something else than damage is wrong at a place.
fn refused(line: u64, seq: Seq, reason: &str) -> Status {
    Status::invalid_argument(format!("nothing was imported: line {line} (event {seq}): {reason}"))
}
