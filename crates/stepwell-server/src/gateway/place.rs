//! A reserved place on a worker, and the wait for one. Dropping either gives back what it has.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Shared;
use super::fleet::Reserved;
use super::worker::WorkerId;

/// A place that is kept free for one call.
pub(super) struct Place {
    shared: Arc<Shared>,
    worker_id: WorkerId,
    tool: String,
    is_spent: bool,
}

impl Place {
    pub(super) fn worker_id(&self) -> WorkerId {
        self.worker_id
    }

    /// The call was sent: the place is the call's now.
    pub(super) fn spend(&mut self) {
        self.is_spent = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_spent {
            self.shared.fleet().give_back(self.worker_id, &self.tool, Instant::now());
        }
    }
}

/// A place in a tool's queue.
struct Waiting<'a> {
    shared: &'a Shared,
    tool: &'a str,
    ticket: u64,
    granted: oneshot::Receiver<WorkerId>,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut fleet = self.shared.fleet();
        // Both under one lock: either it still waits, or its place is on the way.
        if !fleet.leave_queue(self.tool, self.ticket)
            && let Ok(worker_id) = self.granted.try_recv()
        {
            fleet.give_back(worker_id, self.tool, Instant::now());
        }
    }
}

/// Waits for a place for `tool`. Cancel-safe.
pub(super) async fn reserve(shared: &Arc<Shared>, tool: &str) -> Place {
    loop {
        let reserved = shared.fleet().reserve(tool, Instant::now());
        let granted = match reserved {
            Reserved::Now(worker_id) => Some(worker_id),
            Reserved::Later { ticket, granted } => {
                let mut waiting = Waiting { shared, tool, ticket, granted, is_over: false };
                let granted = (&mut waiting.granted).await.ok();
                waiting.is_over = true;
                granted
            }
        };
        if let Some(worker_id) = granted {
            let (shared, tool) = (shared.clone(), tool.to_owned());
            return Place { shared, worker_id, tool, is_spent: false };
        }
    }
}
