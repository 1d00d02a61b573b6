//! Recorded inputs through the rules again.

use stepwell_core::event::{EventBody, ModelErrorKind, ModelRequested, ToolOutcome};
use stepwell_core::marker::marker;
use stepwell_core::replay::{Divergence, Replay, Today, replay};
use stepwell_core::{Actor, Event, Input, Seq, Text};

use crate::world::{World, agent, cancel, create, fork, id, message, pause, report, resume};

/// A session with a bit of everything, to its end.
fn story() -> World {
    let mut world = World::acting(&[("find", r#"{"box":9}"#), ("pay", r#"{"order":1}"#)]);
    world.reserve(id(1, 2));
    world.done(id(1, 2), "paid");
    world.when(pause());
    world.when(message("go on"));
    world.when(resume());
    world.when(report(id(1, 1), 1, ToolOutcome::Error, "no such shelf"));
    world.fail(ModelErrorKind::Timeout);
    world.wake();
    world.answer("done");
    world
}

fn diverges(events: &[Event]) -> Divergence {
    *replay(events.iter().cloned()).unwrap_err()
}

#[test]
fn a_recorded_session_replays_to_its_state() {
    let world = story();
    assert_eq!(replay(world.events.clone()).unwrap(), world.state);
}

#[test]
fn every_whole_beginning_replays_and_a_cut_append_is_named() {
    let world = story();
    for (length, next) in world.events.iter().enumerate() {
        let is_whole = next.cause == next.seq;
        match replay(world.events[..length].to_vec()) {
            Ok(_) => assert!(is_whole, "{length}"),
            Err(divergence) => {
                assert!(!is_whole, "{length}");
                assert_eq!(divergence.seq, next.seq);
                assert_eq!(divergence.recorded, None);
            }
        }
    }
}

/// A fork from the middle of an append replays, too: what its parent decided next is not its own.
#[test]
fn a_fork_from_anywhere_replays() {
    let parent = story();
    for length in 1..parent.events.len() {
        let mut child = parent.beginning(length);
        child.now += 1_000;
        child.when(fork(&child.state, Vec::new()));
        assert_eq!(replay(child.events.clone()).unwrap(), child.state, "{length}");
    }
}

/// Whatever is changed in the record, the first event that differs is named with both sides.
#[test]
fn a_change_is_found_at_its_seq() {
    let world = story();
    let mut changed = 0;
    for at in 0..world.events.len() {
        let mut events = world.events.clone();
        let event = &mut events[at];
        match &mut event.body {
            EventBody::ModelRequested(it) => it.prompt_digest = "0".repeat(64),
            EventBody::ToolScheduled(it) => it.attempt += 1,
            EventBody::TimerStarted(it) => it.due_at = it.due_at.plus_ms(1),
            EventBody::SessionFinished(it) => it.reason = "who knows".into(),
            _ => continue,
        }
        changed += 1;
        let seq = event.seq;
        let divergence = diverges(&events);
        assert_eq!(divergence.seq, seq);
        assert!(matches!(&divergence.today, Today::Event(it) if **it == world.events[at]));
        let words = divergence.in_words();
        assert!(words.starts_with(&format!("at event {seq}: recorded is ")), "{words}");
    }
    assert!(changed >= 6, "{changed}");
}

/// Another rendering of the prompt shows at the first request after the changed text.
#[test]
fn a_changed_text_shows_at_the_next_request() {
    let world = story();
    let mut events = world.events.clone();
    let at = events.iter().position(|it| matches!(it.body, EventBody::MessageReceived(_))).unwrap();
    let EventBody::MessageReceived(it) = &mut events[at].body else { panic!() };
    it.content = Text::from("go on!");
    assert_eq!(diverges(&events).seq, next_request(&events[at..]));
    // With a marker in its place nobody knows whether it is the text that was sent. But only where
    // texts were taken out: else somebody wrote the marker.
    let EventBody::MessageReceived(it) = &mut events[at].body else { panic!() };
    it.content = Text::from(marker("field", b"go on"));
    assert_eq!(diverges(&events).seq, next_request(&events[at..]));
    let mut told = Replay::of_redacted();
    for event in events {
        told.push(event).unwrap();
    }
    assert!(told.unchecked() >= 2);
}

fn next_request(events: &[Event]) -> Seq {
    events.iter().find(|it| matches!(it.body, EventBody::ModelRequested(_))).unwrap().seq
}

/// A text that looks like a marker switches no check off in a record from which nothing was taken out.
#[test]
fn a_marker_that_somebody_wrote_hides_nothing() {
    let pasted = marker("api_key", b"sk-1");
    let mut world = World::empty();
    let mut creating = create(agent());
    if let Input::Create { session, .. } = &mut creating {
        session.task = Text::from(format!("plain {pasted}"));
    }
    world.when(creating);
    world.calls(&[
        ("shell", &format!(r#"{{"command":"echo {pasted}"}}"#)),
        ("ship", &format!(r#"{{"note":"{pasted}"}}"#)),
        ("sleep", r#"{"seconds":5}"#),
    ]);
    replay(world.events.clone()).unwrap();
    let mut changed = 0;
    for at in 0..world.events.len() {
        let mut events = world.events.clone();
        let seq = events[at].seq;
        match &mut events[at].body {
            EventBody::ModelRequested(it) => it.prompt_digest = "0".repeat(64),
            EventBody::ApprovalRequested(it) => it.action_digest = marker("field", b"x"),
            EventBody::TimerStarted(it) => it.due_at = it.due_at.plus_ms(1),
            EventBody::ToolScheduled(it) => it.attempt += 1,
            _ => continue,
        }
        changed += 1;
        assert_eq!(diverges(&events).seq, seq);
    }
    assert!(changed >= 4, "{changed}");
    // The digest of the action, as a marker that fits it, is another record.
    for event in &mut world.events {
        if let EventBody::ApprovalRequested(it) = &mut event.body {
            it.action_digest = marker("field", it.action_digest.as_bytes());
        }
    }
    replay(world.events).unwrap_err();
}

#[test]
fn an_event_too_many_or_too_few_is_found() {
    let world = story();
    let requested = ModelRequested {
        step: 9,
        attempt: 1,
        prompt_digest: String::new(),
        prompt_bytes: 0,
        fallback: None,
    };
    let seq = world.state.head.next();
    let extra = Event {
        seq,
        time: world.events[0].time,
        cause: Seq(1),
        actor: Actor::Engine,
        body: requested.into(),
    };
    let mut events = world.events.clone();
    events.push(extra);
    let divergence = diverges(&events);
    assert_eq!((divergence.seq, &divergence.today), (seq, &Today::Nothing));
    let mut events = world.events.clone();
    events.remove(1);
    assert_eq!(diverges(&events).seq, Seq(3), "the record goes on where a decision is missing");
}

#[test]
fn an_input_that_is_refused_today_is_named_with_its_reason() {
    let mut world = World::new();
    world.when(cancel());
    let mut events = world.events.clone();
    let mut late = events[0].clone();
    late.seq = world.state.head.next();
    late.cause = late.seq;
    events.push(late);
    let divergence = diverges(&events);
    assert!(matches!(divergence.today, Today::Refuses(_)));
    assert!(divergence.in_words().contains("exists already"), "{}", divergence.in_words());
}
