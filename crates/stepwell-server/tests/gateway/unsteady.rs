//! A store that takes no more events for a while.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{Seq, SessionId, TimestampMs};
use stepwell_ports::import::{Import, ImportPage, Imported};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::retention::{DeleteOnly, Deleted, SessionSize, Swept};
use stepwell_ports::store::{Created, Keyed};
use stepwell_ports::{
    AgentRecord, Append, AppendError, ApprovalFilter, Claim, EventPage, ListPage, NewSession,
    NodeInfo, SessionFilter, SessionInfo, Store, StoreError, ToolRecord,
};

use tokio::sync::watch;

/// The store.
#[derive(Default)]
pub(crate) struct Unsteady {
    inner: MemoryStore,
    is_full: AtomicBool,
    refused: watch::Sender<u32>,
}

impl Unsteady {
    /// From now on events are refused, or taken again.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// Returns once an append was refused.
    pub(crate) async fn has_refused(&self) {
        let mut refused = self.refused.subscribe();
        refused.wait_for(|count| *count > 0).await.unwrap();
    }

    async fn append_or_refuse(&self, claim: Claim, append: Append) -> Result<Seq, AppendError> {
        if self.is_full.load(Ordering::SeqCst) {
            self.refused.send_modify(|count| *count += 1);
            let reason = "the disk is full".to_owned();
            return Err(AppendError::Unavailable(StoreError::Failed {
                operation: "append",
                reason,
            }));
        }
        self.inner.append(claim, append).await
    }
}

macro_rules! pass {
    ($( fn $name:ident ( $($argument:ident : $type:ty),* ) -> $result:ty; )*) => {
        #[async_trait]
        impl Store for Unsteady {
            async fn append(&self, claim: Claim, append: Append) -> Result<Seq, AppendError> {
                self.append_or_refuse(claim, append).await
            }

            $( async fn $name(&self, $($argument: $type),*) -> $result {
                self.inner.$name($($argument),*).await
            } )*
        }
    };
}

pass! {
    fn create(new: NewSession) -> Result<Created, AppendError>;
    fn keyed(client_key: &str) -> Result<Option<Keyed>, StoreError>;
    fn read(session_id: SessionId, after: Seq, limit: usize) -> Result<EventPage, StoreError>;
    fn claim(session_id: SessionId, owner: &str) -> Result<Claim, AppendError>;
    fn claim_due(owner: &str, live_owners: &[String], now: TimestampMs, limit: usize) -> Result<Vec<Claim>, StoreError>;
    fn due(owner: &str, now: TimestampMs, limit: usize) -> Result<Vec<Claim>, StoreError>;
    fn next_wake(after: TimestampMs) -> Result<Option<TimestampMs>, StoreError>;
    fn blob(address: &str) -> Result<Option<Vec<u8>>, StoreError>;
    fn session(session_id: SessionId) -> Result<Option<SessionInfo>, StoreError>;
    fn sessions(filter: &SessionFilter, page: Option<&str>, limit: usize) -> Result<ListPage<SessionRow>, StoreError>;
    fn approvals(filter: &ApprovalFilter, page: Option<&str>, limit: usize) -> Result<ListPage<ApprovalRow>, StoreError>;
    fn quarantine(session_id: SessionId, reason: &str) -> Result<(), StoreError>;
    fn snapshot(session_id: SessionId, version: u32) -> Result<Option<(Seq, Vec<u8>)>, StoreError>;
    fn put_snapshot(session_id: SessionId, seq: Seq, version: u32, state: Vec<u8>) -> Result<(), StoreError>;
    fn import_begin(session_id: SessionId) -> Result<Import, AppendError>;
    fn import_events(import: Import, page: ImportPage) -> Result<Seq, AppendError>;
    fn import_finish(import: Import, imported: Imported) -> Result<(), AppendError>;
    fn import_drop(import: Import) -> Result<(), StoreError>;
    fn put_agent(name: &str, definition: &str, now: TimestampMs) -> Result<AgentRecord, StoreError>;
    fn agent(name: &str, version: Option<u32>) -> Result<Option<AgentRecord>, StoreError>;
    fn agents() -> Result<Vec<AgentRecord>, StoreError>;
    fn put_tools(tools: Vec<ToolRecord>) -> Result<(), StoreError>;
    fn tools() -> Result<Vec<ToolRecord>, StoreError>;
    fn beat(node: &str, now: TimestampMs) -> Result<(), StoreError>;
    fn nodes() -> Result<Vec<NodeInfo>, StoreError>;
    fn delete(session_id: SessionId, only: &DeleteOnly) -> Result<Deleted, StoreError>;
    fn size(session_id: SessionId) -> Result<Option<SessionSize>, StoreError>;
    fn sweep() -> Result<Swept, StoreError>;
}
