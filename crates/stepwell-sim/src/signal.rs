//! "Something has changed", told to everyone who waits, in the order in which they began to wait.
//!
//! tokio's `watch` would do, but it wakes its receivers in a random order, and a seed would not be
//! played the same twice.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// See the module.
#[derive(Debug, Default)]
pub struct Signal {
    changes: AtomicU64,
    notify: Notify,
}

impl Signal {
    /// Something has changed.
    pub fn raise(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// How often it has changed. Taken before a look, it says whether the look is still true.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Returns once there was a change after the first `seen` ones. Cancel-safe.
    pub async fn changed_since(&self, seen: u64) {
        loop {
            let mut notified = std::pin::pin!(self.notify.notified());
            notified.as_mut().enable();
            if self.changes() != seen {
                return;
            }
            notified.await;
        }
    }
}
