//! A seeded world around the unmodified engine: time, store, model, workers, people, and faults.
//!
//! Everything that happens follows from one number. A run that fails prints its seed, and the same
//! seed fails again: `STEPWELL_SEED=17 cargo test -p stepwell-sim`.
//!
//! Who does what: `dice` is chance, `clock` time, `gate` the life of a node, `store` a node's way to
//! the one store, `model` the model, `fleet` the workers with their ledger, `world` puts them together
//! for plain tests. On top of that `chance` decides what model and tools do, `people` what persons do,
//! `check` looks for broken promises, and `run` plays one seed from its start to its end.
//!
//! Invariant: nothing here knows anything of the engine's inside, so whatever replaces it is judged by
//! the same measure.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a world that is broken itself must stop the test"
)]

pub mod agents;
pub mod chance;
pub mod check;
pub mod clock;
pub mod dice;
pub mod fleet;
pub mod gate;
pub mod model;
pub mod people;
pub mod run;
pub mod signal;
pub mod store;
pub mod world;

pub use dice::Dice;
pub use world::{Node, World, person};
