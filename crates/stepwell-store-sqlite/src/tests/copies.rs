//! Copies of a store in use.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use stepwell_ports::Store as _;
use stepwell_ports::conformance::fixtures::{append, append_all, created, id, message, read_all};
use stepwell_ports::retention::{CopyProgress, CopyWatcher, StoreCopy};

use super::common::{database, integrity, noise, open, open_shared};

fn unwatched() -> CopyWatcher {
    Arc::new(|_| true)
}

/// Puts a copy into a folder of its own, as a restore does.
fn restored(copy: StoreCopy) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let StoreCopy { mut file, bytes } = copy;
    let mut target = File::create(database(folder.path())).unwrap();
    assert_eq!(std::io::copy(&mut file, &mut target).unwrap(), bytes);
    assert_eq!(file.read(&mut [0]).unwrap(), 0, "the size is that of the file");
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn a_copy_is_a_store_of_its_own_with_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    store.append(claim, append(id(1), 1, &noise(50_000, 1))).await.unwrap();
    let copy = store.copy(unwatched()).await.unwrap().expect("it has a file");
    store.append(claim, append(id(1), 2, "after the copy")).await.unwrap();
    assert!(!names(folder.path()).iter().any(|it| it.contains("backup")), "it has no name");
    let place = restored(copy);
    assert_eq!(names(place.path()).len(), 1);
    assert_eq!(integrity(place.path()), "ok");
    let other = open_shared(place.path());
    let expected = read_all(&store, id(1)).await[..2].to_vec();
    assert_eq!(read_all(&other, id(1)).await, expected);
    other.append(claim, append(id(1), 2, "its own")).await.unwrap();
    assert_eq!(read_all(&store, id(1)).await.len(), 3, "they are two stores");
}

/// Writes between any two steps of the copy change nothing in it, and wait for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_one_moment_while_the_store_is_written_to() {
    const EVENTS: u64 = 600;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let shared: Arc<dyn stepwell_ports::Store> = store.clone();
    let claim = created(&shared, 1).await;
    let text = noise(12_000, 2);
    for from in [1, 201, 401] {
        let bodies = (0..200).map(|_| message(&text).into()).collect();
        store.append(claim, append_all(id(1), from, bodies)).await.unwrap();
    }
    let handle = tokio::runtime::Handle::current();
    let steps = Arc::new(AtomicUsize::new(0));
    let head = Arc::new(Mutex::new(EVENTS + 1));
    let watcher: CopyWatcher = {
        let (store, steps, head) = (store.clone(), steps.clone(), head.clone());
        Arc::new(move |progress: CopyProgress| {
            assert!(progress.copied <= progress.total && progress.total > 0);
            steps.fetch_add(1, Ordering::SeqCst);
            let mut head = head.lock().unwrap();
            let write = append(id(1), *head, "written while it is copied");
            *head = handle.block_on(store.append(claim, write)).unwrap().0;
            true
        })
    };
    let copy = store.copy(watcher).await.unwrap().expect("it has a file");
    assert!(steps.load(Ordering::SeqCst) >= 2, "it is copied in steps");
    let place = restored(copy);
    let other = open_shared(place.path());
    let events = read_all(&other, id(1)).await;
    // The moment is before the first step ends; what came in before that step may be there.
    assert_eq!(events.len() as u64, EVENTS + 1);
    assert_eq!(read_all(&shared, id(1)).await.len() as u64, *head.lock().unwrap());
}

#[tokio::test]
async fn a_copy_that_nobody_wants_any_more_ends_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    created(&store, 1).await;
    let copied = store.copy(Arc::new(|_| false)).await.unwrap();
    assert!(copied.is_none());
    assert!(!names(folder.path()).iter().any(|it| it.contains("backup")));
}

#[test]
fn what_a_killed_process_left_of_a_copy_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let left = ["stepwell.backup-7.tmp", "stepwell.backup-7.tmp-journal"];
    for name in left.iter().chain(&["stepwell.backup-mine.db", "backup-7.tmp"]) {
        std::fs::write(folder.path().join(name), "x").unwrap();
    }
    drop(open(folder.path()));
    let names = names(folder.path());
    assert!(!names.iter().any(|it| left.contains(&it.as_str())), "{names:?}");
    assert!(names.iter().any(|it| it == "stepwell.backup-mine.db"), "{names:?}");
}
