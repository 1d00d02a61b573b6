//! Recorded sessions of every release replay with this one, for ever.
//!
//! `tests/golden/sessions/RELEASE/*.stepwell.jsonl` are written with `stepwell export --fixture`. A file
//! that is there is never changed: a divergence means that sessions of users cannot be replayed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use stepwell_archive::{Limits, Reader};
use stepwell_core::Event;
use stepwell_core::event::EventBody;
use stepwell_core::replay::replay;

fn golden() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/sessions");
    let releases = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let files = releases.flat_map(|release| fs::read_dir(release).unwrap());
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn events(path: &Path) -> Vec<Event> {
    let mut reader = Reader::open(File::open(path).unwrap(), Limits::default()).unwrap();
    let mut events = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        events.push(item.event);
    }
    events
}

#[test]
fn recorded_sessions_of_every_release_replay() {
    let files = golden();
    assert!(files.len() >= 2, "{files:?}");
    for path in files {
        if let Err(divergence) = replay(events(&path)) {
            panic!("{}: {}", path.display(), divergence.in_words());
        }
    }
}

/// The test above would see a change of the prompts.
#[test]
fn a_changed_word_in_a_recorded_session_diverges() {
    for path in golden() {
        let mut events = events(&path);
        let EventBody::SessionCreated(it) = &mut events[0].body else { panic!() };
        let task = format!("{} ", it.task.preview());
        it.task = task.as_str().into();
        let divergence = replay(events).unwrap_err();
        assert_eq!(divergence.seq.0, 2, "{}", path.display());
    }
}
