//! A store in memory, with the meaning of the durable ones, for tests and the simulator.
//!
//! Invariant: deterministic. No threads, no clock, and every walk goes over a sorted map.

mod delete;
mod faulty;
mod import;
mod list;
mod prepare;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use stepwell_core::codec;
use stepwell_core::state::ForkedFrom;
use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{ApprovalId, Fence, Seq, SessionId, Status, TimestampMs};

use import::BroughtIn;

pub use faulty::{FaultTime, FaultyStore};
pub use list::{PageToken, fits, page_rows};
pub use prepare::{
    NUMBER_MAX, Prepared, PreparedNew, check_import_page, import_refs, prepare, prepare_imported,
    prepare_new,
};

use crate::import::{Import, ImportPage, Imported, Redaction};
use crate::retention::{DeleteOnly, Deleted, SessionSize, Swept};
use crate::store::{
    AgentRecord, Append, AppendError, ApprovalFilter, Claim, Created, EventPage, Keyed, ListPage,
    NODES_KEPT, NewSession, NodeInfo, SessionFilter, SessionInfo, Store, StoreError, StoredEvent,
    ToolRecord,
};

/// List letter of the page tokens of sessions: time of update, order of creation.
pub const SESSIONS_LIST: char = 's';

/// List letter of the page tokens of approvals: time of the question, order of creation of the
/// session, approval.
pub const APPROVALS_LIST: char = 'a';

/// An event store that is lost with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Session>,
    /// What client keys were used for.
    keys: BTreeMap<String, Keyed>,
    blobs: BTreeMap<String, Vec<u8>>,
    agents: BTreeMap<String, Vec<AgentRecord>>,
    tools: BTreeMap<String, ToolRecord>,
    nodes: BTreeMap<String, TimestampMs>,
    /// Sessions that are being brought in, by the place that they will have.
    imports: BTreeMap<u64, BroughtIn>,
    /// The last place that was given in the order of creation.
    last_place: u64,
}

#[derive(Debug)]
struct Session {
    /// Place in the order of creation, from 1: decides between equal times.
    place: u64,
    row: SessionRow,
    owner: String,
    fence: Fence,
    wake_at: Option<TimestampMs>,
    events: Vec<StoredEvent>,
    /// Addresses of the payloads that it refers to.
    refs: BTreeSet<String>,
    approvals: BTreeMap<ApprovalId, ApprovalRow>,
    snapshot: Option<(Seq, u32, Vec<u8>)>,
    checkpoints: BTreeMap<Seq, (u32, Vec<u8>)>,
    redaction: Option<Redaction>,
}

impl Session {
    fn head(&self) -> Seq {
        self.events.last().map_or(Seq(0), |event| event.seq)
    }

    fn take_over(&mut self, session_id: SessionId, owner: &str) -> Claim {
        if self.owner != owner {
            self.fence = Fence(self.fence.0.saturating_add(1));
            owner.clone_into(&mut self.owner);
        }
        Claim { session_id, fence: self.fence }
    }
}

type Beginning = (Vec<StoredEvent>, BTreeSet<String>, Option<Redaction>);

impl Inner {
    /// The first events of a session, the payloads that it refers to, and what a fork of it has lost.
    fn beginning(&self, of: ForkedFrom) -> Result<Beginning, AppendError> {
        let ForkedFrom { session_id, seq } = of;
        let parent = self.sessions.get(&session_id).ok_or(AppendError::NotFound { session_id })?;
        let events: Vec<_> = parent.events.iter().filter(|it| it.seq <= seq).cloned().collect();
        if events.len() as u64 != seq.0 {
            return Err(AppendError::Conflict { session_id, expected: seq, actual: parent.head() });
        }
        let refs = prepare::refs(session_id, &events)?.into_iter().collect();
        let redaction = parent.redaction.as_ref().map(|it| it.of_fork(seq));
        Ok((events, refs, redaction))
    }

    fn write(&mut self, prepared: Prepared) {
        let Prepared { events, row, wake_at, approvals, blobs, refs, .. } = prepared;
        self.blobs.extend(blobs);
        if let Some(session) = self.sessions.get_mut(&row.session_id) {
            session.events.extend(events);
            session.refs.extend(refs);
            session.row = row;
            session.wake_at = wake_at;
            session.approvals.extend(approvals.into_iter().map(|it| (it.approval_id, it)));
        }
    }

    /// Sessions that need an owner at `now` and fit, earliest first.
    fn due_ids(
        &self,
        now: TimestampMs,
        limit: usize,
        fits: impl Fn(&Session) -> bool,
    ) -> Vec<SessionId> {
        let mut due: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, it)| it.wake_at.is_some_and(|wake_at| wake_at <= now) && fits(it))
            .map(|(session_id, it)| (it.wake_at, it.place, *session_id))
            .collect();
        due.sort_unstable();
        due.into_iter().take(page_rows(limit)).map(|(_, _, session_id)| session_id).collect()
    }

    fn next_place(&mut self) -> u64 {
        self.last_place += 1;
        self.last_place
    }

    fn latest_agent(&self, name: &str) -> Option<&AgentRecord> {
        self.agents.get(name).and_then(|versions| versions.last())
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves whole values behind: each write below is one statement.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A payload under another address than its own would be handed out as something else.
fn check_addresses(session_id: SessionId, blobs: &[(String, Vec<u8>)]) -> Result<(), AppendError> {
    let is_wrong = |(address, bytes): &&(String, Vec<u8>)| {
        // Core gives the address of texts; other bytes are checked by the durable stores.
        str::from_utf8(bytes).is_ok_and(|text| codec::blob_ref(text).blob != *address)
    };
    match blobs.iter().find(is_wrong) {
        Some((address, _)) => Err(AppendError::Malformed {
            session_id,
            reason: format!("{address} is not the address of its payload"),
        }),
        None => Ok(()),
    }
}

/// Cuts a sorted list into a page: one row more than fits says that there is a next page.
fn page_of<T>(mut rows: Vec<T>, limit: usize, token: impl Fn(&T) -> Option<String>) -> ListPage<T> {
    let rows_max = page_rows(limit);
    let has_more = rows.len() > rows_max;
    rows.truncate(rows_max);
    let next_page = if has_more { rows.last().and_then(token) } else { None };
    ListPage { rows, next_page }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create(&self, new: NewSession) -> Result<Created, AppendError> {
        let new = prepare_new(new)?;
        let session_id = new.session_id;
        check_addresses(session_id, &new.first.blobs)?;
        let mut inner = self.lock();
        if let Some(keyed) = new.client_key.as_ref().and_then(|it| inner.keys.get(it)) {
            return Ok(Created::of_key(keyed, &new.request_digest));
        }
        if let Some(session) = inner.sessions.get(&session_id) {
            let actual = session.head();
            return Err(AppendError::Conflict { session_id, expected: Seq(0), actual });
        }
        let (events, refs, redaction) = match new.beginning {
            None => (Vec::new(), BTreeSet::new(), None),
            Some(beginning) => inner.beginning(beginning)?,
        };
        let session = Session {
            place: inner.next_place(),
            row: new.first.row.clone(),
            owner: new.owner,
            fence: Fence(1),
            wake_at: None,
            events,
            refs,
            approvals: BTreeMap::new(),
            snapshot: None,
            checkpoints: BTreeMap::new(),
            redaction,
        };
        inner.sessions.insert(session_id, session);
        if let Some(client_key) = new.client_key {
            let request_digest = new.request_digest;
            inner.keys.insert(client_key, Keyed { session_id, request_digest, is_deleted: false });
        }
        inner.write(new.first);
        Ok(Created::New(Claim { session_id, fence: Fence(1) }))
    }

    async fn keyed(&self, client_key: &str) -> Result<Option<Keyed>, StoreError> {
        Ok(self.lock().keys.get(client_key).cloned())
    }

    async fn append(&self, claim: Claim, append: Append) -> Result<Seq, AppendError> {
        let Claim { session_id, fence } = claim;
        let prepared = prepare(session_id, append)?;
        check_addresses(session_id, &prepared.blobs)?;
        let mut inner = self.lock();
        let session =
            inner.sessions.get(&session_id).ok_or(AppendError::NotFound { session_id })?;
        if session.fence != fence {
            let current = session.fence;
            return Err(AppendError::Fenced { session_id, held: fence, current });
        }
        let (expected, actual) = (prepared.expected, session.head());
        if expected != actual {
            return Err(AppendError::Conflict { session_id, expected, actual });
        }
        let head = prepared.head;
        inner.write(prepared);
        Ok(head)
    }

    async fn claim(&self, session_id: SessionId, owner: &str) -> Result<Claim, AppendError> {
        let mut inner = self.lock();
        let session =
            inner.sessions.get_mut(&session_id).ok_or(AppendError::NotFound { session_id })?;
        Ok(session.take_over(session_id, owner))
    }

    async fn claim_due(
        &self,
        owner: &str,
        live_owners: &[String],
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let mut inner = self.lock();
        let due =
            inner.due_ids(now, limit, |it| it.owner != owner && !live_owners.contains(&it.owner));
        let mut claims = Vec::with_capacity(due.len());
        for session_id in due {
            if let Some(session) = inner.sessions.get_mut(&session_id) {
                claims.push(session.take_over(session_id, owner));
            }
        }
        Ok(claims)
    }

    async fn due(
        &self,
        owner: &str,
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let inner = self.lock();
        // Those at 0 are in their owner's memory.
        let due = inner.due_ids(now, limit, |it| {
            it.owner == owner && it.wake_at.is_some_and(|wake_at| wake_at > TimestampMs(0))
        });
        let claim = |session_id: SessionId| {
            inner.sessions.get(&session_id).map(|it| Claim { session_id, fence: it.fence })
        };
        Ok(due.into_iter().filter_map(claim).collect())
    }

    async fn next_wake(&self, after: TimestampMs) -> Result<Option<TimestampMs>, StoreError> {
        let inner = self.lock();
        Ok(inner.sessions.values().filter_map(|it| it.wake_at).filter(|it| *it > after).min())
    }

    async fn read(
        &self,
        session_id: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        let inner = self.lock();
        let Some(session) = inner.sessions.get(&session_id) else {
            return Ok(EventPage::default());
        };
        let skipped = usize::try_from(after.0).unwrap_or(usize::MAX);
        let events = session.events.iter().skip(skipped).take(page_rows(limit)).cloned().collect();
        Ok(EventPage { events, head: session.head() })
    }

    async fn blob(&self, address: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().blobs.get(address).cloned())
    }

    async fn session(&self, session_id: SessionId) -> Result<Option<SessionInfo>, StoreError> {
        let inner = self.lock();
        Ok(inner.sessions.get(&session_id).map(|it| SessionInfo {
            row: it.row.clone(),
            owner: it.owner.clone(),
            fence: it.fence,
            wake_at: it.wake_at,
            redaction: it.redaction.clone(),
        }))
    }

    async fn sessions(
        &self,
        filter: &SessionFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<SessionRow>, StoreError> {
        let before = page.map(|token| PageToken::<2>::decode(SESSIONS_LIST, token)).transpose()?;
        let inner = self.lock();
        let keys = |it: &Session| [it.row.updated_at.0, it.place];
        let mut found: Vec<&Session> = inner
            .sessions
            .values()
            .filter(|it| before.is_none_or(|before| keys(it) < before.keys))
            .filter(|it| fits(filter, &it.row))
            .collect();
        found.sort_unstable_by_key(|it| std::cmp::Reverse(keys(it)));
        let page = page_of(found, limit, |it| {
            Some(PageToken { list: SESSIONS_LIST, keys: keys(it) }.encode())
        });
        let rows = page.rows.into_iter().map(|it| it.row.clone()).collect();
        Ok(ListPage { rows, next_page: page.next_page })
    }

    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<ApprovalRow>, StoreError> {
        let before = page.map(|token| PageToken::<3>::decode(APPROVALS_LIST, token)).transpose()?;
        let inner = self.lock();
        let mut found: Vec<([u64; 3], &ApprovalRow)> = inner
            .sessions
            .values()
            .flat_map(|session| session.approvals.values().map(move |it| (session.place, it)))
            .map(|(place, it)| ([it.requested_at.0, place, it.approval_id.0], it))
            .filter(|(keys, _)| before.is_none_or(|before| *keys < before.keys))
            .filter(|(_, it)| filter.statuses.is_empty() || filter.statuses.contains(&it.status))
            .filter(|(_, it)| filter.session_id.is_none_or(|wanted| wanted == it.session_id))
            .collect();
        found.sort_unstable_by_key(|(keys, _)| std::cmp::Reverse(*keys));
        let page = page_of(found, limit, |(keys, _)| {
            Some(PageToken { list: APPROVALS_LIST, keys: *keys }.encode())
        });
        let rows = page.rows.into_iter().map(|(_, it)| it.clone()).collect();
        Ok(ListPage { rows, next_page: page.next_page })
    }

    async fn quarantine(&self, session_id: SessionId, reason: &str) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let session = inner.sessions.get_mut(&session_id).ok_or_else(|| StoreError::Failed {
            operation: "quarantine",
            reason: format!("there is no session {session_id}"),
        })?;
        session.row.status = Status::Quarantined;
        reason.clone_into(&mut session.row.explain);
        session.wake_at = None;
        Ok(())
    }

    async fn snapshot(
        &self,
        session_id: SessionId,
        version: u32,
    ) -> Result<Option<(Seq, Vec<u8>)>, StoreError> {
        let inner = self.lock();
        let session = inner.sessions.get(&session_id);
        Ok(session.and_then(|session| {
            let (seq, stored_version, state) = session.snapshot.as_ref()?;
            let is_usable = *stored_version == version && *seq <= session.head();
            is_usable.then(|| (*seq, state.clone()))
        }))
    }

    async fn checkpoint(
        &self,
        session_id: SessionId,
        at: Seq,
        version: u32,
    ) -> Result<Option<(Seq, Vec<u8>)>, StoreError> {
        let inner = self.lock();
        let Some(session) = inner.sessions.get(&session_id) else { return Ok(None) };
        let mut before = session.checkpoints.range(..=at).rev();
        let found = before.find(|(_, (of, _))| *of == version);
        Ok(found.map(|(seq, (_, state))| (*seq, state.clone())))
    }

    async fn put_checkpoint(
        &self,
        session_id: SessionId,
        seq: Seq,
        version: u32,
        state: Vec<u8>,
    ) -> Result<(), StoreError> {
        if let Some(session) = self.lock().sessions.get_mut(&session_id) {
            session.checkpoints.insert(seq, (version, state));
        }
        Ok(())
    }

    async fn put_snapshot(
        &self,
        session_id: SessionId,
        seq: Seq,
        version: u32,
        state: Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if let Some(session) = inner.sessions.get_mut(&session_id) {
            let is_older = session
                .snapshot
                .as_ref()
                .is_some_and(|(kept, kept_version, _)| *kept_version == version && *kept > seq);
            if !is_older {
                session.snapshot = Some((seq, version, state));
            }
        }
        Ok(())
    }

    async fn import_begin(&self, session_id: SessionId) -> Result<Import, AppendError> {
        self.lock().import_begin(session_id)
    }

    async fn import_events(&self, import: Import, page: ImportPage) -> Result<Seq, AppendError> {
        self.lock().import_events(import, page)
    }

    async fn import_finish(&self, import: Import, imported: Imported) -> Result<(), AppendError> {
        self.lock().import_finish(import, imported)
    }

    async fn import_drop(&self, import: Import) -> Result<(), StoreError> {
        self.lock().imports.remove(&import.key);
        Ok(())
    }

    async fn put_agent(
        &self,
        name: &str,
        definition: &str,
        now: TimestampMs,
    ) -> Result<AgentRecord, StoreError> {
        let mut inner = self.lock();
        let latest = inner.latest_agent(name);
        if let Some(latest) = latest.filter(|it| it.definition == definition) {
            return Ok(latest.clone());
        }
        let record = AgentRecord {
            name: name.to_owned(),
            version: latest.map_or(1, |it| it.version.saturating_add(1)),
            definition: definition.to_owned(),
            created_at: now,
        };
        inner.agents.entry(name.to_owned()).or_default().push(record.clone());
        Ok(record)
    }

    async fn agent(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<AgentRecord>, StoreError> {
        let inner = self.lock();
        let found = match version {
            None => inner.latest_agent(name),
            Some(version) => inner
                .agents
                .get(name)
                .and_then(|versions| versions.iter().find(|it| it.version == version)),
        };
        Ok(found.cloned())
    }

    async fn agents(&self) -> Result<Vec<AgentRecord>, StoreError> {
        let inner = self.lock();
        Ok(inner.agents.values().filter_map(|versions| versions.last()).cloned().collect())
    }

    async fn put_tools(&self, tools: Vec<ToolRecord>) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.tools.extend(tools.into_iter().map(|it| (it.name.clone(), it)));
        Ok(())
    }

    async fn tools(&self) -> Result<Vec<ToolRecord>, StoreError> {
        Ok(self.lock().tools.values().cloned().collect())
    }

    async fn beat(&self, node: &str, now: TimestampMs) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.nodes.insert(node.to_owned(), now);
        if inner.nodes.len() > NODES_KEPT {
            let oldest = inner.nodes.iter().map(|(name, at)| (*at, name.clone())).min();
            if let Some((_, name)) = oldest {
                inner.nodes.remove(&name);
            }
        }
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeInfo>, StoreError> {
        let inner = self.lock();
        let node = |(node, seen_at): (&String, &TimestampMs)| NodeInfo {
            node: node.clone(),
            seen_at: *seen_at,
        };
        Ok(inner.nodes.iter().map(node).collect())
    }

    async fn delete(
        &self,
        session_id: SessionId,
        only: &DeleteOnly,
    ) -> Result<Deleted, StoreError> {
        Ok(self.lock().delete(session_id, only))
    }

    async fn size(&self, session_id: SessionId) -> Result<Option<SessionSize>, StoreError> {
        Ok(self.lock().size(session_id))
    }

    async fn sweep(&self) -> Result<Swept, StoreError> {
        // Memory is given back at once.
        Ok(Swept { is_done: true, ..Swept::default() })
    }
}
