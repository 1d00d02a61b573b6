//! Watching a session: its history from a seq on, then everything that follows, each event exactly
//! once and in order.
//!
//! A watch subscribes first, then reads the store page by page, and reads again whenever it is told
//! that the head moved: notices only say *that* something happened, the store says *what*. So nothing
//! can fall between the pages and the notices, and nothing comes twice.
//!
//! Invariant: what a slow reader has not taken is bounded in bytes. The session never waits for a
//! reader.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stepwell_core::{Seq, SessionId, Status as SessionStatus};
use stepwell_ports::{SessionInfo, StoredEvent};
use stepwell_runtime::{LiveChunk, LiveChunkKind, Subscription};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::{Code, Status};

use crate::api::Api;
use crate::convert::BadField;
use crate::{payload, status};

/// Events of one read: few, for each may carry payloads.
const PAGE_EVENTS: usize = 128;

/// Items that wait for the reader.
const ITEMS_MAX: usize = 256;

/// Bytes that wait for the reader, one larger item apart.
const BYTES_MAX: usize = 256 * 1024;

/// Watches at the same time: all their readers together may be slow, and 1 GiB is enough for them.
const WATCHES_MAX: usize = 4_096;

/// How often a watch looks at the store without a notice: sessions of other server processes and
/// quarantines give none.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What a watcher wants.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WatchOptions {
    /// The last seq that it has.
    pub(crate) after: Seq,
    /// Leave out live pieces.
    pub(crate) events_only: bool,
    /// Put payloads back into events.
    pub(crate) whole_payloads: bool,
}

/// What a watcher is given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WatchItem {
    /// The next event.
    Event(StoredEvent),
    /// A live piece.
    Chunk(LiveChunk),
    /// Everything that was stored when the watch began was given.
    CaughtUp(Seq),
    /// The session is over and everything was given. Always the last item.
    Ended {
        /// How it ended.
        status: SessionStatus,
        /// Its last event.
        head: Seq,
    },
}

impl WatchItem {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.body.len(),
            Self::Chunk(chunk) => chunk.text.len(),
            Self::CaughtUp(_) | Self::Ended { .. } => 0,
        }
    }
}

/// The reader's end of a watch. Dropping it ends the watch.
pub(crate) struct Watch {
    items: mpsc::Receiver<(WatchItem, OwnedSemaphorePermit)>,
    end: Arc<OnceLock<Status>>,
    is_over: bool,
}

impl Watch {
    /// The next item; `None` at the end. An error is the last item. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Result<WatchItem, Status>> {
        if self.is_over {
            return None;
        }
        if let Some((item, _room)) = self.items.recv().await {
            return Some(Ok(item));
        }
        self.is_over = true;
        self.end.get().cloned().map(Err)
    }
}

/// Begins to watch.
///
/// # Errors
/// `NOT_FOUND`, `INVALID_ARGUMENT` for a seq that does not exist yet (waiting for it in silence would
/// hide that the caller has mixed up sessions), and `RESOURCE_EXHAUSTED` for too many watches.
pub(crate) async fn begin(
    api: &Arc<Api>,
    session_id: SessionId,
    options: WatchOptions,
) -> Result<Watch, Status> {
    if api.watches.len() >= WATCHES_MAX {
        let text = format!("{WATCHES_MAX} watches run already: end some, or page with ListEvents");
        return Err(Status::resource_exhausted(text));
    }
    // Before anything is read, so that no notice is missed.
    let subscription = api.engine.subscribe(session_id);
    let info = api.session_info(session_id).await?;
    expect_seq(&info, options.after)?;
    let (items, reader) = mpsc::channel(ITEMS_MAX);
    let room = Arc::new(Semaphore::new(BYTES_MAX));
    let end = Arc::new(OnceLock::new());
    let api_of_task = api.clone();
    let end_of_task = end.clone();
    api.watches.spawn(async move {
        let shutdown = api_of_task.shutdown.clone();
        let closed = items.clone();
        let mut follower = Follower {
            api: api_of_task,
            session_id,
            options,
            after: options.after,
            is_caught_up: false,
            subscription,
            items,
            room,
        };
        let result = tokio::select! {
            biased;
            () = shutdown.cancelled() => Err(going_down()),
            () = closed.closed() => Ok(()),
            result = follower.follow() => result,
        };
        if let Err(status) = result {
            // Set once: this task is the only writer.
            let _ = end_of_task.set(why_it_ended(session_id, follower.after, &status));
        }
    });
    Ok(Watch { items: reader, end, is_over: false })
}

/// Refuses a seq that the session does not have.
pub(crate) fn expect_seq(info: &SessionInfo, after: Seq) -> Result<(), Status> {
    let head = info.row.head_seq;
    if after <= head {
        return Ok(());
    }
    let problem = format!(
        "is {after}, but the head of session {} is {head}: ask for events after a seq that you \
         were given, or after 0 for all",
        info.row.session_id
    );
    Err(BadField::new("after_seq", problem).into())
}

/// The last words to a reader.
fn why_it_ended(session_id: SessionId, after: Seq, status: &Status) -> Status {
    if status.code() == Code::NotFound {
        let text = format!("session {session_id} was deleted: there is nothing more to watch");
        return Status::not_found(text);
    }
    let text = format!("{}: watch again after seq {after}", status.message());
    Status::new(status.code(), text)
}

fn going_down() -> Status {
    Status::unavailable("the server is shutting down")
}

/// The writer's end of a watch.
struct Follower {
    api: Arc<Api>,
    session_id: SessionId,
    options: WatchOptions,
    /// Seq of the last event that was given.
    after: Seq,
    is_caught_up: bool,
    subscription: Subscription,
    items: mpsc::Sender<(WatchItem, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
}

impl Follower {
    /// Gives everything until the session is over or the reader is gone.
    async fn follow(&mut self) -> Result<(), Status> {
        loop {
            self.give_stored().await?;
            let info = self.api.session_info(self.session_id).await?;
            if info.row.head_seq > self.after {
                continue;
            }
            if !self.is_caught_up {
                self.is_caught_up = true;
                self.give(WatchItem::CaughtUp(self.after)).await?;
                self.give_backlog(&info).await?;
            }
            if info.row.status.is_final() {
                let status = info.row.status;
                return self.give(WatchItem::Ended { status, head: self.after }).await;
            }
            self.wait().await?;
        }
    }

    /// Gives every event up to the head of now.
    async fn give_stored(&mut self) -> Result<(), Status> {
        loop {
            let store = self.api.engine.store().clone();
            let page = store.read(self.session_id, self.after, PAGE_EVENTS).await;
            let page = page.map_err(|error| status::store(&error))?;
            if page.events.is_empty() {
                return Ok(());
            }
            for event in page.events {
                let seq = event.seq;
                let event = if self.options.whole_payloads {
                    let whole = payload::whole(&*store, event).await;
                    whole.map_err(|error| status::store(&error))?
                } else {
                    event
                };
                self.give(WatchItem::Event(event)).await?;
                self.after = seq;
            }
            if self.after >= page.head {
                return Ok(());
            }
        }
    }

    /// Gives the pieces that came while the history was read, less those of what it says is over.
    async fn give_backlog(&mut self, info: &SessionInfo) -> Result<(), Status> {
        while let Some(chunk) = self.waiting_chunk() {
            let belongs = match chunk.kind {
                LiveChunkKind::Output => SessionStatus::ExecutingTools,
                LiveChunkKind::Content | LiveChunkKind::Reasoning | LiveChunkKind::Reset => {
                    SessionStatus::Thinking
                }
            };
            if info.row.status == belongs && info.row.step == chunk.step {
                self.give(WatchItem::Chunk(chunk)).await?;
            }
        }
        Ok(())
    }

    /// A piece that is there already.
    fn waiting_chunk(&mut self) -> Option<LiveChunk> {
        use tokio::sync::broadcast::error::TryRecvError;
        if self.options.events_only {
            return None;
        }
        loop {
            match self.subscription.chunks.try_recv() {
                Ok(chunk) => return Some(chunk),
                // What was lost is in the finished event.
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    /// Gives live pieces until there may be more events.
    async fn wait(&mut self) -> Result<(), Status> {
        loop {
            let wants_chunks = !self.options.events_only;
            tokio::select! {
                biased;
                changed = self.subscription.head.changed() => {
                    if changed.is_err() {
                        // Not reachable while the subscription is held; looking at the store now
                        // and then is right in any case.
                        tokio::time::sleep(LOOK_EVERY).await;
                    }
                    // Pieces came before the event that holds the whole.
                    while let Some(chunk) = self.waiting_chunk() {
                        self.give(WatchItem::Chunk(chunk)).await?;
                    }
                    return Ok(());
                }
                chunk = self.subscription.chunks.recv(), if wants_chunks => match chunk {
                    Ok(chunk) => self.give(WatchItem::Chunk(chunk)).await?,
                    // What was lost is in the finished event.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = tokio::time::sleep(LOOK_EVERY) => return Ok(()),
            }
        }
    }

    /// Gives one item, when there is room for it soon enough.
    async fn give(&self, item: WatchItem) -> Result<(), Status> {
        let bytes = item.bytes().clamp(1, BYTES_MAX) as u32;
        let limit = self.api.options.slow_reader;
        let place = within(limit, self.room.clone().acquire_many_owned(bytes)).await?;
        // The semaphore is never closed; a reader that is gone ends the watch elsewhere.
        let Ok(place) = place else { return Ok(()) };
        let _ = within(limit, self.items.send((item, place))).await?;
        Ok(())
    }
}

/// The reader took too long.
async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, Status> {
    tokio::time::timeout(limit, future).await.map_err(|_| {
        let seconds = limit.as_secs_f32();
        Status::resource_exhausted(format!("the reader took nothing for {seconds} s"))
    })
}
