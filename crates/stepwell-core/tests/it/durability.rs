//! What must hold after a crash: du01 … du21 in our words. A crash loses the memory and keeps the log,
//! so each test cuts the log at an append and asks what a new owner would do.

use stepwell_core::codec::{CodecError, decode, encode};
use stepwell_core::event::EventBody;
use stepwell_core::{
    Command, Event, Input, SessionState, TimestampMs, apply, decide, fold, pending,
};

use crate::world::{World, check_pairs, id, messages, reply};

/// du01, du17
#[test]
fn a_finished_call_is_never_run_again() {
    let mut world = World::acting(&[("find", r#"{"box":9}"#)]);
    world.done(id(1, 1), "A");
    for _ in 0..2 {
        let log = world.events.clone();
        assert_eq!(world.restart(), [Command::AskModel { step: 2, attempt: 1 }]);
        assert_eq!(world.events, log, "reading the log changes nothing");
    }
    assert_eq!(world.observations(), ["A"]);
}

/// du05
#[test]
fn a_call_that_was_decided_and_not_started_runs_once() {
    let mut world = World::acting(&[("pay", r#"{"order":771}"#)]);
    assert_eq!(world.restart(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    world.reserve(id(1, 1));
    let follow = Command::FollowTool { call_id: id(1, 1), attempt: 1, worker: "w1".into() };
    assert_eq!(world.restart(), [follow], "followed, not run");
}

/// du06
#[test]
fn a_request_whose_reply_was_lost_is_sent_again_byte_for_byte() {
    let mut world = World::new();
    let body = world.state.prompt.body();
    assert_eq!(world.restart(), [Command::AskModel { step: 1, attempt: 1 }]);
    assert_eq!(world.state.prompt.body(), body);
    let EventBody::ModelRequested(asked) = world.last() else { panic!() };
    assert_eq!(asked.prompt_digest, blake3::hash(body.as_bytes()).to_hex().as_str());
}

/// du10, du08: a hole in the log is noticed, nothing is made up.
#[test]
fn a_log_with_a_gap_is_refused() {
    let mut world = World::acting(&[("find", "{}")]);
    world.done(id(1, 1), "A");
    for missing in 0..world.events.len() - 1 {
        let mut events = world.events.clone();
        events.remove(missing);
        let refusal = fold(SessionState::default(), &events).unwrap_err();
        assert_eq!(refusal.seq.0, missing as u64 + 2, "{refusal}");
    }
    let mut twice = world.events.clone();
    twice.push(twice[3].clone());
    assert!(fold(SessionState::default(), &twice).is_err());
}

/// du11
#[test]
fn an_event_of_an_unknown_kind_is_refused_by_name() {
    let refusal = decode("hologram_shown", 1, "{}").unwrap_err();
    assert_eq!(refusal, CodecError::UnknownKind { kind: "hologram_shown".into() });
}

/// du14, du16: of two owners that decide the same, the second append conflicts; both wrote the same.
#[test]
fn two_owners_decide_the_same() {
    let world = World::acting(&[("pay", "{}")]);
    let input = || crate::world::reserved(id(1, 1), 1);
    let now = TimestampMs(world.now);
    let decisions = [(); 2].map(|()| decide(&world.state, input(), now).unwrap());
    assert_eq!(decisions[0], decisions[1]);
    assert_eq!(decisions[0].events[0].seq, world.state.head.next(), "so only one fits the log");
}

/// du18: nothing but the log goes into the next request: no clock, zone, locale, host.
#[test]
fn a_replay_on_another_day_makes_the_same_bytes() {
    let mut world = World::acting(&[("find", r#"{"box":9}"#)]);
    world.done(id(1, 1), "A");
    let body = world.state.prompt.body();
    let mut later = World::empty();
    later.now = world.now + 400 * 24 * 3_600_000;
    later.when(crate::world::create(crate::world::agent()));
    later.calls(&[("find", r#"{"box":9}"#)]);
    later.done(id(1, 1), "A");
    assert_eq!(later.state.prompt.body(), body);
}

/// du19
#[test]
fn a_replayed_request_equals_the_live_one() {
    let mut world = World::acting(&[("find", r#"{"box":1}"#), ("find", r#"{"box":2}"#)]);
    world.done(id(1, 2), "B");
    world.done(id(1, 1), "A");
    let live = world.state.prompt.body();
    let replayed = fold(SessionState::default(), &world.events).unwrap();
    assert_eq!(replayed.prompt.body(), live);
    assert_eq!(world.observations(), ["A", "B"]);
    check_pairs(&messages(&replayed));
}

/// du21: what a store must keep is kept by the stored form.
#[test]
fn odd_payloads_survive_the_stored_form() {
    for text in
        ["W\u{0}s\u{0}", "\u{fffd}", "\u{2028}\u{202e}\u{feff}", "2512292042121000001", "😀"]
    {
        let mut world = World::acting(&[("find", r#"{"box":2512292042121000001}"#)]);
        world.done(id(1, 1), text);
        let stored: Vec<String> =
            world.events.iter().map(|event| encode(&event.body).unwrap()).collect();
        assert!(stored[2].contains("2512292042121000001"));
        let read: Vec<Event> = world
            .events
            .iter()
            .zip(&stored)
            .map(|(event, json)| {
                let body = decode(event.body.kind().as_str(), 1, json).unwrap();
                Event { body, ..event.clone() }
            })
            .collect();
        assert_eq!(read, world.events);
        assert_eq!(world.observations(), [text]);
    }
}

/// The log may end after any append, and after any event of one, should a store ever tear it.
#[test]
fn every_prefix_of_a_log_can_be_read_and_goes_on() {
    let mut world = World::acting(&[("find", "{}"), ("pay", "{}"), ("ship", "{}")]);
    world.done(id(1, 1), "A");
    world.reserve(id(1, 2));
    world.lose(id(1, 2));
    let mut state = SessionState::default();
    for event in &world.events.clone() {
        apply(&mut state, event).unwrap();
        let owed = pending(&state);
        let json = serde_json::to_string(&state).unwrap();
        let cached: SessionState = serde_json::from_str(&json).unwrap();
        assert_eq!(cached, state, "a cached state is the same state");
        assert_eq!(pending(&cached), owed);
        assert_eq!(cached.prompt.body(), state.prompt.body());
        assert_eq!(cached.prompt.digest(), state.prompt.digest());
    }
}

/// The decision is a function of the state, so a torn append is made whole by the next input.
#[test]
fn what_an_input_led_to_can_be_decided_again_from_the_input_alone() {
    let mut world = World::new();
    world.calls(&[("find", "{}")]);
    let before = fold(SessionState::default(), &world.events[..2]).unwrap();
    let input = Input::ModelReplied(reply(1, 1, "", vec![crate::world::wants("find", "{}")]));
    let again = decide(&before, input, world.events[2].time).unwrap();
    assert_eq!(again.events, world.events[2..]);
}
