//! A store in memory that a test can trouble. Both test binaries of this crate include it.

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

/// What happens beside the store's own work; by default nothing.
#[async_trait]
pub(crate) trait Trouble: Send + Sync + 'static {
    /// Before events are appended: an error is the answer, and nothing is appended.
    fn before_append(&self) -> Result<(), AppendError> {
        Ok(())
    }

    /// Between a read of events and its answer.
    async fn after_read(&self) {}
}

/// The store.
#[derive(Default)]
pub(crate) struct Troubled<T> {
    inner: MemoryStore,
    pub(crate) trouble: T,
}

macro_rules! pass_on {
    ($( fn $name:ident ( $($argument:ident : $type:ty),* ) -> $result:ty; )*) => {
        #[async_trait]
        impl<T: Trouble> Store for Troubled<T> {
            async fn append(&self, claim: Claim, append: Append) -> Result<Seq, AppendError> {
                self.trouble.before_append()?;
                self.inner.append(claim, append).await
            }

            async fn read(
                &self,
                session_id: SessionId,
                after: Seq,
                limit: usize,
            ) -> Result<EventPage, StoreError> {
                let page = self.inner.read(session_id, after, limit).await;
                self.trouble.after_read().await;
                page
            }

            $( async fn $name(&self, $($argument: $type),*) -> $result {
                self.inner.$name($($argument),*).await
            } )*
        }
    };
}

pass_on! {
    fn create(new: NewSession) -> Result<Created, AppendError>;
    fn keyed(client_key: &str) -> Result<Option<Keyed>, StoreError>;
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
