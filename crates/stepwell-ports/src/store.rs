//! The event store: one write path, keyset reads, leases by fence.
//!
//! Invariant: a store compares fences and sequence numbers; it never looks at a clock and never
//! decides anything about a session.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use stepwell_core::event::Event;
use stepwell_core::state::ForkedFrom;
use stepwell_core::summary::{ApprovalRow, ApprovalStatus, SessionRow};
use stepwell_core::{Fence, Seq, SessionId, Status, TimestampMs};

use crate::import::{Import, ImportPage, Imported, Redaction};
use crate::retention::{CopyWatcher, DeleteOnly, Deleted, SessionSize, StoreCopy, Swept};

/// Events of one append, at most. A decision is far smaller; the bound keeps a transaction short.
pub const APPEND_EVENTS_MAX: usize = 4_096;

/// Rows of one page, at most.
pub const PAGE_ROWS_MAX: usize = 1_000;

/// Nodes whose last sign of life is kept, the latest ones. Each server process is a new node.
pub const NODES_KEPT: usize = 1_000;

/// Right to write to one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The session.
    pub session_id: SessionId,
    /// The fence that goes with it.
    pub fence: Fence,
}

/// One atomic write to one session.
#[derive(Debug, Clone)]
pub struct Append {
    /// The head that the events follow.
    pub expected: Seq,
    /// Events with consecutive seqs from `expected + 1`; their payloads are whole.
    pub events: Vec<Event>,
    /// The list row after them.
    pub row: SessionRow,
    /// When the session next needs an owner: 0 when it has work now (its owner holds it in memory;
    /// after a crash the next one finds it so), the time of its next timer, `None` when only an
    /// input can move it.
    pub wake_at: Option<TimestampMs>,
    /// Approvals that were opened or closed; whole rows, replaced by their ids.
    pub approvals: Vec<ApprovalRow>,
    /// Payloads that belong to the events but are not part of them (whole tool outputs):
    /// address (BLAKE3 hex) and bytes.
    pub blobs: Vec<(String, Vec<u8>)>,
}

/// A session that does not exist yet. `append.expected` is 0, or where its beginning ends.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its id.
    pub session_id: SessionId,
    /// The client's key: the same key gives the same session, for ever.
    pub client_key: Option<String>,
    /// BLAKE3 of the client's request, to notice a key that is used for something else.
    pub request_digest: String,
    /// The node that will own it.
    pub owner: String,
    /// The session whose first events it begins with, and the last of them. They are copied, so that
    /// neither depends on the other. Cost: O(those events), in the one transaction of the create.
    pub beginning: Option<ForkedFrom>,
    /// Its first own events.
    pub append: Append,
}

/// What became of a create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It was created; the claim is the creator's.
    New(Claim),
    /// The client's key was used before for the same request.
    Existing(SessionId),
    /// The client's key was used before for another request.
    KeyTaken(SessionId),
    /// The client's key was used before for the same request, and its session was deleted since. The
    /// key keeps that for ever, so that a request that is repeated late does not run again.
    Deleted(SessionId),
}

impl Created {
    /// What a create with a used key is told.
    pub fn of_key(keyed: &Keyed, request_digest: &str) -> Self {
        let session_id = keyed.session_id;
        if keyed.request_digest != request_digest {
            Self::KeyTaken(session_id)
        } else if keyed.is_deleted {
            Self::Deleted(session_id)
        } else {
            Self::Existing(session_id)
        }
    }
}

/// What a client's key was used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    /// The session.
    pub session_id: SessionId,
    /// BLAKE3 of the request that created it.
    pub request_digest: String,
    /// The session was deleted.
    pub is_deleted: bool,
}

/// An event as it is stored: not decoded, so that one bad event does not hide the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Place.
    pub seq: Seq,
    /// Time.
    pub time: TimestampMs,
    /// Input that caused it.
    pub cause: Seq,
    /// Actor's text.
    pub actor: String,
    /// Type name.
    pub kind: String,
    /// Schema number.
    pub schema: u16,
    /// JSON of the content. Payloads above the inline limit are blob references.
    pub body: String,
}

/// Events of one read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPage {
    /// In order.
    pub events: Vec<StoredEvent>,
    /// Head of the session when they were read.
    pub head: Seq,
}

/// What the store knows about a session beside its events.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// The list row.
    pub row: SessionRow,
    /// Node that owns it; empty for nobody.
    pub owner: String,
    /// Its current fence.
    pub fence: Fence,
    /// When it next needs an owner.
    pub wake_at: Option<TimestampMs>,
    /// What was taken out of it before it came here.
    pub redaction: Option<Redaction>,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Any of these; empty for all.
    pub statuses: Vec<Status>,
    /// Exact agent name.
    pub agent: Option<String>,
    /// Labels that must all be there.
    pub labels: Vec<(String, String)>,
    /// Prefix of the id, upper case.
    pub id_prefix: Option<String>,
    /// Text that title must contain, any case.
    pub text: Option<String>,
    /// Only forks of this session.
    pub parent: Option<SessionId>,
    /// Only those whose last update was before this time.
    pub updated_before: Option<TimestampMs>,
}

/// One page of a list, newest update first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListPage<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Pass this to get the next page; `None` at the end.
    pub next_page: Option<String>,
}

/// Which approvals to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Any of these; empty for all.
    pub statuses: Vec<ApprovalStatus>,
    /// Of one session.
    pub session_id: Option<SessionId>,
}

/// A stored agent definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRecord {
    /// Name.
    pub name: String,
    /// Version, from 1; given by the store.
    pub version: u32,
    /// The definition as its author wrote it (TOML).
    pub definition: String,
    /// When it was stored.
    pub created_at: TimestampMs,
}

/// A tool that some worker registered; kept so that sessions can be created while it is away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRecord {
    /// Name.
    pub name: String,
    /// JSON of [`stepwell_core::ToolSpec`].
    pub spec: String,
    /// Worker that registered it last.
    pub worker: String,
    /// When it was registered last.
    pub seen_at: TimestampMs,
}

/// A server process that owns sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its name, new for each process.
    pub node: String,
    /// Its last sign of life.
    pub seen_at: TimestampMs,
}

/// Why an append was not done.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Someone appended first: re-read, decide again.
    #[error("session {session_id} is at seq {actual}, not at {expected}")]
    Conflict {
        /// The session.
        session_id: SessionId,
        /// The head that the writer believed in.
        expected: Seq,
        /// The true head.
        actual: Seq,
    },
    /// The session changed hands: stop, do not retry.
    #[error("fence {held} on session {session_id} is stale, the current one is {current}")]
    Fenced {
        /// The session.
        session_id: SessionId,
        /// The writer's fence.
        held: Fence,
        /// The current fence.
        current: Fence,
    },
    /// There is no such session.
    #[error("there is no session {session_id}")]
    NotFound {
        /// The session.
        session_id: SessionId,
    },
    /// The append itself is malformed: a bug of the caller, nothing was written.
    #[error("append to session {session_id} refused: {reason}")]
    Malformed {
        /// The session.
        session_id: SessionId,
        /// What is wrong.
        reason: String,
    },
    /// **Outcome unknown**: re-read before any retry.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// The store could not do its work.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No room; goes on when there is some.
    #[error("the disk that holds {place} is full: free some space, the work goes on by itself")]
    DiskFull {
        /// The file or folder.
        place: String,
    },
    /// Not writable; goes on when it is again.
    #[error("{place} cannot be written ({reason}): make it writable, the work goes on by itself")]
    ReadOnly {
        /// The file or folder.
        place: String,
        /// What the system said.
        reason: String,
    },
    /// Damaged data was found where it was read.
    #[error("{place} is damaged: {reason}")]
    Corrupt {
        /// What was read.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A page token that this store did not give.
    #[error("the page token {token:?} is not one of this list: start again without it")]
    BadPageToken {
        /// The token.
        token: String,
    },
    /// Anything else.
    #[error("the store failed in {operation}: {reason}")]
    Failed {
        /// What was done.
        operation: &'static str,
        /// What went wrong.
        reason: String,
    },
}

/// What is done with a page where it was read.
pub type PageWork = Box<dyn FnOnce(EventPage) + Send>;

/// [`Store::read_for`] with an answer.
///
/// # Errors
/// The store's.
pub async fn read_with<T: Send + 'static>(
    store: &dyn Store,
    session_id: SessionId,
    (after, limit): (Seq, usize),
    work: impl FnOnce(EventPage) -> T + Send + 'static,
) -> Result<T, StoreError> {
    let done = Arc::new(Mutex::new(None));
    let place = Arc::clone(&done);
    let work = move |page| *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(work(page));
    store.read_for(session_id, after, limit, Box::new(work)).await?;
    let answer = done.lock().unwrap_or_else(PoisonError::into_inner).take();
    answer.ok_or_else(|| StoreError::Failed {
        operation: "read",
        reason: "a page was read and not used".to_owned(),
    })
}

/// The event store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Creates a session with its first events, owned by `new.owner` with fence 1.
    /// Durable when it returns. Cost: one transaction, shared with other waiting writes.
    async fn create(&self, new: NewSession) -> Result<Created, AppendError>;

    /// The session that a client's key belongs to, and the digest of the request that made it.
    async fn keyed(&self, client_key: &str) -> Result<Option<Keyed>, StoreError>;

    /// Appends to a session, all or nothing, and returns the new head.
    ///
    /// Durable when it returns `Ok`. The store compares `claim.fence` with the session's and
    /// `append.expected` with its head, in the same transaction. A refused append never hurts its
    /// neighbours in a grouped commit. Cost: one transaction shared with other waiting writes,
    /// O(events).
    async fn append(&self, claim: Claim, append: Append) -> Result<Seq, AppendError>;

    /// Takes a session over for `owner`: raises its fence, so that every older claim is fenced.
    /// A session that `owner` already owns keeps its fence.
    async fn claim(&self, session_id: SessionId, owner: &str) -> Result<Claim, AppendError>;

    /// Takes over up to `limit` sessions that need an owner at `now` and belong to nobody who is
    /// alive (`live_owners`, which must hold the caller) nor to `owner` itself, earliest first.
    async fn claim_due(
        &self,
        owner: &str,
        live_owners: &[String],
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError>;

    /// Parked sessions of `owner` whose timer is due at `now`, earliest first: those whose `wake_at`
    /// is not 0 (these are in memory already) and not after `now`.
    async fn due(
        &self,
        owner: &str,
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError>;

    /// The earliest time after `after` at which a session needs an owner.
    async fn next_wake(&self, after: TimestampMs) -> Result<Option<TimestampMs>, StoreError>;

    /// Events after `after`, at most `limit`. Holds no read transaction when it returns.
    async fn read(
        &self,
        session_id: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<EventPage, StoreError>;

    /// As [`Store::read`], and hands the page to `work` on the thread that read it, so that what is long
    /// to do with a thousand events keeps no other session waiting.
    async fn read_for(
        &self,
        session_id: SessionId,
        after: Seq,
        limit: usize,
        work: PageWork,
    ) -> Result<(), StoreError> {
        work(self.read(session_id, after, limit).await?);
        Ok(())
    }

    /// A payload by its address. Bytes that do not have that address (any more) are
    /// [`StoreError::Corrupt`].
    async fn blob(&self, address: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// What is known of a session.
    async fn session(&self, session_id: SessionId) -> Result<Option<SessionInfo>, StoreError>;

    /// One page of sessions, newest update first. Reads rows only, never events.
    async fn sessions(
        &self,
        filter: &SessionFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<SessionRow>, StoreError>;

    /// One page of approvals, newest first.
    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<ApprovalRow>, StoreError>;

    /// Marks a session whose log cannot be used; the reason becomes its explain sentence.
    async fn quarantine(&self, session_id: SessionId, reason: &str) -> Result<(), StoreError>;

    /// The latest cached state at or before the head: seq and bytes, when `version` is the same.
    async fn snapshot(
        &self,
        session_id: SessionId,
        version: u32,
    ) -> Result<Option<(Seq, Vec<u8>)>, StoreError>;

    /// Caches a state. A cache: losing it costs time only, so it may be written lazily.
    async fn put_snapshot(
        &self,
        session_id: SessionId,
        seq: Seq,
        version: u32,
        state: Vec<u8>,
    ) -> Result<(), StoreError>;

    /// The last cached outline ([`stepwell_core::SessionState::outline`]) at or before `at`: seq and
    /// bytes, when `version` is the same. A store may have none.
    async fn checkpoint(
        &self,
        _session_id: SessionId,
        _at: Seq,
        _version: u32,
    ) -> Result<Option<(Seq, Vec<u8>)>, StoreError> {
        Ok(None)
    }

    /// Caches an outline beside earlier ones. A cache: losing it costs time only, so it may be written
    /// lazily, or not at all.
    async fn put_checkpoint(
        &self,
        _session_id: SessionId,
        _seq: Seq,
        _version: u32,
        _state: Vec<u8>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Begins to bring in a session from elsewhere. Nothing of it is seen, and a crash leaves nothing
    /// of it, before [`Store::import_finish`]. [`AppendError::Conflict`] when the session exists.
    async fn import_begin(&self, session_id: SessionId) -> Result<Import, AppendError>;

    /// Brings in the next events, at most [`APPEND_EVENTS_MAX`], as they are; returns the new head.
    /// Cost: one transaction shared with other waiting writes, O(events).
    /// [`AppendError::NotFound`] for an import that was finished or dropped.
    async fn import_events(&self, import: Import, page: ImportPage) -> Result<Seq, AppendError>;

    /// Makes the session visible, owned by nobody. Durable when it returns. Cost: one transaction,
    /// O(approvals), whatever the length of the history.
    /// [`AppendError::Conflict`] when a session with that id was created meanwhile.
    async fn import_finish(&self, import: Import, imported: Imported) -> Result<(), AppendError>;

    /// Forgets what was brought in so far, in pieces that hold up nobody. An import that is over is
    /// left alone. What nobody drops is forgotten when the store is opened the next time.
    async fn import_drop(&self, import: Import) -> Result<(), StoreError>;

    /// Stores a definition as the next version of its name; the same text again keeps its version.
    async fn put_agent(
        &self,
        name: &str,
        definition: &str,
        now: TimestampMs,
    ) -> Result<AgentRecord, StoreError>;

    /// A definition; the latest when `version` is `None`.
    async fn agent(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<AgentRecord>, StoreError>;

    /// The latest version of each agent, by name.
    async fn agents(&self) -> Result<Vec<AgentRecord>, StoreError>;

    /// Remembers registered tools.
    async fn put_tools(&self, tools: Vec<ToolRecord>) -> Result<(), StoreError>;

    /// Every tool that was ever registered, by name.
    async fn tools(&self) -> Result<Vec<ToolRecord>, StoreError>;

    /// Writes a sign of life of a node.
    async fn beat(&self, node: &str, now: TimestampMs) -> Result<(), StoreError>;

    /// The last [`NODES_KEPT`] nodes that wrote a sign of life, by name.
    async fn nodes(&self) -> Result<Vec<NodeInfo>, StoreError>;

    /// Deletes a session for good, if it is as `only` wants it; its client key says so from then on.
    ///
    /// Durable when it returns, and the session is gone at once: reads find nothing, claims and
    /// appends are [`AppendError::NotFound`]. What it leaves behind (events, payloads that nobody
    /// else refers to) goes in pieces ([`Store::sweep`]). Cost: O(1) in the session's history.
    async fn delete(&self, session_id: SessionId, only: &DeleteOnly)
    -> Result<Deleted, StoreError>;

    /// What a session takes in the store. Cost: O(its events), outside the writer.
    async fn size(&self, session_id: SessionId) -> Result<Option<SessionSize>, StoreError>;

    /// Removes one bounded piece of what deleted sessions left behind. A store does that by itself
    /// when it has nothing else to do, also after a crash; this is for whoever wants to wait for it.
    async fn sweep(&self) -> Result<Swept, StoreError>;

    /// Copies the whole store as it is at one moment, while it is written to. `None` when it has no
    /// file to copy, or was told to end.
    async fn copy(&self, watcher: CopyWatcher) -> Result<Option<StoreCopy>, StoreError> {
        drop(watcher);
        Ok(None)
    }
}
