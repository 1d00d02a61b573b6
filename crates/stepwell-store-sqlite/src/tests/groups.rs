//! Writes that share a transaction.

use std::sync::{Arc, mpsc};

use rusqlite::Connection;
use stepwell_core::{Fence, Seq};
use stepwell_ports::conformance::fixtures::{append, created, id, new_session, read_all};
use stepwell_ports::memory::{prepare, prepare_new};
use stepwell_ports::{AppendError, Claim, Store as _, StoreError};
use tokio::task::JoinSet;

use super::common::{database, open, open_shared};
use crate::SqliteStore;
use crate::error::About;
use crate::open::write_connection;
use crate::write::{self, Write};

/// Keeps the writer busy until the returned sender is used, so that what is sent meanwhile becomes
/// one group.
fn hold_writer(
    store: &Arc<SqliteStore>,
    tasks: &mut JoinSet<Result<(), StoreError>>,
) -> mpsc::SyncSender<()> {
    let (release, held) = mpsc::sync_channel(1);
    let store = Arc::clone(store);
    tasks.spawn(async move {
        let mut held = Some(held);
        let wait = move |_: &Connection| {
            // Only once: it is run again when it shares its group with one that fails.
            if let Some(held) = held.take() {
                held.recv().unwrap();
            }
            Ok(Ok(()))
        };
        store.writer()?.submit(About::all("hold"), wait).await
    });
    release
}

/// Lets every task run until it waits.
async fn let_all_wait() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_write_that_fails_half_way_is_undone_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let mut tasks = JoinSet::new();
    let release = hold_writer(&store, &mut tasks);
    let_all_wait().await;
    for n in 0..20_i64 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let write = move |conn: &Connection| {
                conn.execute("INSERT INTO nodes (node, seen_at) VALUES (?1, ?2)", (n, n))?;
                if n == 7 {
                    // The name is taken: by the row above.
                    conn.execute("INSERT INTO nodes (node, seen_at) VALUES (?1, ?2)", (n, n))?;
                }
                Ok(Ok(()))
            };
            let outcome: Result<(), StoreError> =
                store.writer()?.submit(About::all("test"), write).await;
            assert_eq!(outcome.is_err(), n == 7, "{n}: {outcome:?}");
            Ok::<_, StoreError>(())
        });
    }
    let_all_wait().await;
    release.send(()).unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    let nodes: Vec<String> = store.nodes().await.unwrap().into_iter().map(|it| it.node).collect();
    let mut expected: Vec<String> =
        (0..20).filter(|n| *n != 7).map(|n: i32| n.to_string()).collect();
    expected.sort_unstable();
    assert_eq!(nodes, expected);
}

#[tokio::test]
async fn what_waits_when_the_store_is_closed_is_still_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    // A caller that gives up after its write was sent: the write stays.
    let mut write = Box::pin(store.append(claim, append(id(1), 1, "x")));
    let once = std::future::poll_fn(|context| {
        std::task::Poll::Ready(write.as_mut().poll(context).is_ready())
    });
    once.await;
    drop(write);
    drop(store);
    let store = open_shared(folder.path());
    assert_eq!(read_all(&store, id(1)).await.len(), 2);
}

/// Case du25: the write lock is taken at the start, so nobody is told "database is locked".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_writer_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    let other = Connection::open(super::common::database(folder.path())).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE sessions SET title = 'by hand'").unwrap();
    let mut tasks = JoinSet::new();
    let appending = Arc::clone(&store);
    tasks.spawn(async move { appending.append(claim, append(id(1), 1, "x")).await });
    let_all_wait().await;
    // Reading goes on while both write.
    assert_eq!(read_all(&store, id(1)).await.len(), 1);
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(tasks.join_next().await.unwrap().unwrap().unwrap().0, 2);
}

/// The hint of an append is another session's name, no session's, or that of a session which changed
/// hands: the append goes where it belongs, or is refused as ever.
#[test]
fn a_wrong_hint_costs_time_only() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let conn = write_connection(&database(folder.path())).unwrap();
    for n in [1, 2] {
        let new = prepare_new(new_session(id(n))).unwrap();
        write::create(&conn, &new, &[]).unwrap().unwrap();
    }
    let claim = |fence| Claim { session_id: id(1), fence: Fence(fence) };
    let write = |seq| Write {
        prepared: prepare(id(1), append(id(1), seq, "more")).unwrap(),
        blobs: Vec::new(),
    };
    for (seq, hint) in [(1, None), (2, Some(2)), (3, Some(99)), (4, Some(1))] {
        let done = write::append(&conn, claim(1), &write(seq), hint).unwrap().unwrap();
        assert_eq!(done, (Seq(seq + 1), 1), "hint {hint:?}");
    }
    let fenced = write::append(&conn, claim(2), &write(5), Some(1)).unwrap();
    assert!(matches!(fenced, Err(AppendError::Fenced { .. })), "{fenced:?}");
    let behind = write::append(&conn, claim(1), &write(3), Some(1)).unwrap();
    assert!(matches!(behind, Err(AppendError::Conflict { .. })), "{behind:?}");
}

#[tokio::test]
async fn a_state_for_the_cache_does_not_wait_for_ever_for_another_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    created(&store, 1).await;
    store.put_checkpoint(id(1), Seq(1), 1, b"outline".to_vec()).await.unwrap();
    while store.checkpoint(id(1), Seq(1), 1).await.unwrap().is_none() {}
}
