//! What the runtime needs from the outside: an event store, a model, tool workers, a clock, and
//! randomness. Traits and their errors, adapters in memory, and the conformance suite of the store.
//!
//! Invariant: no adapter of a real system lives here.

pub mod clock;
pub mod embedding;
pub mod import;
pub mod memory;
pub mod model;
pub mod retention;
pub mod store;
pub mod tools;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use clock::{Clock, Random};
pub use embedding::{EmbeddingPort, EmbeddingRequest, Embeddings};
pub use import::{Checkpoint, Import, ImportPage, Imported, Redaction};
pub use model::{
    Affinity, ModelAnswer, ModelChunk, ModelFailure, ModelPort, ModelRequest, ModelSink,
};
pub use retention::{
    CopyProgress, CopyWatcher, DeleteOnly, Deleted, SessionSize, StoreCopy, Swept,
};
pub use store::{
    AgentRecord, Append, AppendError, ApprovalFilter, Claim, EventPage, ListPage, NewSession,
    NodeInfo, SessionFilter, SessionInfo, Store, StoreError, StoredEvent, ToolRecord,
};
pub use tools::{ToolGateway, ToolProbe, ToolReport, ToolRequest, ToolSlot};
