//! The pure core of Stepwell: what a durable agent session is and how it moves.
//!
//! `fold(events) = state`, `decide(state, input, now) = events + commands`, `pending(state) =
//! commands still owed`. Everything a person sees of a session (prompt, spans, cost, the reason why
//! it waits) is computed from its events by functions of this crate.
//!
//! Invariant: no IO, clock, randomness, logging or async. The crate is `no_std`, so that this is a
//! fact of the compiler and not of discipline: time and ids come in as arguments.
#![no_std]

extern crate alloc;

pub mod account;
pub mod agent;
pub mod apply;
mod approve;
pub mod arguments;
pub mod codec;
pub mod compare;
pub mod decide;
pub mod event;
pub mod explain;
mod follow;
pub mod ids;
pub mod json;
pub mod marker;
pub mod output;
pub mod pending;
pub mod policy;
pub mod prompt;
mod reject;
mod repeat;
pub mod replay;
pub mod shell;
pub mod spans;
pub mod state;
pub mod summary;
pub mod survey;
pub mod text;
pub mod tokens;
pub mod turns;

pub use agent::{Agent, Effect, ToolKind, ToolSpec};
pub use apply::{IllegalHistory, apply, fold};
pub use decide::{Decision, Input, Reject, decide};
pub use event::{Actor, Event, EventBody, EventKind, Family};
pub use follow::CANCEL_GRACE_MS;
pub use ids::{ApprovalId, CallId, Fence, Seq, SessionId, TimestampMs};
pub use json::JsonText;
pub use pending::{Command, pending};
pub use state::{SessionState, Status};
pub use text::{BlobRef, Text};
