//! The short names of sessions that were written to lately.
//!
//! Invariant: what stands here is a hint. Whoever uses it has the database compare it with the
//! session's id, so a wrong one costs time only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stepwell_core::SessionId;

/// Names that are kept: some more than sessions are in memory. When there are more, all are dropped.
const NAMES_MAX: usize = 8_192;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Mutex<HashMap<SessionId, i64>>,
}

impl Names {
    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, i64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may be the short name of a session.
    pub(crate) fn get(&self, session_id: SessionId) -> Option<i64> {
        self.known().get(&session_id).copied()
    }

    /// Keeps one.
    pub(crate) fn keep(&self, session_id: SessionId, key: i64) {
        let mut known = self.known();
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        known.insert(session_id, key);
    }
}
