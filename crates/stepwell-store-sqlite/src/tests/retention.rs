//! Deleting in a file: pieces, crashes between them, old files, and what an append pays for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use stepwell_core::Seq;
use stepwell_core::codec::blob_ref;
use stepwell_core::state::ForkedFrom;
use stepwell_ports::conformance::fixtures::{
    Shared, append, append_all, approval, create, created, id, message, new_session, read_all,
    swept, whole,
};
use stepwell_ports::memory::{Prepared, prepare, prepare_new};
use stepwell_ports::{ApprovalFilter, DeleteOnly, Deleted, Swept};
use tokio::task::JoinSet;

use super::common::{OLD_STORE, by_hand, database, integrity, noise, open, open_shared};
use crate::blob::pack_all;
use crate::open::write_connection;
use crate::write::{self, Write};

/// Longest that the writer may need for some thousand events when it is idle.
const PATIENCE: Duration = Duration::from_secs(60);

/// Rows that a deleted session may have left anywhere.
pub(super) fn rest(folder: &Path) -> Vec<(&'static str, i64)> {
    let conn = Connection::open(database(folder)).unwrap();
    let orphans = "WHERE session NOT IN (SELECT key FROM sessions)";
    let unnamed = "WHERE address NOT IN (SELECT address FROM blob_refs)";
    [
        ("deletions", ""),
        ("events", orphans),
        ("approvals", orphans),
        ("snapshots", orphans),
        ("client_keys", orphans),
        ("blob_refs", orphans),
        ("blobs", unnamed),
    ]
    .map(|(table, condition)| {
        let query = format!("SELECT count(*) FROM {table} {condition}");
        (table, conn.query_row(&query, [], |row| row.get(0)).unwrap())
    })
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .collect()
}

fn large(letter: &str) -> String {
    letter.repeat(30_000)
}

/// A session with that many events after the first, approvals, and two payloads, one of which the
/// session 2 has too.
async fn filled(store: &Shared, events: u64) {
    let claim = created(store, 1).await;
    let bodies = (0..events).map(|n| message(&format!("event {n}")).into()).collect();
    let mut write = append_all(id(1), 1, bodies);
    write.approvals = (1..=events / 2).map(|n| approval(id(1), n, n)).collect();
    store.append(claim, write).await.unwrap();
    for text in [large("own"), large("shared")] {
        let head = store.session(id(1)).await.unwrap().unwrap().row.head_seq.0;
        store.append(claim, append(id(1), head, &text)).await.unwrap();
    }
    let other = created(store, 2).await;
    store.append(other, append(id(2), 1, &large("shared"))).await.unwrap();
}

/// The other session has all that it had.
async fn other_is_whole(store: &Shared) {
    let events = read_all(store, id(2)).await;
    assert_eq!(events.len(), 2);
    assert_eq!(whole(store, &events[1]).await, message(&large("shared")).into());
}

#[tokio::test]
async fn the_writer_removes_the_rest_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    filled(&store, 3_000).await;
    store.delete(id(1), &DeleteOnly::default()).await.unwrap();
    let removed = async {
        while !rest(folder.path()).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, removed).await.expect("the writer has nothing else to do");
    other_is_whole(&store).await;
}

/// A store that is never idle removes the rest all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_goes_although_the_writer_never_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    filled(&store, 300).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for n in 3..7 {
        let (store, stop) = (store.clone(), stop.clone());
        let claim = created(&store, n).await;
        tasks.spawn(async move {
            for seq in 1.. {
                store.append(claim, append(id(n), seq, "x")).await.unwrap();
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
    }
    store.delete(id(1), &DeleteOnly::default()).await.unwrap();
    let removed = async {
        while !rest(folder.path()).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, removed).await.expect("a piece goes in now and then");
    stop.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    other_is_whole(&store).await;
}

/// A process that ends after any number of pieces: the next one goes on where it was.
#[tokio::test]
async fn deleting_goes_on_after_an_end_between_any_two_pieces() {
    for pieces in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let store = open_shared(folder.path());
        filled(&store, 300).await;
        drop(store);
        let is_done = delete_partly(folder.path(), pieces);
        assert_eq!(rest(folder.path()).is_empty(), is_done, "after {pieces} pieces");
        let store = open_shared(folder.path());
        assert_eq!(store.session(id(1)).await.unwrap(), None);
        assert_eq!(store.approvals(&ApprovalFilter::default(), None, 9).await.unwrap().rows, []);
        other_is_whole(&store).await;
        swept(&store).await;
        other_is_whole(&store).await;
        drop(store);
        assert_eq!(rest(folder.path()), [], "after {pieces} pieces");
        assert_eq!(integrity(folder.path()), "ok");
        if is_done {
            assert!(pieces >= 3, "the pieces are small");
            return;
        }
    }
}

/// Deletes session 1 and removes so many pieces, as a writer that is killed then; says whether
/// nothing was left to do.
fn delete_partly(folder: &Path, pieces: usize) -> bool {
    let conn = write_connection(&database(folder)).unwrap();
    let outcome = write::delete(&conn, id(1), &DeleteOnly::default()).unwrap();
    assert_eq!(outcome, Deleted::Yes);
    (0..pieces).any(|_| write::sweep(&conn).unwrap().is_done)
}

/// So that a write that comes meanwhile waits for little.
#[tokio::test]
async fn a_piece_is_bounded_in_rows_and_in_bytes() {
    for (bytes, rows_max) in [(10, 128), (16_000, 68)] {
        let folder = tempfile::tempdir().unwrap();
        let store = open_shared(folder.path());
        let claim = created(&store, 1).await;
        let text = noise(bytes, 1);
        let bodies = (0..500).map(|_| message(&text).into()).collect();
        store.append(claim, append_all(id(1), 1, bodies)).await.unwrap();
        drop(store);
        let conn = write_connection(&database(folder.path())).unwrap();
        write::delete(&conn, id(1), &DeleteOnly::default()).unwrap();
        let mut removed = 0;
        loop {
            let Swept { events, is_done, .. } = write::sweep(&conn).unwrap();
            assert!(events <= rows_max, "{events} events of {bytes} bytes in one piece");
            removed += events;
            if is_done {
                break;
            }
        }
        assert_eq!(removed, 501);
    }
}

/// The pages of what was deleted are used again: a store that is pruned does not grow for ever.
#[tokio::test]
async fn freed_pages_are_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let pages = || -> i64 {
        let conn = Connection::open(database(folder.path())).unwrap();
        conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap()
    };
    let mut first = 0;
    for round in 0..4 {
        let claim = created(&store, 1).await;
        let bodies = (0..500).map(|n| message(&noise(2_000, n)).into()).collect();
        store.append(claim, append_all(id(1), 1, bodies)).await.unwrap();
        store.append(claim, append(id(1), 501, &noise(500_000, 9))).await.unwrap();
        store.delete(id(1), &DeleteOnly::default()).await.unwrap();
        swept(&store).await;
        if round == 0 {
            first = pages();
        }
    }
    let last = pages();
    assert!(last <= first + first / 10, "{first} pages became {last}");
}

/// What an append writes: a step without payloads pays nothing for deleting.
#[tokio::test]
async fn references_cost_one_row_for_each_payload_and_nothing_without() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let conn = write_connection(&database(folder.path())).unwrap();
    let new = prepare_new(new_session(id(1))).unwrap();
    let rows = conn.total_changes();
    let created = write::create(&conn, &new, &[]).unwrap().unwrap();
    assert_eq!(conn.total_changes() - rows, 2, "the session and its event");
    let stepwell_ports::store::Created::New(claim) = created else { panic!("{created:?}") };
    for (text, seq, expected) in [
        ("small".to_owned(), 1, 2),
        (large("x"), 2, 4),
        // Known to the store, and to the session.
        (large("x"), 3, 2),
    ] {
        let mut prepared: Prepared = prepare(id(1), append(id(1), seq, &text)).unwrap();
        let blobs = pack_all(id(1), &mut prepared).await.unwrap();
        let rows = conn.total_changes();
        write::append(&conn, claim, &Write { prepared, blobs }, None).unwrap().unwrap();
        assert_eq!(conn.total_changes() - rows, expected, "seq {seq}");
    }
}

/// A store of an earlier release learns which payloads belong to whom.
#[tokio::test]
async fn an_older_store_is_brought_forward_with_its_payloads() {
    let folder = tempfile::tempdir().unwrap();
    by_hand(folder.path(), OLD_STORE);
    let (own, shared, of_damaged) = (large("own"), large("shared"), large("lost"));
    let conn = Connection::open(database(folder.path())).unwrap();
    for n in [1, 2] {
        conn.execute(
            "INSERT INTO sessions VALUES (?1, ?2, 'completed', 0, 2, 1, 'node', NULL, 1, 0, 0, 0, 1,
                 1, 'a', 1, '[]', 't', 'e')",
            (n, id(n as u64).to_string()),
        )
        .unwrap();
    }
    conn.execute("INSERT INTO client_keys VALUES ('order-1', 1, 'request 1')", []).unwrap();
    conn.execute(
        "INSERT INTO approvals VALUES (1, 2, '1.1', 'may_run', 't', '{}', 'd', 'r', 1, NULL,
             'approved', 'ada', 2, '')",
        [],
    )
    .unwrap();
    let reference = |text: &str| format!(r#"{{"content":{{"blob":"{}"}}}}"#, blob_ref(text).blob);
    let with_full_output =
        format!(r#"{{"output":"x","full_output":{{"blob":"{}"}}}}"#, blob_ref(&shared).blob);
    let damaged = format!("{} and rubbish", reference(&of_damaged));
    for (session, seq, body) in [
        (1, 1, reference(&own)),
        (1, 2, with_full_output),
        (2, 1, reference(&shared)),
        (2, 2, damaged),
    ] {
        conn.execute(
            "INSERT INTO events (session, seq, time, cause, actor, kind, schema, body)
             VALUES (?1, ?2, 1, 1, 'engine', 'k', 1, ?3)",
            (session, seq, body),
        )
        .unwrap();
    }
    for text in [&own, &shared, &of_damaged] {
        let data = crate::blob::compress(text.as_bytes()).unwrap();
        let values = (blob_ref(text).blob, text.len() as i64, data);
        conn.execute("INSERT INTO blobs VALUES (?1, ?2, ?3)", values).unwrap();
    }
    drop(conn);
    let store: Shared = Arc::new(open(folder.path()));
    let approvals = store.approvals(&ApprovalFilter::default(), None, 9).await.unwrap();
    assert_eq!(approvals.rows.len(), 1, "approvals were carried over");
    assert_eq!(
        store.delete(id(1), &DeleteOnly::default()).await.unwrap(),
        Deleted::Yes,
        "nothing refers to the row"
    );
    swept(&store).await;
    let has = async |text: &str| store.blob(&blob_ref(text).blob).await.unwrap().is_some();
    assert!(!has(&own).await, "nobody refers to it any more");
    assert!(has(&shared).await, "the other session does");
    assert!(has(&of_damaged).await, "whose it is cannot be told, so it stays");
    assert!(store.keyed("order-1").await.unwrap().unwrap().is_deleted);
    drop(store);
    assert_eq!(integrity(folder.path()), "ok");
}

/// Makes a fork of session 1 that begins with so many events of it.
async fn forked(store: &Shared, n: u64, seq: u64) {
    let mut fork = new_session(id(n));
    fork.beginning = Some(ForkedFrom { session_id: id(1), seq: Seq(seq) });
    fork.append = append(id(n), seq, "own words");
    fork.append.row.parent = fork.beginning;
    create(store, fork).await;
}

/// JSON can write one name in many ways, and an imported event is kept as it was written.
#[tokio::test]
async fn a_fork_finds_its_payloads_however_their_name_is_written() {
    for name in [r#""blob":"#, r#""blob" : "#, r#""\u0062lob":"#, r#""bl\u006Fb" :"#] {
        let folder = tempfile::tempdir().unwrap();
        let (early, late) = (large("early"), large("late"));
        let store = open_shared(folder.path());
        let claim = created(&store, 1).await;
        for (seq, text) in [(1, &early), (2, &late)] {
            store.append(claim, append(id(1), seq, text)).await.unwrap();
        }
        drop(store);
        let sql = format!("UPDATE events SET body = replace(body, '\"blob\":', '{name}')");
        by_hand(folder.path(), &sql);
        let store = open_shared(folder.path());
        forked(&store, 2, 2).await;
        store.delete(id(1), &DeleteOnly::default()).await.unwrap();
        swept(&store).await;
        let has = async |text: &str| store.blob(&blob_ref(text).blob).await.unwrap().is_some();
        assert_eq!((has(&early).await, has(&late).await), (true, false), "{name}");
    }
}

/// What an earlier release gave to forks too much is taken away, and nothing else.
#[tokio::test]
async fn forks_of_an_older_store_keep_only_the_payloads_of_their_own_events() {
    let folder = tempfile::tempdir().unwrap();
    let (early, late, gone) = (large("early"), large("late"), large("gone"));
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    for (seq, text) in [(1, &early), (2, &late)] {
        store.append(claim, append(id(1), seq, text)).await.unwrap();
    }
    forked(&store, 2, 2).await;
    forked(&store, 3, 2).await;
    drop(store);
    // As earlier releases left it: forks have too much, also what no other session has any more. The
    // session 3 has an event that is damaged, so what it needs cannot be known.
    let gone_bytes = gone.bytes().map(|it| format!("{it:02x}")).collect::<Vec<_>>().concat();
    let (late_at, gone_at) = (blob_ref(&late).blob, blob_ref(&gone).blob);
    by_hand(
        folder.path(),
        &format!(
            "INSERT INTO blobs VALUES ('{gone_at}', 1, x'{gone_bytes}'), ('damaged', 1, x'00');
             INSERT INTO blob_refs VALUES (2, '{late_at}'), (2, '{gone_at}'), (3, 'damaged');
             UPDATE events SET body = body || '!' WHERE session = 3 AND seq = 1;
             PRAGMA user_version = 9;"
        ),
    );
    drop(open(folder.path()));
    let conn = Connection::open(database(folder.path())).unwrap();
    let refs = |session: i64| -> Vec<String> {
        let mut query =
            conn.prepare("SELECT address FROM blob_refs WHERE session = ?1 ORDER BY 1").unwrap();
        query.query_map([session], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let early_at = blob_ref(&early).blob;
    let mut both = vec![early_at.clone(), late_at.clone()];
    both.sort_unstable();
    assert_eq!(refs(1), both);
    assert_eq!(refs(2), std::slice::from_ref(&early_at));
    let mut kept = vec![early_at, "damaged".to_owned()];
    kept.sort_unstable();
    assert_eq!(refs(3), kept);
    let left = |address: &str| -> bool {
        let query = "SELECT EXISTS (SELECT 1 FROM blobs WHERE address = ?1)";
        conn.query_row(query, [address], |row| row.get(0)).unwrap()
    };
    assert_eq!((left(&late_at), left(&gone_at), left("damaged")), (true, false, true));
}
