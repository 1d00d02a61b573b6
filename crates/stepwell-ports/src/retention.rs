//! Deleting sessions, and copying a store: what both are asked and what they answer.

use std::fs::File;
use std::sync::Arc;

use stepwell_core::summary::SessionRow;
use stepwell_core::{Status, TimestampMs};

/// What a session must be like to be deleted. The store compares it with the session's row in the
/// transaction that deletes, so that what changed since somebody looked is left alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOnly {
    /// Any of these; empty for all.
    pub statuses: Vec<Status>,
    /// Its last update was before this time.
    pub updated_before: Option<TimestampMs>,
}

impl DeleteOnly {
    /// Whether a session like that may go.
    pub fn fits(&self, status: Status, updated_at: TimestampMs) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&status))
            && self.updated_before.is_none_or(|before| updated_at < before)
    }

    /// Whether the session of this row may go.
    pub fn fits_row(&self, row: &SessionRow) -> bool {
        self.fits(row.status, row.updated_at)
    }
}

/// What became of the wish to delete a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone: nothing reads, claims or writes to it any more.
    Yes,
    /// There is no such session.
    NotFound,
    /// It is not what it must be to be deleted, and was left alone.
    Kept {
        /// Its status.
        status: Status,
        /// Its last update.
        updated_at: TimestampMs,
    },
}

/// What a session takes in the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionSize {
    /// Events.
    pub events: u64,
    /// Bytes of their contents and of the payloads that no other session refers to, as they are
    /// stored.
    pub bytes: u64,
}

/// What one piece of work on the rest of deleted sessions did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Events that were removed.
    pub events: u64,
    /// Payloads that were removed, because nobody refers to them any more.
    pub payloads: u64,
    /// Nothing is left to do.
    pub is_done: bool,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Bytes that were copied.
    pub copied: u64,
    /// Bytes that there are.
    pub total: u64,
}

/// Is told how far a copy is; an answer of `false` ends the copy.
pub type CopyWatcher = Arc<dyn Fn(CopyProgress) -> bool + Send + Sync>;

/// A consistent copy of a whole store, in a file without a name: it is gone when it is closed.
#[derive(Debug)]
pub struct StoreCopy {
    /// The file, at its beginning.
    pub file: File,
    /// Its size.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_must_have_one_of_the_statuses_and_be_old_enough() {
        let only = DeleteOnly {
            statuses: vec![Status::Completed, Status::Failed],
            updated_before: Some(TimestampMs(10)),
        };
        assert!(only.fits(Status::Failed, TimestampMs(9)));
        assert!(!only.fits(Status::Failed, TimestampMs(10)), "at the time is not before it");
        assert!(!only.fits(Status::Thinking, TimestampMs(9)));
        assert!(DeleteOnly::default().fits(Status::Thinking, TimestampMs(u64::MAX)));
    }
}
