//! What people are shown of a worker.

use stepwell_core::TimestampMs;

use super::worker::Worker;

/// A connected worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Its name.
    pub name: String,
    /// Its process.
    pub instance: String,
    /// The tools that it offers, by name.
    pub tools: Vec<String>,
    /// Calls that run there now, those that were given up included.
    pub running_calls: u32,
    /// Calls that it runs at the same time.
    pub capacity: u32,
    /// When this connection was made.
    pub connected_at: TimestampMs,
    /// The last sign of life.
    pub seen_at: TimestampMs,
    /// It takes no more calls.
    pub is_draining: bool,
}

impl WorkerInfo {
    pub(super) fn of(worker: &Worker) -> Self {
        Self {
            name: worker.name.clone(),
            instance: worker.instance.clone(),
            tools: worker.offers.keys().cloned().collect(),
            running_calls: worker.calls.len() as u32,
            capacity: worker.capacity,
            connected_at: worker.connected_at,
            seen_at: worker.seen.wall,
            is_draining: worker.is_draining,
        }
    }
}
