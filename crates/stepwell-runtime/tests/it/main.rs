//! The engine in the simulated world: one table or one story a rule.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that fails must fail its test"
)]

mod drain;
mod effects;
mod embed;
mod help;
mod import;
mod inputs;
mod memory;
mod nodes;
mod restart;
mod store_trouble;
mod threads;
mod timers;
mod travel;
mod watch;
