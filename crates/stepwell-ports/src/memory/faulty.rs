//! A store that fails its n-th call, before or after the call had its effect.
//!
//! "Unavailable" means that the outcome is unknown. Code that treats it as "not done" or as "done"
//! shows its fault when a test lets each call fail in turn, both ways.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{Seq, SessionId, TimestampMs};

use crate::import::{Import, ImportPage, Imported};
use crate::retention::{DeleteOnly, Deleted, SessionSize, Swept};
use crate::store::{
    AgentRecord, Append, AppendError, ApprovalFilter, Claim, Created, EventPage, Keyed, ListPage,
    NewSession, NodeInfo, SessionFilter, SessionInfo, Store, StoreError, ToolRecord,
};

/// When the call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTime {
    /// Nothing was done.
    BeforeEffect,
    /// It was done, but the caller is told that the outcome is unknown.
    AfterEffect,
}

/// Wraps a store and fails one of its calls.
#[derive(Debug)]
pub struct FaultyStore<S> {
    inner: S,
    nth: u64,
    time: FaultTime,
    calls: AtomicU64,
}

impl<S> FaultyStore<S> {
    /// Fails the `nth` call, counted from 1 over all methods; 0 fails none.
    pub fn new(inner: S, nth: u64, time: FaultTime) -> Self {
        Self { inner, nth, time, calls: AtomicU64::new(0) }
    }

    /// Calls so far. A loop over `nth` ends when a run makes fewer calls than that.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Whether the fault was met.
    pub fn has_failed(&self) -> bool {
        self.nth > 0 && self.calls() >= self.nth
    }

    /// The store inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Counts a call and says whether and when it fails.
    fn fault(&self) -> Option<FaultTime> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        (call == self.nth).then_some(self.time)
    }
}

fn injected(operation: &'static str) -> StoreError {
    StoreError::Failed { operation, reason: "a fault that a test put here".into() }
}

/// One method: fail before, pass on, fail after.
macro_rules! pass {
    ($store:ident . $method:ident ( $($argument:expr),* )) => {
        match $store.fault() {
            None => $store.inner.$method($($argument),*).await,
            Some(FaultTime::BeforeEffect) => Err(injected(stringify!($method)).into()),
            Some(FaultTime::AfterEffect) => {
                // What it answers is what the caller must not learn.
                let _ = $store.inner.$method($($argument),*).await;
                Err(injected(stringify!($method)).into())
            }
        }
    };
}

#[async_trait]
impl<S: Store> Store for FaultyStore<S> {
    async fn create(&self, new: NewSession) -> Result<Created, AppendError> {
        pass!(self.create(new))
    }

    async fn keyed(&self, client_key: &str) -> Result<Option<Keyed>, StoreError> {
        pass!(self.keyed(client_key))
    }

    async fn append(&self, claim: Claim, append: Append) -> Result<Seq, AppendError> {
        pass!(self.append(claim, append))
    }

    async fn claim(&self, session_id: SessionId, owner: &str) -> Result<Claim, AppendError> {
        pass!(self.claim(session_id, owner))
    }

    async fn claim_due(
        &self,
        owner: &str,
        live_owners: &[String],
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        pass!(self.claim_due(owner, live_owners, now, limit))
    }

    async fn due(
        &self,
        owner: &str,
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        pass!(self.due(owner, now, limit))
    }

    async fn next_wake(&self, after: TimestampMs) -> Result<Option<TimestampMs>, StoreError> {
        pass!(self.next_wake(after))
    }

    async fn read(
        &self,
        session_id: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        pass!(self.read(session_id, after, limit))
    }

    async fn blob(&self, address: &str) -> Result<Option<Vec<u8>>, StoreError> {
        pass!(self.blob(address))
    }

    async fn session(&self, session_id: SessionId) -> Result<Option<SessionInfo>, StoreError> {
        pass!(self.session(session_id))
    }

    async fn sessions(
        &self,
        filter: &SessionFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<SessionRow>, StoreError> {
        pass!(self.sessions(filter, page, limit))
    }

    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<ApprovalRow>, StoreError> {
        pass!(self.approvals(filter, page, limit))
    }

    async fn quarantine(&self, session_id: SessionId, reason: &str) -> Result<(), StoreError> {
        pass!(self.quarantine(session_id, reason))
    }

    async fn snapshot(
        &self,
        session_id: SessionId,
        version: u32,
    ) -> Result<Option<(Seq, Vec<u8>)>, StoreError> {
        pass!(self.snapshot(session_id, version))
    }

    async fn put_snapshot(
        &self,
        session_id: SessionId,
        seq: Seq,
        version: u32,
        state: Vec<u8>,
    ) -> Result<(), StoreError> {
        pass!(self.put_snapshot(session_id, seq, version, state))
    }

    async fn import_begin(&self, session_id: SessionId) -> Result<Import, AppendError> {
        pass!(self.import_begin(session_id))
    }

    async fn import_events(&self, import: Import, page: ImportPage) -> Result<Seq, AppendError> {
        pass!(self.import_events(import, page))
    }

    async fn import_finish(&self, import: Import, imported: Imported) -> Result<(), AppendError> {
        pass!(self.import_finish(import, imported))
    }

    async fn import_drop(&self, import: Import) -> Result<(), StoreError> {
        pass!(self.import_drop(import))
    }

    async fn put_agent(
        &self,
        name: &str,
        definition: &str,
        now: TimestampMs,
    ) -> Result<AgentRecord, StoreError> {
        pass!(self.put_agent(name, definition, now))
    }

    async fn agent(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<AgentRecord>, StoreError> {
        pass!(self.agent(name, version))
    }

    async fn agents(&self) -> Result<Vec<AgentRecord>, StoreError> {
        pass!(self.agents())
    }

    async fn put_tools(&self, tools: Vec<ToolRecord>) -> Result<(), StoreError> {
        pass!(self.put_tools(tools))
    }

    async fn tools(&self) -> Result<Vec<ToolRecord>, StoreError> {
        pass!(self.tools())
    }

    async fn beat(&self, node: &str, now: TimestampMs) -> Result<(), StoreError> {
        pass!(self.beat(node, now))
    }

    async fn nodes(&self) -> Result<Vec<NodeInfo>, StoreError> {
        pass!(self.nodes())
    }

    async fn delete(
        &self,
        session_id: SessionId,
        only: &DeleteOnly,
    ) -> Result<Deleted, StoreError> {
        pass!(self.delete(session_id, only))
    }

    async fn size(&self, session_id: SessionId) -> Result<Option<SessionSize>, StoreError> {
        pass!(self.size(session_id))
    }

    async fn sweep(&self) -> Result<Swept, StoreError> {
        pass!(self.sweep())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    /// Versions of the agent after three puts, of which the caller was told how many worked.
    async fn put_three(nth: u64, time: FaultTime) -> (usize, u32) {
        let store = FaultyStore::new(MemoryStore::new(), nth, time);
        let mut told = 0;
        for definition in ["a", "b", "c"] {
            told += usize::from(store.put_agent("mover", definition, TimestampMs(1)).await.is_ok());
        }
        let stored = store.inner().agent("mover", None).await.unwrap();
        (told, stored.map_or(0, |it| it.version))
    }

    #[tokio::test]
    async fn the_nth_call_fails_before_or_after_its_effect() {
        assert_eq!(put_three(0, FaultTime::BeforeEffect).await, (3, 3));
        for nth in 1..=3 {
            assert_eq!(put_three(nth, FaultTime::BeforeEffect).await, (2, 2));
            assert_eq!(put_three(nth, FaultTime::AfterEffect).await, (2, 3));
        }
        assert_eq!(put_three(4, FaultTime::AfterEffect).await, (3, 3));
    }
}
