//! Span trees and event strips of the sessions that somebody looks at, kept up from the store.
//!
//! A tree is computed from the events when it is asked for and grows with what was appended since.
//! Nothing of it is stored and the write path knows nothing of it (docs/adr/0003). The least recently
//! used ones go when there are too many or they are too large together.

mod grow;
pub(crate) mod marks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::spans::SpanIndex;
use stepwell_core::{Seq, SessionId};
use stepwell_ports::{Store, StoreError};
use tokio::sync::{OwnedMutexGuard, Semaphore};

use self::marks::Marks;

/// Trees that are kept.
const TREES_MAX: usize = 64;

/// Bytes of all kept trees together. One that is larger alone is computed for each call.
const TREES_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Trees that are read at the same time when more than a page of events is missing: what is being
/// read is in memory whatever the limits above say.
const LONG_READS_MAX: usize = 2;

/// Which tree of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    /// The one that follows the head.
    Head,
    /// The one that walks through the past. It only grows: a step back reads from the start.
    Past,
}

/// A tree and how far it was read.
#[derive(Debug, Default)]
struct Tree {
    index: SpanIndex,
    marks: Marks,
    /// The last event that was taken.
    at: Seq,
    /// The event after `at` cannot be read, nor anything after it.
    is_cut: bool,
}

/// A tree that is kept. Whoever works with it has the lock, so that it is read once.
#[derive(Debug, Default)]
struct Kept {
    tree: Arc<tokio::sync::Mutex<Tree>>,
    bytes: usize,
    used: u64,
}

#[derive(Debug, Default)]
struct Trees {
    kept: BTreeMap<(SessionId, Which), Kept>,
    uses: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SpanCache {
    trees: Mutex<Trees>,
    long_reads: Semaphore,
    trees_max: usize,
    bytes_max: usize,
}

impl Default for SpanCache {
    fn default() -> Self {
        Self::with_limits(TREES_MAX, TREES_BYTES_MAX)
    }
}

/// A tree as somebody asked for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) session_id: SessionId,
    /// Head of the session.
    pub(crate) head: Seq,
    /// The last event to take, or all.
    pub(crate) at: Option<Seq>,
}

impl SpanCache {
    fn with_limits(trees_max: usize, bytes_max: usize) -> Self {
        Self {
            trees: Mutex::default(),
            long_reads: Semaphore::new(LONG_READS_MAX),
            trees_max,
            bytes_max,
        }
    }

    /// Calls `look` with the tree and the seq of the last event that it was computed from.
    ///
    /// # Errors
    /// The store's. What was read before stays.
    pub(crate) async fn look<T>(
        &self,
        store: &dyn Store,
        asked: Asked,
        look: impl FnOnce(&SpanIndex, Seq) -> T,
    ) -> Result<T, StoreError> {
        self.look_at_all(store, asked, |index, _, at| look(index, at)).await
    }

    /// As [`Self::look`], with the strip.
    ///
    /// # Errors
    /// The store's. What was read before stays.
    pub(crate) async fn look_at_all<T>(
        &self,
        store: &dyn Store,
        asked: Asked,
        look: impl FnOnce(&SpanIndex, &Marks, Seq) -> T,
    ) -> Result<T, StoreError> {
        let until = asked.at.unwrap_or(asked.head);
        let (which, mut tree) = self.take(asked, until).await;
        let done = grow::grow(store, asked.session_id, &mut tree, until, &self.long_reads).await;
        self.weigh((asked.session_id, which), tree.index.bytes() + tree.marks.bytes());
        done?;
        Ok(look(&tree.index, &tree.marks, tree.at))
    }

    /// A tree that is not beyond `until`, or the one of the head when that was asked for.
    async fn take(&self, asked: Asked, until: Seq) -> (Which, OwnedMutexGuard<Tree>) {
        // The tree of the head serves its past as long as nothing was appended since.
        if until == asked.head {
            let tree = self.get((asked.session_id, Which::Head)).lock_owned().await;
            if tree.at <= until || asked.at.is_none() {
                return (Which::Head, tree);
            }
        }
        let mut tree = self.get((asked.session_id, Which::Past)).lock_owned().await;
        if tree.at > until {
            *tree = Tree::default();
        }
        (Which::Past, tree)
    }

    /// The tree, a new one if there is none.
    fn get(&self, key: (SessionId, Which)) -> Arc<tokio::sync::Mutex<Tree>> {
        let mut trees = self.lock();
        trees.uses += 1;
        let used = trees.uses;
        let kept = trees.kept.entry(key).or_default();
        kept.used = used;
        kept.tree.clone()
    }

    /// Notes what a tree takes, and lets go of others, or of itself, until all fit.
    fn weigh(&self, key: (SessionId, Which), bytes: usize) {
        let mut trees = self.lock();
        if let Some(kept) = trees.kept.get_mut(&key) {
            kept.bytes = bytes;
        }
        let is_too_much = |trees: &Trees| {
            trees.kept.len() > self.trees_max
                || trees.kept.values().map(|kept| kept.bytes).sum::<usize>() > self.bytes_max
        };
        while is_too_much(&trees) {
            let oldest = trees.kept.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { break };
            trees.kept.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Trees> {
        // Only numbers and pointers are changed under the lock: they are right whatever panicked.
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
