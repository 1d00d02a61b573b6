//! What people and programs see: turns wire messages into text and JSON.
//!
//! Invariant: pure. No IO, no clock: the time now, the width and the colours come in as arguments.
//! Whatever came from a model, a tool or a person goes through [`visible`] before it is shown.

pub(crate) mod approval;
pub(crate) mod event;
pub(crate) mod fleet;
pub(crate) mod json;
pub(crate) mod json_history;
pub(crate) mod live;
pub(crate) mod prefix;
pub(crate) mod retention;
pub(crate) mod session;
pub(crate) mod source;
pub(crate) mod span;
pub(crate) mod table;
pub(crate) mod usage;
pub(crate) mod visible;
pub(crate) mod when;
