//! `StoreService`: a copy of the whole store, streamed.
//!
//! The store is copied into a file first and streamed from there, so that a client that reads slowly
//! holds no read transaction and the log of the store stays short.

use std::fs::File;
use std::io::Read as _;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use stepwell_ports::retention::{CopyProgress, CopyWatcher, StoreCopy};
use stepwell_proto::v1;
use stepwell_proto::v1::backup_response::Item;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::{Request, Response, Status, async_trait};

use super::Api;
use crate::status;

/// Bytes of one piece of the file.
const PIECE_BYTES: usize = 256 * 1024;

/// Items that wait for the client: 2 MiB of data.
const ITEMS_MAX: usize = 8;

/// The right to do something that only one may do at a time.
#[derive(Clone)]
pub(crate) struct OneAtATime(Arc<Semaphore>);

impl Default for OneAtATime {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// The service.
#[derive(Clone)]
pub(crate) struct Backups(pub(crate) Arc<Api>);

type Items = mpsc::Sender<Result<v1::BackupResponse, Status>>;
type Answers = Pin<Box<dyn Stream<Item = Result<v1::BackupResponse, Status>> + Send>>;

#[async_trait]
impl v1::store_service_server::StoreService for Backups {
    type BackupStream = Answers;

    async fn backup(
        &self,
        _: Request<v1::BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        let turn = self.0.backups.0.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted("another backup of this store runs: try again after it")
        })?;
        let (items, mut waiting) = mpsc::channel(ITEMS_MAX);
        let api = self.0.clone();
        self.0.watches.spawn(async move {
            let shutdown = api.shutdown.clone();
            let end = items.clone();
            let outcome = tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    Err(Status::unavailable("the server is shutting down: try again when it is back"))
                }
                () = end.closed() => Ok(()),
                outcome = send_copy(&api, items, turn) => outcome,
            };
            if let Err(status) = outcome {
                tracing::warn!("a backup failed: {}", status.message());
                // A client that is gone does not want to know.
                let _ = end.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(async_stream::stream! {
            while let Some(item) = waiting.recv().await {
                yield item;
            }
        })))
    }
}

async fn send_copy(api: &Api, items: Items, turn: OwnedSemaphorePermit) -> Result<(), Status> {
    let copy = api.engine.store().copy(watcher(items.clone())).await;
    let Some(copy) = copy.map_err(|error| status::store(&error))? else {
        let text = "this store is no file of the server's: use the means of its database";
        return Err(Status::unimplemented(text));
    };
    let sending = tokio::task::spawn_blocking(move || {
        let sent = send_file(copy, &items);
        drop(turn);
        sent
    });
    sending.await.map_err(|error| Status::internal(format!("the backup broke off: {error}")))?
}

/// Passes on how far the copy is, when the client has taken what was said before; ends the copy when
/// the client is gone.
fn watcher(items: Items) -> CopyWatcher {
    Arc::new(move |progress: CopyProgress| {
        let CopyProgress { copied, total } = progress;
        let item = Item::Progress(v1::CopyProgress { copied_bytes: copied, total_bytes: total });
        // A full channel means a slow client, which can do without.
        let _ = items.try_send(Ok(v1::BackupResponse { item: Some(item) }));
        !items.is_closed()
    })
}

/// Sends the file in pieces, as fast as the client takes them; on a blocking thread.
fn send_file(copy: StoreCopy, items: &Items) -> Result<(), Status> {
    let StoreCopy { mut file, bytes } = copy;
    let mut hasher = blake3::Hasher::new();
    let mut left = bytes;
    while left > 0 {
        let piece = read_piece(&mut file, left)?;
        hasher.update(&piece);
        left -= piece.len() as u64;
        let item = Item::Data(piece.into());
        if items.blocking_send(Ok(v1::BackupResponse { item: Some(item) })).is_err() {
            return Ok(());
        }
    }
    let blake3 = hasher.finalize().to_hex().to_string();
    let end = Item::End(v1::BackupEnd { bytes, blake3 });
    // A client that is gone does not want to know.
    let _ = items.blocking_send(Ok(v1::BackupResponse { item: Some(end) }));
    Ok(())
}

fn read_piece(file: &mut File, left: u64) -> Result<Vec<u8>, Status> {
    let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))];
    file.read_exact(&mut piece).map_err(|error| {
        Status::unavailable(format!("the copy of the store cannot be read: {error}; try again"))
    })?;
    Ok(piece)
}
