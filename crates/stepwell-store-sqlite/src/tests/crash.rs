//! What a killed process leaves behind.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use stepwell_core::event::EventBody;
use stepwell_ports::conformance::fixtures::{
    Shared, append, append_all, created, id, message, read_all, swept, whole,
};
use stepwell_ports::{AppendError, DeleteOnly, Deleted};
use tokio::task::JoinSet;

use super::common::{database, integrity, open_shared};

/// Holds the data folder in the child process of [`acknowledged_appends_survive_sigkill`].
const CHILD: &str = "STEPWELL_TEST_CRASH_CHILD";
/// The same for [`a_kill_while_deleting_leaves_nothing_behind`].
const DELETING_CHILD: &str = "STEPWELL_TEST_DELETING_CHILD";
/// Sessions that the child appends to at the same time.
const SESSIONS: u64 = 6;

/// Text of an event, so that its place can be told from its content.
fn text(session: u64, seq: u64) -> String {
    format!("event {seq} of session {session}")
}

/// Not a test by itself: the process that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let store = open_shared(Path::new(&folder));
    let mut tasks = JoinSet::new();
    for n in 0..SESSIONS {
        tasks.spawn(append_for_ever(Arc::clone(&store), n));
    }
    tasks.join_next().await.unwrap().unwrap();
}

async fn append_for_ever(store: Shared, n: u64) {
    let owner = format!("node-{}", std::process::id());
    let claim = match store.claim(id(n), &owner).await {
        Ok(claim) => claim,
        Err(AppendError::NotFound { .. }) => created(&store, n).await,
        Err(other) => panic!("{other}"),
    };
    let head = store.session(id(n)).await.unwrap().unwrap().row.head_seq.0;
    for seq in head + 1.. {
        let acknowledged =
            store.append(claim, append(id(n), seq - 1, &text(n, seq))).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "ack {n} {acknowledged}").unwrap();
        out.flush().unwrap();
    }
}

/// Runs the child until it has acknowledged so many appends, kills it, and returns the last
/// acknowledged seq of each session.
fn run_and_kill(folder: &Path, acknowledgements: usize) -> BTreeMap<u64, u64> {
    run_and_kill_child(folder, ("tests::crash::child", CHILD), acknowledgements)
}

/// The same for the child that is that test, and works when that variable is set.
fn run_and_kill_child(
    folder: &Path,
    (test, variable): (&str, &str),
    acknowledgements: usize,
) -> BTreeMap<u64, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut last = BTreeMap::new();
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // What the killed process wrote half is no acknowledgement.
        let numbers = line.strip_prefix("ack ").and_then(|it| it.split_once(' '));
        if let Some((n, seq)) = numbers
            && let (Ok(n), Ok(seq)) = (n.parse(), seq.parse())
        {
            last.insert(n, seq);
            seen += 1;
            if seen == acknowledgements {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(seen >= acknowledgements, "the child ended by itself after {seen}");
    last
}

#[tokio::test]
async fn acknowledged_appends_survive_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    for acknowledgements in [1, 10, 60, 200, 7] {
        let last = run_and_kill(folder.path(), acknowledgements);
        let store = open_shared(folder.path());
        for (n, acknowledged) in last {
            let events = read_all(&store, id(n)).await;
            assert!(events.len() as u64 >= acknowledged, "session {n}: {}", events.len());
            for stored in events.iter().skip(1) {
                let expected: EventBody = message(&text(n, stored.seq.0)).into();
                assert_eq!(whole(&store, stored).await, expected);
            }
        }
        drop(store);
        assert_eq!(integrity(folder.path()), "ok");
    }
}

/// Not a test by itself: the process that is killed while it deletes.
#[tokio::test]
async fn deleting_child() {
    let Ok(folder) = std::env::var(DELETING_CHILD) else { return };
    let store = open_shared(Path::new(&folder));
    for n in 0..SESSIONS {
        let only = DeleteOnly::default();
        assert_ne!(store.delete(id(n), &only).await.unwrap(), Deleted::NotFound);
        loop {
            let swept = store.sweep().await.unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "ack {n} 1").unwrap();
            out.flush().unwrap();
            if swept.is_done {
                break;
            }
        }
    }
}

/// A kill at any moment of deleting: what was acknowledged as deleted stays deleted, the rest of it
/// goes away with the next process, and the others keep all they had.
#[tokio::test]
async fn a_kill_while_deleting_leaves_nothing_behind() {
    const EVENTS: u64 = 400;
    let shared = "shared ".repeat(5_000);
    for acknowledgements in [1, 2, 4, 7] {
        let folder = tempfile::tempdir().unwrap();
        let store = open_shared(folder.path());
        for n in 0..SESSIONS {
            let claim = created(&store, n).await;
            let bodies = (2..EVENTS).map(|seq| message(&text(n, seq)).into());
            let bodies = bodies.chain([message(&shared).into()]).collect();
            store.append(claim, append_all(id(n), 1, bodies)).await.unwrap();
        }
        drop(store);
        let deleted = run_and_kill_child(
            folder.path(),
            ("tests::crash::deleting_child", DELETING_CHILD),
            acknowledgements,
        );
        let store = open_shared(folder.path());
        for n in 0..SESSIONS {
            let events = read_all(&store, id(n)).await;
            if deleted.contains_key(&n) {
                assert_eq!(events, [], "session {n} was deleted");
            }
            if let Some(last) = events.last() {
                assert_eq!(events.len() as u64, EVENTS, "session {n} is whole or gone");
                assert_eq!(whole(&store, last).await, message(&shared).into());
            }
        }
        swept(&store).await;
        drop(store);
        assert_eq!(super::retention::rest(folder.path()), []);
        assert_eq!(integrity(folder.path()), "ok");
    }
}

/// Copies database and log by another process: opening and closing the files here would drop the
/// locks that SQLite holds on them.
fn copy_of(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["stepwell.db", "stepwell.db-wal"] {
        let done = Command::new("cp").arg(folder.join(name)).arg(copy.path()).status().unwrap();
        assert!(done.success());
    }
    copy
}

/// Case du08. A log that ends anywhere: what is read is a prefix, and the next event follows it.
#[tokio::test]
async fn a_torn_log_is_read_up_to_its_last_whole_commit() {
    const EVENTS: u64 = 6;
    let folder = tempfile::tempdir().unwrap();
    let store = open_shared(folder.path());
    let claim = created(&store, 1).await;
    for seq in 2..=EVENTS {
        store.append(claim, append(id(1), seq - 1, &text(1, seq))).await.unwrap();
    }
    let original = copy_of(folder.path());
    let log = std::fs::read(original.path().join("stepwell.db-wal")).unwrap();
    let mut torn: Vec<(String, Vec<u8>)> = (0..=20)
        .map(|part| log.len() * part / 20)
        .map(|end| (format!("cut at {end}"), log[..end].to_vec()))
        .collect();
    let last_byte = log.len() - 1;
    torn.push(("cut by a byte".into(), log[..last_byte].to_vec()));
    let mut flipped = log.clone();
    flipped[last_byte] ^= 1;
    torn.push(("last bit flipped".into(), flipped));
    let with_tail = [log.as_slice(), br#"{"e":"tool_fin"#, &[0; 5_000]].concat();
    torn.push(("rubbish behind".into(), with_tail));
    let mut lengths = Vec::new();
    for (name, bytes) in torn {
        let copy = copy_of(original.path());
        std::fs::write(copy.path().join("stepwell.db-wal"), bytes).unwrap();
        let store = open_shared(copy.path());
        let events = read_all(&store, id(1)).await;
        for (stored, seq) in events.iter().skip(1).zip(2..) {
            let expected: EventBody = message(&text(1, seq)).into();
            assert_eq!(whole(&store, stored).await, expected, "{name}");
        }
        let length = events.len() as u64;
        if length > 0 {
            let next = store.append(claim, append(id(1), length, "next")).await.unwrap();
            assert_eq!(next.0, length + 1, "{name}");
            assert_eq!(read_all(&store, id(1)).await.len() as u64, length + 1, "{name}");
        }
        drop(store);
        assert_eq!(integrity(copy.path()), "ok", "{name}");
        lengths.push((name, length));
    }
    let length_of = |name: &str| lengths.iter().find(|it| it.0 == name).unwrap().1;
    assert_eq!(length_of(&format!("cut at {}", log.len())), EVENTS);
    assert_eq!(length_of("rubbish behind"), EVENTS, "all that was acknowledged");
    assert_eq!(length_of("cut by a byte"), EVENTS - 1);
    assert_eq!(length_of("last bit flipped"), EVENTS - 1);
    assert!(database(folder.path()).exists());
}
