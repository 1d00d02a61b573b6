//! Stores in temporary folders, file systems of a size, and the file seen from outside.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rusqlite::Connection;
use stepwell_core::TimestampMs;
use stepwell_ports::conformance::fixtures::{Draw, Shared};

use crate::{SqliteOptions, SqliteStore};

/// Options with a fixed time: 2026-07-25T17:20:00Z.
pub(super) fn options() -> SqliteOptions {
    SqliteOptions { opened_at: TimestampMs(1_785_000_000_000), ..SqliteOptions::default() }
}

/// Makes an empty store of schema 3, the first that was ever used.
pub(super) const OLD_STORE: &str = concat!(
    "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL;",
    include_str!("../../../../migrations/sqlite/0001_events.sql"),
    include_str!("../../../../migrations/sqlite/0002_approvals.sql"),
    include_str!("../../../../migrations/sqlite/0003_catalogue.sql"),
    "PRAGMA application_id = 0x5374776c; PRAGMA user_version = 3;",
);

/// Opens the store of a folder, which must work.
#[track_caller]
pub(super) fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, &options()).unwrap()
}

/// The same, as any store.
#[track_caller]
pub(super) fn open_shared(folder: &Path) -> Shared {
    Arc::new(open(folder))
}

/// The database file.
pub(super) fn database(folder: &Path) -> PathBuf {
    folder.join("stepwell.db")
}

/// Bytes of the write-ahead log.
pub(super) fn log_bytes(folder: &Path) -> u64 {
    crate::open::log_bytes(&database(folder))
}

/// Changes the file of a closed store by hand.
#[track_caller]
pub(super) fn by_hand(folder: &Path, sql: &str) {
    Connection::open(database(folder)).unwrap().execute_batch(sql).unwrap();
}

/// What SQLite says about the whole file.
#[track_caller]
pub(super) fn integrity(folder: &Path) -> String {
    let conn = Connection::open(database(folder)).unwrap();
    conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}

/// Text that does not compress.
pub(super) fn noise(bytes: usize, seed: u64) -> String {
    let mut draw = Draw::new(seed);
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        // 7 bits of each byte, so that it is text; control characters would grow in JSON.
        let letters = draw.number().to_le_bytes().map(|it| char::from(b'0' + it % 75));
        text.extend(letters.iter().filter(|it| **it != '\\'));
    }
    text
}

/// A small file system in memory, when this process may make one.
pub(super) struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` without the right to mount.
    pub(super) fn new(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let is_mounted = mount(&["-t", "tmpfs", "-o", options, "tmpfs"], folder.path());
        if !is_mounted {
            eprintln!("no right to mount: this test needs root, and was left out");
        }
        is_mounted.then_some(Self { folder })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn remount(&self, options: &str) -> bool {
        mount(&["-o", &format!("remount,{options}")], self.path())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Files may still be open when a test fails; `-l` lets go of them later.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

fn mount(arguments: &[&str], folder: &Path) -> bool {
    let mounted = Command::new("mount").args(arguments).arg(folder).output();
    mounted.is_ok_and(|it| it.status.success())
}
