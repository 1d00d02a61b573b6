//! The only place where tasks are made: every task belongs to a group that is waited for.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A group of tasks that end together.
#[derive(Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl Tasks {
    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task in the group. It is dropped at an await point when the group is cancelled.
    pub fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = future => {}
            }
        });
    }

    /// Tasks that run now.
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether no task runs.
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits up to `patience` for the tasks to end by themselves, then drops those that are left
    /// and waits for that. Says how many were dropped.
    pub async fn finish(&self, patience: Duration) -> usize {
        self.tracker.close();
        if tokio::time::timeout(patience, self.tracker.wait()).await.is_ok() {
            return 0;
        }
        let left = self.tracker.len();
        self.cancel.cancel();
        self.tracker.wait().await;
        left
    }
}
