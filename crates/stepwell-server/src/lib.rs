//! The face of the engine: gRPC and plain HTTP on one port.
//!
//! [`serve`] puts it together. `convert` is the only place where wire types meet core types,
//! [`agent_file`] the only place where agent definitions are read, [`gateway`] the workers' end.
//!
//! Invariant: nothing here decides about a session. Requests become inputs of the engine, answers
//! are read from the store.

pub mod agent_file;
mod api;
mod conn;
mod convert;
mod find;
pub mod gateway;
mod http;
mod import;
mod ownership;
mod payload;
mod search;
mod server;
mod span_cache;
mod status;
mod view;
mod watch;

pub use convert::{
    ARGUMENTS_BYTES_MAX, BadField, CLIENT_KEY_BYTES_MAX, DELETE_MAX, LABEL_KEY_BYTES_MAX,
    LABEL_VALUE_BYTES_MAX, LABELS_MAX, NAME_BYTES_MAX, PAGE_ROWS_DEFAULT, REASON_BYTES_MAX,
    TEXT_BYTES_MAX, TITLE_BYTES_MAX,
};
pub use find::PREFIX_CHARS_MIN;
pub use import::IMPORT_BYTES_MAX_DEFAULT;
pub use server::{
    PORT_DEFAULT, REQUEST_BYTES_MAX, ServeError, ServerOptions, Services, ShownFile, serve,
    serve_within,
};
