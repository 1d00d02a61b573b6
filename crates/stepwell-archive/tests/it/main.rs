//! Files that are written, read, and damaged.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, which is what is wanted"
)]

mod damage;
mod hostile;
mod replay;
mod round;
mod world;
