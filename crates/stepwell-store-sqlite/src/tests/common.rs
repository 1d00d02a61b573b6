//! Stores in temporary folders.

use std::path::Path;

use stepwell_core::TimestampMs;

use crate::{SqliteOptions, SqliteStore};

/// Options with a fixed time: the evening of 2026-07-25.
pub(super) fn options() -> SqliteOptions {
    SqliteOptions { opened_at: TimestampMs(1_785_000_000_000), ..SqliteOptions::default() }
}

/// Opens the store of a folder, which must work.
#[track_caller]
pub(super) fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, &options()).unwrap()
}
