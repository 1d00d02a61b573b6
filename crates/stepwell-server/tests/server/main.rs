//! The server over a real socket: gRPC and server-sent events, with a model that plays a script.
#![cfg(test)]

mod agents;
mod approvals;
mod deleting;
mod gate;
mod history;
mod http;
mod import;
mod interposed;
mod sessions;
mod spans;
mod sse;
mod stored;
#[path = "../troubled/mod.rs"]
mod troubled;
mod view;
mod watch;
mod web;
mod world;
