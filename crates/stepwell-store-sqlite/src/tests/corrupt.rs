//! Damage is found where it is read, and hurts nobody else.

use std::path::Path;

use stepwell_core::{Seq, SessionId, Status};
use stepwell_ports::conformance::fixtures::{Shared, append, created, id, read_all};
use stepwell_ports::{SessionFilter, StoreError};

use crate::SqliteStore;

use super::common::{by_hand, database, noise, open_shared};
use crate::schema::PAGE_BYTES;

#[track_caller]
fn assert_corrupt<T: std::fmt::Debug>(
    outcome: Result<T, StoreError>,
    session_id: SessionId,
    wanted: &str,
) {
    match outcome {
        Err(StoreError::Corrupt { place, reason }) => {
            assert_eq!(place, format!("session {session_id}"));
            assert!(reason.contains(wanted), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

async fn two_sessions(folder: &Path) {
    let store = open_shared(folder);
    for n in 1..=2 {
        let claim = created(&store, n).await;
        for seq in 1..=4 {
            store.append(claim, append(id(n), seq, &format!("event of {n}"))).await.unwrap();
        }
    }
}

/// The other session is as it was, and the damaged one can be marked.
async fn assert_others_go_on(store: &Shared) {
    assert_eq!(read_all(store, id(2)).await.len(), 5);
    let claim = store.claim(id(2), "next").await.unwrap();
    store.append(claim, append(id(2), 5, "goes on")).await.unwrap();
    created(store, 3).await;
    store.quarantine(id(1), "its log is damaged").await.unwrap();
    let page = store.sessions(&SessionFilter::default(), None, 10).await.unwrap();
    assert_eq!(page.rows.len(), 3);
    let marked = page.rows.iter().find(|it| it.session_id == id(1)).unwrap();
    assert_eq!(marked.status, Status::Quarantined);
}

/// Case du10.
#[tokio::test]
async fn a_missing_event_is_named() {
    for (sql, wanted) in [
        ("DELETE FROM events WHERE session = 1 AND seq = 3", "event 3 is missing"),
        ("DELETE FROM events WHERE session = 1 AND seq = 1", "event 1 is missing"),
        ("DELETE FROM events WHERE session = 1 AND seq = 5", "event 5 is missing"),
        ("UPDATE events SET seq = 9 WHERE session = 1 AND seq = 4", "event 4 is missing"),
        ("UPDATE sessions SET head = 4 WHERE key = 1", "event 5 stands behind its head 4"),
        ("UPDATE events SET schema = -1 WHERE session = 1 AND seq = 2", "out of range"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        two_sessions(folder.path()).await;
        by_hand(folder.path(), sql);
        let store = open_shared(folder.path());
        assert_corrupt(store.read(id(1), Seq(0), 100).await, id(1), wanted);
        assert_others_go_on(&store).await;
    }
}

#[tokio::test]
async fn a_gap_is_found_on_its_page_only() {
    let folder = tempfile::tempdir().unwrap();
    two_sessions(folder.path()).await;
    by_hand(folder.path(), "DELETE FROM events WHERE session = 1 AND seq = 3");
    let store = open_shared(folder.path());
    assert_eq!(store.read(id(1), Seq(0), 2).await.unwrap().events.len(), 2);
    assert_eq!(store.read(id(1), Seq(3), 9).await.unwrap().events.len(), 2);
    assert_corrupt(store.read(id(1), Seq(2), 1).await, id(1), "event 3 is missing");
}

#[tokio::test]
async fn an_unknown_status_hurts_its_session() {
    let folder = tempfile::tempdir().unwrap();
    two_sessions(folder.path()).await;
    by_hand(folder.path(), "UPDATE sessions SET status = 'dancing', busy = 0 WHERE key = 1");
    let store = open_shared(folder.path());
    assert_corrupt(store.session(id(1)).await, id(1), "dancing");
    assert_others_go_on(&store).await;
}

/// Overwrites every page that holds the one text and not the other.
fn destroy_pages(folder: &Path, of: &str, but_not: &str) -> usize {
    let has = |page: &[u8], text: &str| page.windows(text.len()).any(|it| it == text.as_bytes());
    let mut file = std::fs::read(database(folder)).unwrap();
    let mut destroyed = 0;
    for page in file.chunks_mut(PAGE_BYTES as usize).skip(1) {
        if has(page, of) && !has(page, but_not) {
            page.fill(0xff);
            destroyed += 1;
        }
    }
    std::fs::write(database(folder), file).unwrap();
    destroyed
}

#[tokio::test]
async fn a_destroyed_page_hurts_only_who_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    for n in [2, 1, 9] {
        let claim = created(&store, n).await;
        for seq in 1..=4 {
            // Long enough that the middle ones share no page with another session.
            let text = format!("event-of-{n} ").repeat(900);
            store.append(claim, append(id(n), seq, &text)).await.unwrap();
        }
    }
    drop(store);
    assert_eq!(SqliteStore::find_damage(folder.path()).unwrap(), None);
    assert!(destroy_pages(folder.path(), "event-of-1", "event-of-2") > 0);
    assert!(SqliteStore::find_damage(folder.path()).unwrap().is_some());
    let store = open_shared(folder.path());
    assert_corrupt(store.read(id(1), Seq(0), 100).await, id(1), "malformed");
    // Again, and from other pages of the cache.
    assert_corrupt(store.read(id(1), Seq(0), 100).await, id(1), "malformed");
    assert_eq!(read_all(&store, id(2)).await.len(), 5);
    let claim = store.claim(id(2), "next").await.unwrap();
    store.append(claim, append(id(2), 5, "goes on")).await.unwrap();
    created(&store, 3).await;
    store.quarantine(id(1), "its log is damaged").await.unwrap();
}

#[tokio::test]
async fn a_changed_payload_is_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let payload = noise(40_000, 1);
    let address = stepwell_core::codec::blob_ref(&payload).blob;
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    store.append(claim, append(id(1), 1, &payload)).await.unwrap();
    drop(store);
    for sql in [
        "UPDATE blobs SET data = x'28b52ffd00'",
        "UPDATE blobs SET bytes = bytes - 1",
        "UPDATE blobs SET bytes = 1 << 40",
        "UPDATE blobs SET data = x'28b52ffd0401000061', bytes = 1",
    ] {
        by_hand(folder.path(), sql);
        let store = open_shared(folder.path());
        match store.blob(&address).await {
            Err(StoreError::Corrupt { reason, .. }) => {
                assert!(reason.contains(&address), "{reason}");
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_as_good_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    created(&store, 1).await;
    store.put_snapshot(id(1), Seq(1), 1, vec![5; 900]).await.unwrap();
    drop(store);
    assert!(open_shared(folder.path()).snapshot(id(1), 1).await.unwrap().is_some());
    by_hand(folder.path(), "UPDATE snapshots SET state = x'00112233'");
    assert_eq!(open_shared(folder.path()).snapshot(id(1), 1).await.unwrap(), None);
}

#[tokio::test]
async fn the_check_names_each_session_that_cannot_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let payload = noise(40_000, 1);
    let store = open_shared(folder.path());
    for n in 1..=5 {
        let claim = created(&store, n).await;
        for seq in 1..=4 {
            store.append(claim, append(id(n), seq, &format!("event of {n}"))).await.unwrap();
        }
        if n == 4 {
            store.append(claim, append(id(n), 5, &payload)).await.unwrap();
        }
    }
    drop(store);
    let check = || SqliteStore::check_sessions(folder.path(), &mut |_| {}).unwrap();
    let whole = check();
    assert_eq!((whole.sessions, whole.events, whole.damaged), (5, 26, 0), "{whole:?}");
    for sql in [
        "DELETE FROM events WHERE session = 1 AND seq = 3",
        "DELETE FROM events WHERE session = 2 AND seq > 2",
        "UPDATE events SET kind = 'from_nowhere' WHERE session = 3 AND seq = 2",
        "DELETE FROM blobs",
    ] {
        by_hand(folder.path(), sql);
    }
    let mut seen = 0;
    let found = SqliteStore::check_sessions(folder.path(), &mut |_| seen += 1).unwrap();
    assert!(seen >= 5, "{seen}");
    assert_eq!((found.sessions, found.damaged), (5, 4), "{found:?}");
    for (n, words) in [
        (1, "event 3 is missing"),
        (2, "event 3 is missing"),
        (3, "event 2: "),
        (4, "event 6: payload"),
    ] {
        let named = found.named.iter().find(|it| it.session_id == id(n).to_string()).unwrap();
        assert!(named.reason.contains(words), "{named:?}");
    }
}

#[tokio::test]
async fn the_check_counts_all_damaged_sessions_and_names_some() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    for n in 1..=30 {
        created(&store, n).await;
    }
    drop(store);
    by_hand(folder.path(), "DELETE FROM events");
    let found = SqliteStore::check_sessions(folder.path(), &mut |_| {}).unwrap();
    assert_eq!((found.sessions, found.damaged, found.named.len()), (30, 30, 10));
}

/// Everything that can happen to a payload, and each session that refers to it is named.
#[tokio::test]
async fn the_check_reads_the_payloads_that_sessions_refer_to() {
    let (shared, own) = (noise(40_000, 1), noise(50_000, 2));
    let other = shared.to_uppercase();
    let address = stepwell_core::codec::blob_ref(&shared).blob;
    let swapped = crate::blob::compress(other.as_bytes()).unwrap();
    let swapped = swapped.iter().map(|it| format!("{it:02x}")).collect::<Vec<_>>().concat();
    for (changed, words) in [
        ("data = x'00'".to_owned(), "Src size is incorrect"),
        (format!("data = x'{swapped}'"), "it is not what was written"),
        ("bytes = bytes + 1".to_owned(), "bytes where"),
        ("bytes = -1".to_owned(), "out of range"),
        ("address = 'elsewhere'".to_owned(), "is missing"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = open_shared(folder.path());
        for (n, payload) in [(1, &shared), (2, &own), (3, &shared)] {
            let claim = created(&store, n).await;
            store.append(claim, append(id(n), 1, payload)).await.unwrap();
            // Again: a payload is read once, however often it is referred to.
            store.append(claim, append(id(n), 2, payload)).await.unwrap();
        }
        drop(store);
        let whole = SqliteStore::check_sessions(folder.path(), &mut |_| {}).unwrap();
        assert_eq!((whole.payloads, whole.damaged), (2, 0), "{whole:?}");
        let sql = format!("UPDATE blobs SET {changed} WHERE address = '{address}'");
        by_hand(folder.path(), &sql);
        let found = SqliteStore::check_sessions(folder.path(), &mut |_| {}).unwrap();
        let named: Vec<&str> = found.named.iter().map(|it| it.session_id.as_str()).collect();
        assert_eq!(named, [id(1).to_string(), id(3).to_string()], "{words}");
        for it in &found.named {
            let reason = &it.reason;
            assert!(reason.starts_with(&format!("event 2: payload {address}")), "{reason}");
            assert!(reason.contains(words), "{words}: {reason}");
        }
    }
}

/// Gives the session 1 a first event that says more, and a row that says the same.
fn begin_with_words(folder: &Path) {
    let created =
        include_str!("../../../stepwell-core/tests/golden/events/v3/session_created.bare.json");
    let body = created.trim().replace('\'', "''");
    by_hand(
        folder,
        &format!(
            "UPDATE events SET kind = 'session_created', schema = 3, body = '{body}'
             WHERE session = 1 AND seq = 1;
             UPDATE sessions SET title = (SELECT json_extract('{body}', '$.title')),
                 agent = (SELECT json_extract('{body}', '$.agent.name')) WHERE key = 1"
        ),
    );
}

/// A row that was changed by hand contradicts nothing in SQLite's eyes.
#[tokio::test]
async fn the_check_compares_what_lists_show_with_the_history() {
    for (set, words) in [
        ("step = 9", None),
        ("explain = 'because'", None),
        ("status = 'quarantined', busy = 0", None),
        ("status = 'completed', busy = 0", Some("the status \"completed\", its history says")),
        ("title = 'another'", Some("the title \"another\", its history says")),
        ("agent = 'another'", Some("the agent \"another\", its history says")),
        ("status = 'dancing', busy = 0", Some("dancing")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        two_sessions(folder.path()).await;
        begin_with_words(folder.path());
        by_hand(folder.path(), &format!("UPDATE sessions SET {set} WHERE key = 1"));
        let found = SqliteStore::check_sessions(folder.path(), &mut |_| {}).unwrap();
        let reasons: Vec<_> = found.named.iter().map(|it| it.reason.as_str()).collect();
        assert_eq!(found.damaged, u64::from(words.is_some()), "{set}: {reasons:?}");
        if let Some(words) = words {
            assert!(reasons.len() == 1 && reasons[0].contains(words), "{set}: {reasons:?}");
        }
    }
}
