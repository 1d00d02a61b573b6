//! Every kind of damage has its own error with its place; random damage is never accepted.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use stepwell_archive::{ArchiveError, Chain, Form};
use stepwell_core::Seq;
use stepwell_core::codec::EVENT_SCHEMA;
use stepwell_ports::StoredEvent;

use crate::world::{Blobs, header, read, resealed, session, session_id, write};

/// Line numbers of the test's session: header, 1, blob, 2, blob, 3, blob, 4, 5, end.
const LINES: &str = "header 1, event 1 2, blob 3, event 2 4, blob 5, event 3 6, blob 7, event 4 8";

fn error_of(file: &[u8]) -> ArchiveError {
    read(file).expect_err("the damage was not noticed")
}

#[track_caller]
fn check(file: &[u8], words: &str) {
    let error = error_of(file).to_string();
    assert!(error.contains(words), "{error:?} does not say {words:?} ({LINES})");
}

#[test]
fn the_place_of_each_damage_is_named() {
    check(&resealed(|it| drop(it.remove(3))), "line 5 (event 2): event 2 is missing");
    check(&resealed(|it| drop(it.remove(1))), "line 3 (event 1): event 1 is missing, event 2");
    check(&resealed(|it| it.swap(7, 8)), "event 5 follows");
    check(&resealed(|it| drop(it.drain(2..4))), "event 2 is missing, event 3 follows");
    check(&resealed(|it| it.insert(2, it[1].clone())), "event 1 stands where event 2 is next");
    check(&resealed(|it| it[8] = it[8].replace("ada", "bob")), "line 9 (event 5): the event was");
    check(&resealed(|it| it[1] = it[1].replace("\"cause\":1", "\"cause\":0")), "was changed");
    check(&resealed(|it| it[2] = it[2].replace("many", "more")), "line 3 (event 2): payload");
    check(&resealed(|it| it[2] = it[2].replace("36000", "36001")), "36000 bytes instead of");
    check(&resealed(|it| it.truncate(5)), "no event, payload or end");
    check(&resealed(|it| drop(it.remove(9))), "no event, payload or end");
    check(&resealed(|it| drop(it.remove(8))), "event 5 is missing");
    check(&resealed(|it| it[9] = it[9].replace("\"events\":5", "\"events\":4")), "counts other");
    check(&resealed(|it| it.insert(9, it[2].clone())), "no event follows that needs it");
    check(&resealed(|it| it.insert(7, it[2].clone())), "the event after it does not need it");
    check(&resealed(|it| it.insert(2, it[2].clone())), "it stands here twice");
    check(&resealed(|it| it[3] = "{\"line\":\"event\"}".into()), "line 4 (event 2) is damaged");
    check(&resealed(|it| it[3] = "{\"line\":\"other\"}".into()), "line 4 (event 2) is damaged");
    check(&resealed(|it| it[0] = it[0].replace("stepwell-session", "x")), "no exported session");
    check(&resealed(|it| it[0] = it[0].replace("\"version\":1", "\"version\":2")), "version 2");
    check(&resealed(|it| it[0] = "{\"a\":1}".into()), "no exported session");
}

#[test]
fn what_no_seal_covers_is_noticed_by_the_seal() {
    let plain = String::from_utf8(write(Form::Plain, &header(), &session())).unwrap();
    check(plain.replace("\"0.1.0\"", "\"0.1.1\"").as_bytes(), "not the one that was sealed");
    check(plain.replace('\n', "\r\n").as_bytes(), "line ends");
    check(format!("{plain}\n").as_bytes(), "follows the end");
    check(format!("{plain}x").as_bytes(), "follows the end");
    check(plain.trim_end().as_bytes(), "cut off");
}

#[test]
fn an_event_of_a_newer_release_says_so() {
    let newer = |from: &str, to: &str| {
        let file = resealed(|it| it[8] = it[8].replace(from, to));
        let error = error_of(&file);
        // The chain covers type and schema, so a newer event has to be written with its own hash.
        assert!(matches!(error, ArchiveError::Changed { .. }), "{error}");
    };
    let schema = |number: u16| format!("\"schema\":{number}");
    newer(&schema(EVENT_SCHEMA), &schema(EVENT_SCHEMA + 1));
    newer("message_received", "message_rewritten");

    // As the newer release writes it.
    let mut events = session();
    let hash = |events: &[(StoredEvent, Blobs)]| {
        let mut chain = Chain::new(session_id());
        for (event, _) in events {
            chain.add(event);
        }
        chain.head()
    };
    let ours = hash(&events);
    events[4].0.schema = EVENT_SCHEMA + 1;
    let theirs = hash(&events);
    let file = resealed(|it| {
        it[8] = it[8].replace(&schema(EVENT_SCHEMA), &schema(EVENT_SCHEMA + 1));
        for line in &mut it[8..] {
            *line = line.replace(&ours, &theirs);
        }
    });
    let error = error_of(&file).to_string();
    assert!(error.contains("line 9 (event 5)") && error.contains("newer release"), "{error}");
}

#[test]
fn garbage_around_a_packed_file_is_noticed() {
    let packed = write(Form::Packed, &header(), &session());
    check(&[packed.as_slice(), b"x"].concat(), "");
    check(&[packed.as_slice(), &packed].concat(), "follows the end");
    check(&[packed.as_slice(), &[0; 100]].concat(), "follows the end");
    check(&[b"x", packed.as_slice()].concat(), "no exported session");
    check(b"", "it is empty");
    check(b"SQLite format 3\0", "no exported session");
}

#[test]
fn every_cut_is_noticed() {
    let mut events = session();
    events.truncate(1);
    for form in [Form::Plain, Form::Packed] {
        let file = write(form, &header(), &events);
        for length in 0..file.len() {
            let error = error_of(&file[..length]);
            let is_cut = matches!(error, ArchiveError::Cut { .. } | ArchiveError::Foreign { .. });
            assert!(is_cut, "{length} bytes: {error}");
        }
    }
}

/// Without its last bytes a compressed file can still be read to its end, and says so.
#[test]
fn a_cut_says_how_much_can_be_read() {
    let packed = write(Form::Packed, &header(), &session());
    for (length, words) in [
        (packed.len() - 1, "all its events can be read"),
        (packed.len() - 40, "all its events can be read"),
        (packed.len() - 60, "none of its lines can be read"),
        (packed.len() / 2, "none of its lines can be read"),
    ] {
        let error = error_of(&packed[..length]).to_string();
        assert!(error.starts_with("the compressed file ends too early"), "{error}");
        assert!(error.contains(words), "{length}: {error}");
    }
    // Of a long one what was packed before the cut is there.
    let first = session().remove(0);
    let noise = |it: u64| blake3::hash(&it.to_le_bytes()).to_hex().to_string();
    let events = (1..=3_000).map(|seq| {
        let body = format!("{{\"content\":\"{}\"}}", noise(seq));
        let event =
            StoredEvent { seq: Seq(seq), kind: "message_received".into(), body, ..first.0.clone() };
        (event, Vec::new())
    });
    let long = write(Form::Packed, &header(), &events.collect::<Vec<_>>());
    let error = error_of(&long[..long.len() / 2]).to_string();
    assert!(error.contains("of its lines can be read, up to event 1"), "{error}");
}

/// Small enough to try all bits.
#[test]
fn every_flipped_bit_is_noticed() {
    for form in [Form::Plain, Form::Packed] {
        let mut events = session();
        events.truncate(1);
        let mut file = write(form, &header(), &events);
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&file).is_err(), "{form:?}: bit {bit} of {}", file.len() * 8);
            file[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(read(&file).is_ok());
    }
}

/// Tries of the random test; `STEPWELL_SEED` repeats one.
const TRIES: u64 = 3_000;

#[test]
fn random_damage_is_never_accepted_and_never_a_panic() {
    let chosen = std::env::var("STEPWELL_SEED").ok().and_then(|it| it.parse().ok());
    let seeds = chosen.map_or(0..TRIES, |seed: u64| seed..seed + 1);
    let files = [Form::Plain, Form::Packed].map(|form| write(form, &header(), &session()));
    for seed in seeds {
        let mut dice = StdRng::seed_from_u64(seed);
        let original = &files[dice.random_range(0..2)];
        let mut file = original.clone();
        for _ in 0..dice.random_range(1..4) {
            damage(&mut file, &mut dice);
        }
        if file != *original {
            assert!(read(&file).is_err(), "accepted with STEPWELL_SEED={seed}");
        }
    }
}

fn damage(file: &mut Vec<u8>, dice: &mut StdRng) {
    if file.is_empty() {
        return;
    }
    let at = dice.random_range(0..file.len());
    let length = dice.random_range(0..200).min(file.len() - at);
    match dice.random_range(0..6) {
        0 => file[at] ^= 1 << dice.random_range(0..8),
        1 => drop(file.drain(at..at + length)),
        2 => file.truncate(at),
        3 => {
            let part = file[at..at + length].to_vec();
            let to = dice.random_range(0..file.len());
            file.splice(to..to, part);
        }
        4 => file[at..at + length].reverse(),
        _ => file.insert(at, dice.random_range(0..=255)),
    }
}
