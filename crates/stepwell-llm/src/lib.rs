//! Client for OpenAI-compatible model servers (vLLM and its kin) over `/v1/chat/completions`
//! and `/v1/embeddings`.
//!
//! One call is one attempt: the client never repeats, repairs or guesses. What a server says is
//! taken apart by two pure parts, [`sse`] (bytes to events) and [`assemble`] (events to one whole
//! answer), and every way to fail becomes one [`ModelFailure`](stepwell_ports::ModelFailure) that
//! says which kind, where and why. The rest of this crate moves bytes and watches the time.
//!
//! Invariant: an answer is returned whole or not at all, and no key stands in a log or an error.

mod alarm;
pub mod assemble;
mod body;
mod budget;
mod client;
mod connect;
mod continuation;
mod deadlines;
pub mod embeddings;
pub mod endpoints;
mod exchange;
mod failure;
mod halves;
pub mod key;
pub mod listed;
mod prefix;
pub mod probe;
mod read;
pub mod retry_after;
pub mod sse;
mod target;
pub mod token_ids;
mod wire;
mod words;

pub use client::OpenAiClient;
