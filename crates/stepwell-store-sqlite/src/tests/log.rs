//! The write-ahead log stays small.

use rusqlite::Connection;
use stepwell_ports::Claim;
use stepwell_ports::conformance::fixtures::{Shared, append, created, id, read_all};

use super::common::{database, log_bytes, noise, open_shared};
use crate::write::KEPT_LOG_BYTES;

/// Bytes of one event in these tests. The log gets a little more.
const PAYLOAD_BYTES: usize = 500_000;

async fn write_bytes(store: &Shared, claim: Claim, head: &mut u64, bytes: u64) {
    let noise = noise(PAYLOAD_BYTES, 1);
    for _ in 0..=bytes / PAYLOAD_BYTES as u64 {
        // Another payload each time, for payloads are shared.
        let text = format!("{head} {noise}");
        *head = store.append(claim, append(id(1), *head, &text)).await.unwrap().0;
    }
}

/// The writer looks at the log after it has answered: one more write, and it has looked.
async fn settle(store: &Shared, claim: Claim, head: &mut u64) {
    for _ in 0..3 {
        *head = store.append(claim, append(id(1), *head, "x")).await.unwrap().0;
    }
}

#[tokio::test]
async fn the_log_is_copied_before_it_grows_large() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    let (mut head, kept) = (1, KEPT_LOG_BYTES as u64);
    for _ in 0..4 {
        write_bytes(&store, claim, &mut head, kept / 2).await;
        let bytes = log_bytes(folder.path());
        assert!(bytes <= kept, "{bytes} bytes of log, {kept} may be kept");
    }
}

/// Case du27.
#[tokio::test]
async fn a_long_reader_lets_the_log_grow_and_its_end_shrinks_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    let (mut head, kept) = (1, KEPT_LOG_BYTES as u64);
    let reader = Connection::open(database(folder.path())).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = |reader: &Connection| -> u32 {
        reader.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(&reader), 1);
    write_bytes(&store, claim, &mut head, 2 * kept).await;
    assert!(log_bytes(folder.path()) > kept, "somebody else's reader holds it");
    assert_eq!(count(&reader), 1, "and sees what it saw");
    reader.execute_batch("COMMIT").unwrap();
    // It is looked at again once it has grown by as much as makes it worth a look.
    write_bytes(&store, claim, &mut head, kept).await;
    settle(&store, claim, &mut head).await;
    let bytes = log_bytes(folder.path());
    assert!(bytes <= kept, "{bytes} bytes of log, {kept} may be kept");
    assert_eq!(read_all(&store, id(1)).await.len() as u64, head);
}
