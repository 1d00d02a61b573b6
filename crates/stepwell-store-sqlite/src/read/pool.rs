//! The pool of read-only connections: reads that wait at the same time share a transaction.
//!
//! `SQLite` forgets the pages it has read as soon as somebody wrote. After a restart a thousand sessions
//! are read while others are written already; one transaction each would fetch every page anew, though
//! sessions that ran side by side lie on the same pages.
//!
//! Invariant: a transaction begins after every read that it serves was asked for, so whoever was told
//! that a write is durable reads it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction};
use stepwell_ports::StoreError;
use stepwell_ports::retention::{CopyWatcher, StoreCopy};
use tokio::sync::oneshot;

use super::{ReadError, Target, connection};
use crate::copy;
use crate::error::{self, About};
use crate::moment;

/// Connections that read at the same time. Reads are short and mostly from memory, so more than a
/// few only compete for the processor; each holds a cache of its own.
const READERS_MAX: usize = 4;

/// Reads of one transaction, at most.
const BATCH_MAX: usize = 64;

/// How long a transaction goes on with further reads: the log cannot be shortened behind it.
const BATCH_TIME: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Readers {
    folder: PathBuf,
    target: Target,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    /// One for each caller that waits.
    waiting: VecDeque<Box<dyn Read>>,
    /// Threads that serve what waits.
    turns: usize,
    is_closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { idle, waiting, turns, is_closed } = self;
        f.debug_struct("State")
            .field("idle", &idle.len())
            .field("waiting", &waiting.len())
            .field("turns", turns)
            .field("is_closed", is_closed)
            .finish()
    }
}

impl Readers {
    pub(crate) fn new(folder: &Path, target: Target) -> Self {
        Self { folder: folder.to_owned(), target, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` in a read transaction on a blocking thread.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, about: About, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Transaction<'_>) -> Result<T, ReadError> + Send + 'static,
        T: Send + 'static,
    {
        self.run_then(about, work, |found| found).await
    }

    /// The same, and then `then` with what was found, on that thread.
    pub(crate) async fn run_then<T, U, F, G>(
        self: &Arc<Self>,
        about: About,
        work: F,
        then: G,
    ) -> Result<U, StoreError>
    where
        F: FnOnce(&Transaction<'_>) -> Result<T, ReadError> + Send + 'static,
        G: FnOnce(T) -> U + Send + 'static,
        T: Send + 'static,
        U: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let read = Box::new(Pending {
            about,
            work: move |it: &Transaction<'_>| work(it).map(then),
            reply,
        });
        if let Some(turn) = self.enqueue(about, read)? {
            // It ends by itself when nothing waits any more, and every caller waits for its answer.
            drop(tokio::task::spawn_blocking(move || turn.serve()));
        }
        answer.await.map_err(|_| about.failed("the read broke off"))?
    }

    /// Lets a read wait. Gives a turn to serve it, unless enough are served already.
    fn enqueue(
        self: &Arc<Self>,
        about: About,
        read: Box<dyn Read>,
    ) -> Result<Option<Turn>, StoreError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(about.failed("the store was closed"));
        }
        state.waiting.push_back(read);
        if state.turns >= READERS_MAX {
            return Ok(None);
        }
        state.turns += 1;
        Ok(Some(Turn { pool: Arc::clone(self), is_over: false }))
    }

    fn store_error(&self, about: About, error: ReadError) -> StoreError {
        match error {
            ReadError::Sqlite(error) => about.error(&self.folder, &error),
            ReadError::Damaged(reason) => about.corrupt(&self.folder, reason),
            ReadError::Store(error) => error,
        }
    }

    /// Copies the store, with a connection beside the pool: it takes long, and others must read
    /// meanwhile.
    pub(crate) async fn copy(
        self: &Arc<Self>,
        about: About,
        watcher: CopyWatcher,
    ) -> Result<Option<StoreCopy>, StoreError> {
        let pool = Arc::clone(self);
        let work = move || {
            let copied = copy::copy(&pool.folder, &pool.target, &watcher);
            copied.map_err(|error| pool.store_error(about, error))
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| about.failed(&error))?
    }

    fn take(&self) -> rusqlite::Result<Connection> {
        let idle = self.state().idle.pop();
        idle.map_or_else(|| connection(&self.target), Ok)
    }

    fn give_back(&self, conn: Connection) {
        let mut state = self.state();
        // Nobody waits for the connections of a store that was closed.
        if !state.is_closed {
            state.idle.push(conn);
        }
    }

    /// Lets no new read begin and closes what is idle.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.idle.clear();
    }

    /// Serves some reads with one transaction; those that it does not come to wait again.
    fn serve(&self, mut batch: VecDeque<Box<dyn Read>>) {
        let began = self.take().and_then(|conn| {
            let is_sound = self.serve_with(&conn, &mut batch)?;
            Ok((conn, is_sound))
        });
        match began {
            Ok((conn, true)) => self.give_back(conn),
            Ok((_, false)) => {}
            Err(error) => batch.drain(..).for_each(|read| read.refuse(self, &error)),
        }
        let mut state = self.state();
        while let Some(read) = batch.pop_back() {
            state.waiting.push_front(read);
        }
    }

    /// Says whether the connection can be used again. Fails when no transaction can begin.
    fn serve_with(
        &self,
        conn: &Connection,
        batch: &mut VecDeque<Box<dyn Read>>,
    ) -> rusqlite::Result<bool> {
        let transaction = conn.unchecked_transaction()?;
        let began = moment();
        while let Some(read) = batch.pop_front() {
            if !read.run(self, &transaction) {
                return Ok(false);
            }
            if began.elapsed() >= BATCH_TIME {
                break;
            }
        }
        Ok(transaction.finish().is_ok())
    }
}

/// A thread's right to serve what waits. Given up under the same lock under which nothing waits.
struct Turn {
    pool: Arc<Readers>,
    is_over: bool,
}

impl Turn {
    fn serve(mut self) {
        while let Some(batch) = self.next() {
            self.pool.serve(batch);
        }
    }

    fn next(&mut self) -> Option<VecDeque<Box<dyn Read>>> {
        let mut state = self.pool.state();
        let waiting = state.waiting.len();
        if waiting == 0 {
            state.turns -= 1;
            self.is_over = true;
            return None;
        }
        // The others have their share.
        let count = waiting.div_ceil(READERS_MAX).min(BATCH_MAX);
        Some(state.waiting.drain(..count).collect())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The runtime ended before the turn came: nobody may wait for ever.
        let mut state = self.pool.state();
        state.turns -= 1;
        let unserved = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unserved);
    }
}

/// A read that waits, whatever its answer is.
trait Read: Send {
    /// Reads and answers. Says whether the connection is as good as before.
    fn run(self: Box<Self>, pool: &Readers, transaction: &Transaction<'_>) -> bool;

    /// Answers that there is no transaction.
    fn refuse(self: Box<Self>, pool: &Readers, error: &rusqlite::Error);
}

struct Pending<T, F> {
    about: About,
    work: F,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Read for Pending<T, F>
where
    F: FnOnce(&Transaction<'_>) -> Result<T, ReadError> + Send,
    T: Send,
{
    fn run(self: Box<Self>, pool: &Readers, transaction: &Transaction<'_>) -> bool {
        let Self { about, work, reply } = *self;
        if reply.is_closed() {
            return true;
        }
        // A panic costs one read.
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| work(transaction))) else {
            return false;
        };
        let is_sound = match &outcome {
            // Its cache may hold what is damaged.
            Err(ReadError::Sqlite(error)) => !error::breaks_connection(error),
            Err(ReadError::Damaged(_) | ReadError::Store(_)) | Ok(_) => true,
        };
        // Whoever asked may be gone.
        let _ = reply.send(outcome.map_err(|error| pool.store_error(about, error)));
        is_sound
    }

    fn refuse(self: Box<Self>, pool: &Readers, error: &rusqlite::Error) {
        let _ = self.reply.send(Err(self.about.error(&pool.folder, error)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::JoinSet;

    use super::*;

    fn pool() -> (tempfile::TempDir, Arc<Readers>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        let conn = Connection::open(&file).unwrap();
        conn.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (1)",
        )
        .unwrap();
        let pool = Arc::new(Readers::new(folder.path(), Target::Shared(file)));
        (folder, pool)
    }

    fn sum(transaction: &Transaction<'_>) -> Result<i64, ReadError> {
        Ok(transaction.query_row("SELECT sum(n) FROM t", [], |row| row.get(0))?)
    }

    fn about() -> About {
        About::all("read")
    }

    /// Takes every turn with a read that goes on until its gate is opened.
    fn hold(pool: &Arc<Readers>, held: &mut JoinSet<i64>) -> Vec<mpsc::Sender<()>> {
        let (begun, begins) = mpsc::channel();
        let mut gates = Vec::new();
        for _ in 0..READERS_MAX {
            let (open, gate) = mpsc::channel::<()>();
            gates.push(open);
            let (pool, begun) = (pool.clone(), begun.clone());
            held.spawn(async move {
                let work = move |it: &Transaction<'_>| {
                    let seen = sum(it)?;
                    begun.send(()).unwrap();
                    // Closed is as good as opened.
                    let _ = gate.recv();
                    Ok(seen)
                };
                pool.run(about(), work).await.unwrap()
            });
        }
        for _ in 0..READERS_MAX {
            begins.recv().unwrap();
        }
        gates
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reads_that_waited_see_what_was_written_before_them() {
        let (folder, pool) = pool();
        let (mut held, mut waiting) = (JoinSet::new(), JoinSet::new());
        let gates = hold(&pool, &mut held);
        let writer = Connection::open(folder.path().join("a.db")).unwrap();
        writer.execute("INSERT INTO t VALUES (2)", []).unwrap();
        for _ in 0..3 * BATCH_MAX {
            let pool = pool.clone();
            waiting.spawn(async move { pool.run(about(), sum).await.unwrap() });
        }
        drop(gates);
        assert_eq!(held.join_all().await, [1; READERS_MAX]);
        assert!(waiting.join_all().await.iter().all(|seen| *seen == 3));
        // A turn ends after its last read was answered.
        while pool.state().turns > 0 {
            tokio::task::yield_now().await;
        }
        let state = pool.state();
        assert_eq!(state.waiting.len(), 0);
        assert!(state.idle.len() <= READERS_MAX, "{state:?}");
    }

    #[tokio::test]
    async fn a_read_that_panics_costs_itself_alone() {
        let (_folder, pool) = pool();
        let broken = pool.run(about(), |_| -> Result<(), ReadError> { panic!("on purpose") });
        let (broken, sound) = tokio::join!(broken, pool.run(about(), sum));
        assert!(broken.unwrap_err().to_string().contains("the read broke off"));
        assert_eq!(sound.unwrap(), 1);
        assert_eq!(pool.run(about(), sum).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_store_that_is_gone_fails_every_read_that_waits() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("none.db");
        let pool = Arc::new(Readers::new(folder.path(), Target::Shared(file)));
        let (a, b) = tokio::join!(pool.run(about(), sum), pool.run(about(), sum));
        assert!(a.is_err() && b.is_err());
        pool.close();
        let error = pool.run(about(), sum).await.unwrap_err();
        assert!(error.to_string().contains("the store was closed"), "{error}");
    }

    #[test]
    fn a_runtime_that_ends_leaves_no_turn_behind() {
        let (_folder, pool) = pool();
        let turn = pool.enqueue(about(), Box::new(Unread)).unwrap();
        drop(turn);
        let state = pool.state();
        assert_eq!((state.turns, state.waiting.len()), (0, 0));
    }

    struct Unread;

    impl Read for Unread {
        fn run(self: Box<Self>, _pool: &Readers, _transaction: &Transaction<'_>) -> bool {
            true
        }

        fn refuse(self: Box<Self>, _pool: &Readers, _error: &rusqlite::Error) {}
    }
}
