//! Who may open what.

use std::path::Path;

use stepwell_ports::conformance::fixtures::{
    Shared, append, create, created, id, new_session, read_all,
};
use stepwell_ports::{Store as _, StoreError};

use super::common::{SmallDisk, by_hand, database, log_bytes, open, open_shared, options};
use crate::folder::check_file_system;
use crate::schema;
use crate::{OpenError, SqliteOptions, SqliteStore};

#[track_caller]
fn refusal(opened: Result<SqliteStore, OpenError>) -> String {
    opened.map(|_| "it was opened").unwrap_err().to_string()
}

#[test]
fn a_second_writer_is_refused_and_told_who_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    let message = refusal(SqliteStore::open(folder.path(), &options()));
    let holder = format!("process {} since 2026-07-25T17:20:00Z", std::process::id());
    assert!(message.contains(&holder), "{message}");
    assert!(message.contains("stop that process, or choose another data folder"), "{message}");
    drop(first);
    open(folder.path());
}

#[tokio::test]
async fn a_closed_store_is_one_file_and_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    store.append(claim, append(id(1), 1, "x")).await.unwrap();
    drop(store);
    assert_eq!(log_bytes(folder.path()), 0);
    let store = open_shared(folder.path());
    assert_eq!(read_all(&store, id(1)).await.len(), 2);
    let again = store.claim(id(1), "another node").await.unwrap();
    assert_eq!(store.append(again, append(id(1), 2, "x")).await.unwrap().0, 3);
}

#[tokio::test]
async fn a_client_key_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut new = new_session(id(1));
    new.client_key = Some("order-7".into());
    create(&open_shared(folder.path()), new.clone()).await;
    let store = open_shared(folder.path());
    new.session_id = id(2);
    new.append.row.session_id = id(2);
    let again = store.create(new).await.unwrap();
    assert_eq!(again, stepwell_ports::store::Created::Existing(id(1)));
}

#[test]
fn the_store_of_a_newer_release_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    by_hand(folder.path(), "PRAGMA user_version = 99; UPDATE store_info SET value = '9.9.9'");
    let before = std::fs::read(database(folder.path())).unwrap();
    for message in [
        refusal(SqliteStore::open(folder.path(), &options())),
        refusal(SqliteStore::open_read_only(folder.path())),
    ] {
        assert!(message.contains("written by release 9.9.9 (schema 99)"), "{message}");
        assert!(message.contains("use release 9.9.9 or a later one"), "{message}");
    }
    assert_eq!(std::fs::read(database(folder.path())).unwrap(), before);
}

#[test]
fn the_store_of_an_older_release_is_brought_up_to_date_by_the_server_only() {
    for version in 1..schema::newest() {
        let folder = tempfile::tempdir().unwrap();
        by_hand(folder.path(), "PRAGMA journal_mode = WAL");
        by_hand(folder.path(), &schema::up_to(version));
        let message = refusal(SqliteStore::open_read_only(folder.path()));
        let newest = schema::newest();
        let expected = format!("has schema {version}, this release reads schema {newest}");
        assert!(message.contains(&expected), "{message}");
        drop(open(folder.path()));
        SqliteStore::open_read_only(folder.path()).unwrap();
    }
}

#[test]
fn another_file_of_that_name_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    by_hand(folder.path(), "CREATE TABLE songs (name)");
    let message = refusal(SqliteStore::open(folder.path(), &options()));
    assert!(message.contains("is not a store of Stepwell"), "{message}");
    std::fs::write(database(folder.path()), "not a database, but longer than a header ".repeat(99))
        .unwrap();
    for message in [
        refusal(SqliteStore::open(folder.path(), &options())),
        refusal(SqliteStore::open_read_only(folder.path())),
    ] {
        assert!(message.contains("is not a store of Stepwell"), "{message}");
    }
}

#[test]
fn reading_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    for place in [folder.path(), missing.as_path()] {
        let message = refusal(SqliteStore::open_read_only(place));
        assert!(message.starts_with("there is no store at "), "{message}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_lost_all_that_was_in_it_is_told_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    std::fs::write(database(folder.path()), "").unwrap();
    for message in [
        refusal(SqliteStore::open(folder.path(), &options())),
        refusal(SqliteStore::open_read_only(folder.path())),
        SqliteStore::find_damage(folder.path()).unwrap_err().to_string(),
    ] {
        assert!(message.contains("is empty (0 bytes)") && message.contains("backup"), "{message}");
    }
    assert_eq!(std::fs::metadata(database(folder.path())).unwrap().len(), 0);
    std::fs::remove_file(database(folder.path())).unwrap();
    open(folder.path());
}

/// A process that is killed while it makes the store leaves none, and the next one makes it.
#[test]
fn a_store_is_there_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let new = |end: &str| folder.path().join(format!("stepwell.db.new{end}"));
    for end in ["", "-wal", "-shm", "-journal"] {
        std::fs::write(new(end), "half of a store").unwrap();
    }
    drop(open(folder.path()));
    assert_eq!(SqliteStore::find_damage(folder.path()).unwrap(), None);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(names.iter().all(|it| {
        let name = it.as_ref().unwrap().file_name();
        !name.to_string_lossy().contains(".new")
    }));
}

#[tokio::test]
async fn a_reader_sees_what_the_server_writes_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = open_shared(folder.path());
    let claim = created(&server, 1).await;
    let reader = SqliteStore::open_read_only(folder.path()).unwrap();
    assert_eq!(reader.session(id(1)).await.unwrap().unwrap().row.head_seq.0, 1);
    server.append(claim, append(id(1), 1, "x")).await.unwrap();
    assert_eq!(reader.session(id(1)).await.unwrap().unwrap().row.head_seq.0, 2);
    let refused = reader.append(claim, append(id(1), 2, "x")).await.unwrap_err();
    assert!(refused.to_string().contains("opened for reading only"), "{refused}");
    assert!(reader.put_snapshot(id(1), stepwell_core::Seq(1), 1, vec![1]).await.is_err());
    let refused = reader.beat("node", stepwell_core::TimestampMs(1)).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_medium_that_cannot_be_written_can_be_read() {
    let Some(disk) = SmallDisk::new("size=16m") else { return };
    created(&open_shared(disk.path()), 1).await;
    assert!(disk.remount("ro"), "nothing holds it");
    let reader: Shared = std::sync::Arc::new(SqliteStore::open_read_only(disk.path()).unwrap());
    assert_eq!(read_all(&reader, id(1)).await.len(), 1);
    let message = refusal(SqliteStore::open(disk.path(), &options()));
    assert!(message.to_lowercase().contains("read-only"), "{message}");
}

#[test]
fn network_file_systems_are_refused_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let not_yet = folder.path().join("a/b");
    for (number, kind) in
        [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB2"), (0x6573_5546, "FUSE")]
    {
        let probe = |path: &Path| {
            assert_eq!(path, folder.path(), "the folder above is asked");
            Ok(number)
        };
        let refused = check_file_system(&not_yet, false, probe).unwrap_err().to_string();
        assert!(refused.contains(&format!("network file system ({kind})")), "{refused}");
        check_file_system(&not_yet, true, probe).unwrap();
    }
    let ext4 = 0xef53;
    check_file_system(&not_yet, false, |_| Ok(ext4)).unwrap();
    let allowing = SqliteOptions { allow_network_file_system: true, ..options() };
    SqliteStore::open(&not_yet, &allowing).unwrap();
}

#[cfg(unix)]
#[test]
fn a_new_folder_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("data");
    open(&place);
    let mode = std::fs::metadata(&place).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// Case du30: children inherit no handle of the store.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_process_inherits_no_handle() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    created(&store, 1).await;
    read_all(&store, id(1)).await;
    let own = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_ours = |path: std::path::PathBuf| path.starts_with(folder.path());
    let own = own.filter(|it| std::fs::read_link(it.as_ref().unwrap().path()).is_ok_and(is_ours));
    assert!(own.count() >= 3, "the test sees handles");
    let child = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let handles = String::from_utf8(child.stdout).unwrap();
    assert!(handles.contains("/proc/"), "{handles}");
    assert!(!handles.contains(folder.path().to_str().unwrap()), "{handles}");
    let claim = store.claim(id(1), "node-a").await.unwrap();
    store.append(claim, append(id(1), 1, "x")).await.unwrap();
    drop(store);
    assert_eq!(super::common::integrity(folder.path()), "ok");
}
