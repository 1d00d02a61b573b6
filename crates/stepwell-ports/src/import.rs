//! Bringing in the history of a session from elsewhere: page by page, visible at the end.

use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{Seq, SessionId, TimestampMs};

use crate::store::StoredEvent;

/// A session that is being brought in. Nobody sees it before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Import {
    /// The session that it will be.
    pub session_id: SessionId,
    /// Names it in the store until then.
    pub key: u64,
}

/// A part of a history that is brought in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportPage {
    /// The head that they follow.
    pub after: Seq,
    /// The events as they were stored elsewhere, byte for byte.
    pub events: Vec<StoredEvent>,
    /// Payloads that they need: address (BLAKE3 hex) and bytes.
    pub blobs: Vec<(String, Vec<u8>)>,
    /// Outlines after some of them, for the cache: a store may leave them out.
    pub checkpoints: Vec<Checkpoint>,
}

/// The outline of a session's state after an event, as [`crate::Store::put_checkpoint`] takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The event.
    pub seq: Seq,
    /// Version of the form.
    pub version: u32,
    /// The outline.
    pub state: Vec<u8>,
}

/// What makes a session visible that was brought in whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The list row after its last event.
    pub row: SessionRow,
    /// When it next needs an owner.
    pub wake_at: Option<TimestampMs>,
    /// All its approvals, open and closed.
    pub approvals: Vec<ApprovalRow>,
    /// What was taken out of it before it came; nothing in its events tells that for sure.
    pub redaction: Option<Redaction>,
}

/// Texts were taken out of the first events of a session before it came here, or before the session
/// came whose beginning it shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redaction {
    /// The last event that may have lost something.
    pub last: Seq,
    /// Hash of that event in the chain of the original history, as the file said.
    pub original_head: Option<String>,
}

impl Redaction {
    /// That of a fork that begins with the events up to `last`. It is a session of its own, so there is
    /// no original of it anywhere.
    #[must_use]
    pub fn of_fork(&self, last: Seq) -> Self {
        Self { last: self.last.min(last), original_head: None }
    }
}
