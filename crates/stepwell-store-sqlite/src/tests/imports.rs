//! What an import leaves behind whose process ended.

use rusqlite::Connection;
use stepwell_core::codec::{EVENT_SCHEMA, encode};
use stepwell_core::{EventBody, Seq};
use stepwell_ports::conformance::fixtures::{created, event, id, message, read_all, swept};
use stepwell_ports::{AppendError, Checkpoint, Import, ImportPage, StoredEvent};

use super::common::{database, open_shared};

fn page(count: u64) -> ImportPage {
    let stored = |seq| {
        let event = event(seq, message("hello"));
        let body: EventBody = event.body;
        StoredEvent {
            seq: event.seq,
            time: event.time,
            cause: event.cause,
            actor: event.actor.to_string(),
            kind: body.kind().as_str().to_owned(),
            schema: EVENT_SCHEMA,
            body: encode(&body).unwrap(),
        }
    };
    let events = (1..=count).map(stored).collect();
    let checkpoints = vec![Checkpoint { seq: Seq(1), version: 1, state: b"outline".to_vec() }];
    ImportPage { events, checkpoints, ..ImportPage::default() }
}

fn count(folder: &std::path::Path, table: &str) -> u32 {
    let conn = Connection::open(database(folder)).unwrap();
    conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn an_import_that_was_cut_off_is_gone_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let import = store.import_begin(id(1)).await.unwrap();
    store.import_events(import, page(50)).await.unwrap();
    created(&store, 2).await;
    drop(store);
    assert_eq!((count(folder.path(), "events"), count(folder.path(), "imports")), (51, 1));

    let store = open_shared(folder.path());
    let late: Result<_, AppendError> = store.import_events(import, page(1)).await;
    assert!(matches!(late, Err(AppendError::NotFound { .. })), "{late:?}");
    assert_eq!(read_all(&store, id(2)).await.len(), 1);
    assert_eq!(store.session(id(1)).await.unwrap(), None);
    swept(&store).await;
    drop(store);
    assert_eq!((count(folder.path(), "events"), count(folder.path(), "imports")), (1, 0));
    assert_eq!(count(folder.path(), "checkpoints"), 0);
}

#[tokio::test]
async fn a_dropped_import_goes_as_a_deleted_session_does() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let import: Import = store.import_begin(id(1)).await.unwrap();
    store.import_events(import, page(50)).await.unwrap();
    store.import_drop(import).await.unwrap();
    store.import_drop(import).await.unwrap();
    let late: Result<_, AppendError> = store.import_events(import, page(1)).await;
    assert!(matches!(late, Err(AppendError::NotFound { .. })), "{late:?}");
    let again = store.import_begin(id(1)).await.unwrap();
    assert_ne!(again.key, import.key, "a key is never given out twice");
    swept(&store).await;
    drop(store);
    assert_eq!((count(folder.path(), "events"), count(folder.path(), "imports")), (0, 1));
    assert_eq!(count(folder.path(), "checkpoints"), 0);
}
