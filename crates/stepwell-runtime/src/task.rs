//! The only place where tasks are made: every task belongs to a group that is waited for.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

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
        // Some kilobytes, which would be moved about ten times on their way into a task.
        let future = Box::pin(future);
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = future => {}
            }
        });
    }

    /// Counts as a task that runs, as long as it is kept.
    pub(crate) fn token(&self) -> TaskTrackerToken {
        self.tracker.token()
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
    /// and waits for that. Says how many were dropped. A task that is started later is dropped at
    /// once.
    pub async fn finish(&self, patience: Duration) -> usize {
        self.tracker.close();
        let in_time = tokio::time::timeout(patience, self.tracker.wait()).await.is_ok();
        let left = if in_time { 0 } else { self.tracker.len() };
        self.cancel.cancel();
        self.tracker.wait().await;
        left
    }
}

/// Waits for a span of elapsed time. For retries and the like: a wall clock that is set back must not
/// stretch them. Timers of sessions follow [`stepwell_ports::Clock`] instead.
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}
