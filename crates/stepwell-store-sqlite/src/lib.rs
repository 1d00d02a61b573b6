//! The SQLite event store: one file, one writer thread with group commit, pooled readers.
//!
//! All waiting writes share one transaction and one fsync. A write that is refused was refused
//! before it touched anything; a write that fails makes its group roll back, and each member is
//! tried alone, so that nobody pays for another's fault.
//!
//! Invariant: SQL stores and finds. What a session is, and what it does next, is decided in
//! `stepwell-core`.

mod blob;
mod check;
mod copy;
mod error;
mod folder;
mod names;
mod open;
mod options;
mod read;
mod rows;
mod schema;
mod store;
mod write;

#[cfg(test)]
mod tests;

pub use check::{DamagedSession, SessionsCheck};
pub use options::{OpenError, SqliteOptions};
pub use store::SqliteStore;

/// Now, for how long something may take: real threads and a real disk, never time that is stored.
#[expect(
    clippy::disallowed_methods,
    reason = "the store's threads have no clock of a test to follow"
)]
pub(crate) fn moment() -> std::time::Instant {
    std::time::Instant::now()
}
