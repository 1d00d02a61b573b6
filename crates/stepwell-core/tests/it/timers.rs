//! Timers: ti01 … ti11 in our words.

use stepwell_core::event::{EventBody, RefusalReason, Timer};
use stepwell_core::{Command, Input, TimestampMs};

use crate::world::{World, agent, cancel, id, message};

fn sleep(seconds: &str) -> World {
    World::acting(&[("sleep", &format!("{{\"seconds\":{seconds}}}"))])
}

/// ti01: due while nobody was there.
#[test]
fn a_timer_that_was_due_long_ago_fires_once_and_says_when_it_was_due() {
    let mut world = sleep("60");
    let due_at = TimestampMs(world.now + 60_000);
    assert_eq!(world.pending(), [Command::WaitUntil { timer: Timer::Sleep(id(1, 1)), due_at }]);
    assert_eq!(world.restart().len(), 1);
    world.after(500_000);
    assert_eq!(world.when(Input::Wake), ["timer_fired", "model_requested"]);
    let fired = &world.events[world.events.len() - 2];
    let EventBody::TimerFired(it) = &fired.body else { panic!() };
    assert_eq!(it.due_at, due_at);
    assert_eq!(fired.time.0, world.now);
    assert!(world.when(Input::Wake).is_empty(), "once");
    assert_eq!(world.observations(), ["The time is over."]);
}

/// ti02: a thousand timers due at once fire once each, by due time, and lead to one request.
#[test]
fn many_timers_that_are_due_fire_in_the_order_of_their_times() {
    let mut world = World::new();
    let calls: Vec<(String, String)> = (1..=1_000)
        .map(|n| ("sleep".to_string(), format!("{{\"seconds\":{}}}", (n * 389) % 1_009)))
        .collect();
    let calls: Vec<(&str, &str)> = calls.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    world.calls(&calls);
    assert_eq!(world.state.timers.len(), 1_000);
    let before = world.events.len();
    let events = world.after(5_000_000).when(Input::Wake);
    assert_eq!(events.len(), 1_001);
    assert_eq!(events.last(), Some(&"model_requested"), "one request, not a thousand");
    let due: Vec<TimestampMs> = world.events[before..]
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::TimerFired(it) => Some(it.due_at),
            _ => None,
        })
        .collect();
    assert_eq!(due.len(), 1_000);
    assert!(due.is_sorted());
}

/// ti03: wall time counts. A clock that jumps forward makes a timer fire at once.
#[test]
fn a_clock_that_jumps_forward_makes_timers_due() {
    let mut world = sleep("600");
    world.after(10_000 + 3_600_000);
    assert_eq!(world.when(Input::Wake), ["timer_fired", "model_requested"]);
}

#[test]
fn a_clock_that_goes_back_makes_timers_wait_and_nothing_fail() {
    let mut world = sleep("600");
    world.now -= 500_000;
    assert!(world.when(Input::Wake).is_empty());
    world.when(message("are you there?"));
    world.now += 500_000 + 600_000;
    assert_eq!(world.when(Input::Wake), ["timer_fired", "model_requested"]);
}

/// ti06: cancel and fire meet. Whoever comes second finds nothing to do.
#[test]
fn a_timer_that_is_cancelled_does_not_fire() {
    let mut cancelled = sleep("60");
    cancelled.after(60_000).when(cancel());
    assert!(cancelled.when(Input::Wake).is_empty());
    let mut fired = sleep("60");
    fired.after(60_000).when(Input::Wake);
    fired.when(cancel());
    for world in [cancelled, fired] {
        let ends = |event: &&stepwell_core::Event| {
            matches!(event.body, EventBody::TimerFired(_) | EventBody::SessionFinished(_))
        };
        let timer = world.events.iter().filter(ends).count();
        assert!(timer <= 2 && world.state.timers.is_empty() && world.state.is_finished());
    }
}

/// ti08: 0, negative, huge and what is no number.
#[test]
fn odd_waits_are_refused_or_sane() {
    let mut zero = sleep("0");
    assert_eq!(zero.when(Input::Wake), ["timer_fired", "model_requested"], "at once");
    let mut fraction = sleep("0.0004");
    assert_eq!(fraction.when(Input::Wake), ["timer_fired", "model_requested"]);
    for huge in ["1000000000000", "1e300", "18446744073709551616"] {
        let mut world = sleep(huge);
        assert_eq!(world.state.timers.len(), 1);
        assert!(world.after(1 << 40).when(Input::Wake).is_empty(), "{huge} does not fire");
    }
    for bad in ["-5", "-0.1", "\"60\"", "null", "NaN", "1e999", "[1]"] {
        let world = sleep(bad);
        let refused = world.events.iter().find_map(|event| match &event.body {
            EventBody::ToolRefused(it) => Some(it),
            _ => None,
        });
        let refused = refused.unwrap_or_else(|| panic!("{bad} should be refused"));
        assert_eq!(refused.reason, RefusalReason::BadArguments, "{bad}");
    }
    let missing = World::acting(&[("sleep", "{}")]);
    assert!(missing.state.timers.is_empty());
}

#[test]
fn only_what_is_due_fires() {
    let mut world = World::acting(&[("sleep", r#"{"seconds":1}"#), ("sleep", r#"{"seconds":2}"#)]);
    assert_eq!(world.state.next_due(), Some(TimestampMs(world.now + 1_000)));
    assert_eq!(world.after(1_500).when(Input::Wake), ["timer_fired"]);
    assert_eq!(world.after(500).when(Input::Wake), ["timer_fired", "model_requested"]);
}

#[test]
fn the_deadline_and_what_else_is_due_fire_together_and_end_the_session() {
    let mut agent = agent();
    agent.limits.deadline_ms = Some(10_000);
    let mut world = World::of(agent);
    world.calls(&[("sleep", r#"{"seconds":5}"#)]);
    let events = world.after(20_000).when(Input::Wake);
    assert_eq!(events, ["timer_fired", "timer_fired", "session_finished"]);
    assert_eq!(world.state.step, 1, "no request for a session whose time is up");
}
