//! The file of an exported session (`.stepwell`): JSON lines, in zstd or plain, that carry the events
//! exactly as they are stored, with the payloads they need, chained by BLAKE3.
//!
//! `docs/export-format.md` describes the format for others. [`Writer`] and [`Reader`] stream: they
//! hold one event and its payloads at a time.
//!
//! Invariant: [`Reader`] hands out nothing that it did not check, and its end ([`Reader::next_item`]
//! gives `None`) means that every byte of the file is as it was written.

mod chain;
mod error;
mod limits;
mod line;
mod pack;
mod read;
pub mod redact;
mod source;
mod write;

pub use chain::Chain;
pub use error::{ArchiveError, Place};
pub use limits::{BLOB_BYTES_MAX, EVENT_BYTES_MAX, Limits, SESSION_BYTES_MAX};
pub use line::{End, FORMAT, Header, VERSION};
pub use read::{Item, Reader, check_front};
pub use write::{Form, WriteError, Writer, payloads_of};
