//! Placeholder.

pub mod gateway;
