//! The one writer: a thread that owns the write connection and commits all waiting writes together.
//!
//! Invariant: a write is answered only after its transaction is durable. What fails leaves nothing
//! of itself behind and nothing of its neighbours undone.

mod catalogue;
mod delete;
mod group;
mod import;
mod job;
mod lazy;
mod sessions;
mod sweep;
mod wait;
mod wal;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use stepwell_core::{Seq, SessionId};
use stepwell_ports::{DeleteOnly, Deleted, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::error::About;
pub(crate) use catalogue::{beat, put_agent, put_tools};
pub(crate) use delete::delete;
pub(crate) use group::Writer;
pub(crate) use import::{
    PackedCheckpoint, PackedPage, forget_imports, import_begin, import_drop, import_events,
    import_finish,
};
pub(crate) use job::{Job, Pending};
pub(crate) use lazy::Snapshot;
pub(crate) use sessions::{ClaimDue, Write, append, claim, claim_due, create, quarantine};
pub(crate) use sweep::sweep;
pub(crate) use wal::KEPT_BYTES as KEPT_LOG_BYTES;

/// Writes that may wait for the writer. Callers wait beyond that: the bound keeps a slow disk from
/// filling the memory.
const QUEUE_MAX: usize = 1_024;

/// What the writer thread is sent.
pub(crate) enum Message {
    /// A write whose caller waits.
    Job(Box<dyn Job>),
    /// A cached state that goes along with the next write.
    Snapshot(Snapshot),
}

/// The sending end of the writer. Dropping it lets the writer finish what waits, and waits for it.
#[derive(Debug)]
pub(crate) struct WriterHandle {
    queue: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    /// Something was deleted, and not all of it may be removed yet.
    has_rest: Arc<AtomicBool>,
}

impl WriterHandle {
    /// Starts the thread. `conn` is the write connection, ready for use.
    pub(crate) fn start(folder: &Path, conn: rusqlite::Connection) -> std::io::Result<Self> {
        let (queue, messages) = mpsc::channel(QUEUE_MAX);
        // An earlier process may have left something.
        let has_rest = Arc::new(AtomicBool::new(true));
        let writer = Writer::new(folder.to_owned(), conn, messages, has_rest.clone());
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())?;
        Ok(Self { queue: Some(queue), thread: Some(thread), has_rest })
    }

    /// Runs `work` in the next transaction and returns its answer once that is durable.
    ///
    /// `work` is run again when the group has to be taken apart, so it must depend on nothing but
    /// the database. It refuses (`Ok(Err(..))`) before it writes anything.
    pub(crate) async fn submit<T, E, F>(&self, about: About, work: F) -> Result<T, E>
    where
        F: FnMut(&rusqlite::Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let closed = || E::from(about.failed("the store was closed"));
        let (reply, answer) = oneshot::channel();
        let job = Message::Job(Box::new(Pending::new(about, work, reply)));
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.send(job).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Deletes a session; the writer removes the rest of it by itself.
    pub(crate) async fn delete(
        &self,
        session_id: SessionId,
        only: DeleteOnly,
    ) -> Result<Deleted, StoreError> {
        let has_rest = self.has_rest.clone();
        let work = move |conn: &rusqlite::Connection| {
            // On the writer's own thread: it looks at this only after the transaction.
            has_rest.store(true, Ordering::Relaxed);
            delete(conn, session_id, &only).map(Ok)
        };
        self.submit(About::session("delete", session_id), work).await
    }

    /// Hands a state to the cache. Dropped when the writer has too much to do.
    pub(crate) fn cache(&self, snapshot: Snapshot) {
        if let Some(queue) = &self.queue
            && queue.try_send(Message::Snapshot(snapshot)).is_err()
        {
            tracing::debug!("a snapshot was not cached: the writer is busy or gone");
        }
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer thread ended by a panic");
        }
    }
}

/// Shorthand for what a cached state is stored under.
pub(crate) type SnapshotKey = (SessionId, Seq, u32);
