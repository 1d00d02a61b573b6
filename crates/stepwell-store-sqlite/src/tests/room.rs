//! A disk that is full, and a file that cannot be written.

use std::sync::Arc;

use rusqlite::Connection;
use stepwell_ports::conformance::fixtures::{Shared, append, created, id, read_all};
use stepwell_ports::{AppendError, Claim, StoreError};

use super::common::{SmallDisk, integrity, noise, open, open_shared};
use crate::SqliteStore;
use crate::error::About;

/// Appends until the disk is full and returns the last acknowledged seq.
async fn fill(store: &Shared, claim: Claim) -> u64 {
    let mut head = 1;
    loop {
        let text = noise(100_000, head);
        match store.append(claim, append(id(1), head, &text)).await {
            Ok(seq) => head = seq.0,
            Err(AppendError::Unavailable(StoreError::DiskFull { .. })) => return head,
            Err(other) => panic!("after {head}: {other}"),
        }
        assert!(head < 1_000, "the disk is not as small as it should be");
    }
}

/// Nothing acknowledged is lost, and the same claim goes on when there is room.
async fn assert_goes_on(store: &Shared, claim: Claim, head: u64, make_room: impl AsyncFnOnce()) {
    let large = noise(100_000, 99);
    let refused = store.append(claim, append(id(1), head, &large)).await.unwrap_err();
    assert!(refused.to_string().contains("is full: free some space"), "{refused}");
    assert_eq!(read_all(store, id(1)).await.len() as u64, head, "all that was acknowledged");
    make_room().await;
    for seq in head..head + 5 {
        store.append(claim, append(id(1), seq, &large)).await.unwrap();
    }
    assert_eq!(read_all(store, id(1)).await.len() as u64, head + 5);
}

#[tokio::test]
async fn a_full_disk_is_said_and_work_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::new("size=3m") else { return };
    let store = open_shared(disk.path());
    let claim = created(&store, 1).await;
    let head = fill(&store, claim).await;
    assert!(head > 5, "{head}");
    assert_goes_on(&store, claim, head, async || assert!(disk.remount("size=64m"))).await;
    drop(store);
    assert_eq!(integrity(disk.path()), "ok");
    let store = open_shared(disk.path());
    assert_eq!(read_all(&store, id(1)).await.len() as u64, head + 5);
}

#[tokio::test]
async fn a_process_killed_on_a_full_disk_loses_nothing_acknowledged() {
    let Some(disk) = SmallDisk::new("size=3m") else { return };
    let store = open_shared(disk.path());
    let claim = created(&store, 1).await;
    let head = fill(&store, claim).await;
    // As a killed process would: the store is never closed.
    std::mem::forget(store);
    let copy = tempfile::tempdir().unwrap();
    for name in ["stepwell.db", "stepwell.db-wal"] {
        let (from, to) = (disk.path().join(name), copy.path());
        assert!(std::process::Command::new("cp").arg(from).arg(to).status().unwrap().success());
    }
    let store = open_shared(copy.path());
    assert_eq!(read_all(&store, id(1)).await.len() as u64, head);
}

/// Runs a pragma on the write connection.
async fn set(store: &Arc<SqliteStore>, pragma: &'static str) {
    let work = move |conn: &Connection| {
        conn.execute_batch(pragma)?;
        Ok(Ok::<_, StoreError>(()))
    };
    store.writer().unwrap().submit(About::all("test"), work).await.unwrap();
}

#[tokio::test]
async fn a_full_file_is_said_and_work_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let shared: Shared = Arc::<SqliteStore>::clone(&store);
    let claim = created(&shared, 1).await;
    set(&store, "PRAGMA max_page_count = 150").await;
    let head = fill(&shared, claim).await;
    let make_room = async || set(&store, "PRAGMA max_page_count = 100000").await;
    assert_goes_on(&shared, claim, head, make_room).await;
    drop((shared, store));
    assert_eq!(integrity(folder.path()), "ok");
}

#[tokio::test]
async fn a_large_write_that_finds_no_room_does_not_hurt_small_ones() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let shared: Shared = Arc::<SqliteStore>::clone(&store);
    let large = created(&shared, 1).await;
    let small = created(&shared, 2).await;
    set(&store, "PRAGMA max_page_count = 60").await;
    let text = noise(3_000_000, 1);
    let (large, small) = tokio::join!(
        shared.append(large, append(id(1), 1, &text)),
        shared.append(small, append(id(2), 1, "x")),
    );
    assert!(
        matches!(large, Err(AppendError::Unavailable(StoreError::DiskFull { .. }))),
        "{large:?}"
    );
    assert_eq!(small.unwrap().0, 2);
}

#[tokio::test]
async fn a_file_that_turns_read_only_is_said_and_work_goes_on_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let shared: Shared = Arc::<SqliteStore>::clone(&store);
    let claim = created(&shared, 1).await;
    set(&store, "PRAGMA query_only = 1").await;
    match shared.append(claim, append(id(1), 1, "x")).await {
        Err(AppendError::Unavailable(error @ StoreError::ReadOnly { .. })) => {
            assert!(error.to_string().contains("make it writable"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(read_all(&shared, id(1)).await.len(), 1);
    // The connection was opened anew, and now it can.
    assert_eq!(shared.append(claim, append(id(1), 1, "x")).await.unwrap().0, 2);
}

#[cfg(unix)]
#[tokio::test]
async fn a_store_that_was_taken_away_acknowledges_nothing_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let store = open_shared(&here);
    let claim = created(&store, 1).await;
    std::fs::rename(&here, &there).unwrap();
    for _ in 0..2 {
        let error = store.append(claim, append(id(1), 1, "x")).await.unwrap_err().to_string();
        assert!(error.contains("its stepwell.db was removed or replaced"), "{error}");
    }
    assert!(!here.exists(), "no second store was begun");
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("stepwell.db"), "another").unwrap();
    store.append(claim, append(id(1), 1, "x")).await.unwrap_err();
    std::fs::remove_dir_all(&here).unwrap();
    std::fs::rename(&there, &here).unwrap();
    assert_eq!(store.append(claim, append(id(1), 1, "x")).await.unwrap().0, 2);
    drop(store);
    let store = open_shared(&here);
    assert_eq!(read_all(&store, id(1)).await.len(), 2);
}
