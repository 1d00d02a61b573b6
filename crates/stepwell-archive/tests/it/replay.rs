//! Recorded sessions of every release replay with this one, for ever.
//!
//! `tests/golden/sessions/RELEASE/*.stepwell.jsonl` are written with `stepwell export --fixture`. A file
//! that is there is never changed: a divergence means that sessions of users cannot be replayed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use stepwell_archive::redact::{FIELDS, Redactor, Rules};
use stepwell_archive::{Form, Item, Limits, Reader, Writer};
use stepwell_core::Event;
use stepwell_core::event::{EventBody, Family};
use stepwell_core::replay::{Divergence, Replay, replay};

use crate::world::{header, read};

fn golden() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/sessions");
    let releases = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let files = releases.flat_map(|release| fs::read_dir(release).unwrap());
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn items(path: &Path) -> Vec<Item> {
    let mut reader = Reader::open(File::open(path).unwrap(), Limits::default()).unwrap();
    let mut items = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        items.push(item);
    }
    items
}

fn events(path: &Path) -> Vec<Event> {
    items(path).into_iter().map(|item| item.event).collect()
}

/// Through a file, as somebody else gets it.
fn redacted(path: &Path, rules: &Rules) -> Vec<Event> {
    let mut header = header();
    (header.redacted, header.fixture) = (true, true);
    let mut writer = Writer::new(Vec::new(), Form::Plain, &header).unwrap();
    let mut redactor = Redactor::new(rules);
    for item in items(path) {
        let done = redactor.redact(item.stored, item.blobs).unwrap();
        writer.event(&done.event, &done.blobs, &done.pointers).unwrap();
    }
    let (file, _) = writer.finish(None).unwrap();
    read(&file).unwrap().into_iter().map(|item| item.event).collect()
}

/// Rules that leave nothing, one field, or one word.
fn many_rules() -> Vec<String> {
    let secret = |it: &str| format!("[[secret]]\nname = \"rm\"\npattern = '{it}'\n");
    let patterns = [
        ".+",
        r"\S+",
        "[a-z]+",
        "[A-Za-z ]+",
        "[0-9]+",
        "[a-z]{3}",
        "e",
        "\"",
        "rule",
        "`.*`",
        "o.*o",
        "no tool",
        "must be",
        "^.",
        ".$",
        "Error|Not run",
        "[/.]+",
        "[:]",
    ];
    let field =
        |kind: &str, it: &str| format!("[[field]]\nevent = \"{kind}\"\npointer = \"{it}\"\n");
    let mut rules: Vec<String> = patterns.into_iter().map(secret).collect();
    let listed =
        FIELDS.iter().flat_map(|(kind, fields)| fields.iter().map(|it| (kind.as_str(), *it)));
    rules.extend(listed.clone().map(|(kind, it)| field(kind, it)));
    rules.push(listed.map(|(kind, it)| field(kind, it)).collect());
    rules
}

#[test]
fn recorded_sessions_replay_whatever_is_taken_out_of_them() {
    let mut unchecked = 0;
    for rules in many_rules() {
        // The built-in ones find nothing there, and take long to compile.
        let rules_read = Rules::parse(&format!("secrets = []\n{rules}")).unwrap();
        for path in golden() {
            let mut replay = Replay::of_redacted();
            for event in redacted(&path, &rules_read) {
                if let Err(divergence) = replay.push(event) {
                    panic!("{rules}{}: {}", path.display(), divergence.in_words());
                }
            }
            unchecked += replay.unchecked();
            replay.end().unwrap();
        }
    }
    assert!(unchecked > 100, "{unchecked}");
}

/// A decision that is missing, or one with a number or a name changed, is found in such a record too.
#[test]
fn a_changed_decision_is_found_whatever_is_taken_out() {
    let (mut found, mut tried) = (0, 0);
    for rules in
        [".+", "[a-z]+", "e"].map(|it| format!("[[secret]]\nname = \"z\"\npattern = '{it}'"))
    {
        let rules = Rules::parse(&rules).unwrap();
        for path in golden() {
            let events = redacted(&path, &rules);
            for at in 0..events.len() {
                if events[at].body.kind().family() == Family::Input {
                    continue;
                }
                let mut shorter = events.clone();
                shorter.remove(at);
                replay_redacted(shorter).unwrap_err();
                let mut other = events.clone();
                let Some(body) = with_other_number(&other[at].body) else { continue };
                other[at].body = body;
                tried += 1;
                if let Err(divergence) = replay_redacted(other) {
                    assert_eq!(divergence.seq, events[at].seq, "{}", path.display());
                    found += 1;
                }
            }
        }
    }
    assert!(tried > 20 && found == tried, "{found} of {tried}");
}

fn replay_redacted(events: Vec<Event>) -> Result<(), Box<Divergence>> {
    let mut replay = Replay::of_redacted();
    events.into_iter().try_for_each(|event| replay.push(event))?;
    replay.end().map(|_| ())
}

/// The same with its last number or name of a call changed.
fn with_other_number(body: &EventBody) -> Option<EventBody> {
    let mut body = body.clone();
    match &mut body {
        EventBody::ModelRequested(it) => it.attempt += 1,
        EventBody::ToolScheduled(it) => it.attempt += 1,
        EventBody::ToolRefused(it) => it.call_id.index += 1,
        EventBody::ApprovalRequested(it) => it.approval_id.0 += 1,
        EventBody::SessionFinished(it) if it.limit.is_some() => it.limit = None,
        _ => return None,
    }
    Some(body)
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
