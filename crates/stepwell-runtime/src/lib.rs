//! The engine: claims sessions, owns each in one task, carries out their commands, wakes them.
//!
//! A session is in memory only while it is owed work. Whatever the engine knows it can lose: after a
//! crash the next one folds the events and carries out what is pending.
//!
//! Invariant: a command leaves only after the append that ordered it is durable.

pub mod answer;
mod draft;
mod effects;
mod embed;
mod engine;
mod error;
mod fork;
mod handover;
pub mod import;
mod live;
mod load;
mod mailbox;
mod messages;
mod model_call;
mod owner;
pub mod relax;
mod reserve;
mod retry_budget;
mod scheduler;
mod stall;
pub mod system;
pub mod task;
mod tool_call;
pub mod validate;

pub use engine::{CreateSession, CreatedSession, Engine, EngineOptions, Ports, Submitted};
pub use error::EngineError;
pub use fork::{Change, ForkPlan, ForkSession};
pub use live::{LiveChunk, LiveChunkKind, LiveInfo, Subscription};
pub use messages::{Message, MessageWindow};
