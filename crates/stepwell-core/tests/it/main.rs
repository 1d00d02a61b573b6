//! Tests of the core through its public face.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, which is what is wanted"
)]

mod approvals;
mod cancel;
mod cases;
mod codec;
mod compare;
mod damage;
mod durability;
mod fork;
mod golden;
mod limits;
mod messages;
mod model;
mod outcome;
mod output;
mod pause;
mod prompt;
mod properties;
mod replay;
mod replay_redacted;
mod shell;
mod span_index;
mod span_records;
mod spans;
mod steps;
mod table;
mod timers;
mod tokens;
mod views;
mod world;
