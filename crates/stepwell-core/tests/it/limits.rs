//! Each limit ends a session as `limit_reached`, with which one and why.

use stepwell_core::agent::Limits;
use stepwell_core::event::{
    EventBody, FinishReason, LimitKind, ModelErrorKind, Outcome, Timer, Usage,
};
use stepwell_core::{Input, Status, TimestampMs};

use crate::world::{START, World, agent, id, message, pause, reply, resume, wants};

#[track_caller]
fn limited(limits: Limits) -> World {
    let mut agent = agent();
    agent.limits = limits;
    World::of(agent)
}

#[track_caller]
fn ended(world: &World, limit: LimitKind, reason: &str) {
    let EventBody::SessionFinished(end) = world.last() else { panic!("{:?}", world.last()) };
    assert_eq!((end.outcome, end.limit), (Outcome::LimitReached, Some(limit)));
    assert_eq!(end.reason, reason);
    assert_eq!(world.status(), Status::LimitReached);
    assert_eq!(world.pending(), []);
    assert!(stepwell_core::explain::explain(&world.state).contains(limit.as_str()));
}

/// One step that asks for these calls; those that run are done.
#[track_caller]
fn step(world: &mut World, calls: &[(&str, &str)]) {
    world.calls(calls);
    let running: Vec<_> = world.state.calls.keys().copied().collect();
    for call_id in running {
        world.done(call_id, "x");
    }
}

#[test]
fn the_steps_are_counted() {
    let mut world = limited(Limits { steps_max: 2, ..Limits::default() });
    step(&mut world, &[("find", "{}")]);
    step(&mut world, &[("find", r#"{"a":1}"#)]);
    ended(&world, LimitKind::Steps, "2 of 2 steps are used");
}

/// A reply with calls of which none can be used.
fn unusable(world: &mut World) {
    let (step, attempt) = (world.state.step, world.attempt());
    let mut call = wants("find", "{\"box\":");
    call.problem = Some("the JSON ends too early".into());
    world.when(Input::ModelReplied(reply(step, attempt, "", vec![call])));
}

#[test]
fn replies_that_cannot_be_used_come_to_an_end() {
    let limits = || Limits { unusable_replies_max: 3, repeat_window: 0, ..Limits::default() };
    let mut world = limited(limits());
    unusable(&mut world);
    unusable(&mut world);
    step(&mut world, &[("find", "{}")]);
    unusable(&mut world);
    step(&mut world, &[("fly", "{}")]);
    assert_eq!(world.status(), Status::Thinking, "a good call between begins anew");
    unusable(&mut world);
    let reason = "replies in a row that could not be used: 3; the last: the JSON ends too early";
    ended(&world, LimitKind::UnusableReplies, reason);

    let mut world = limited(limits());
    unusable(&mut world);
    unusable(&mut world);
    world.when(message("write it like this"));
    unusable(&mut world);
    unusable(&mut world);
    assert_eq!(world.status(), Status::Thinking, "a word of a person begins anew");
}

#[test]
fn why_an_answer_was_cut_is_said_in_the_words_of_its_server() {
    for (word, reason) in [
        (None, "the model's output limit (max_tokens) cut its answer off"),
        (Some("repetition"), "the server cut the answer off (finish_reason `repetition`)"),
    ] {
        let mut world = World::new();
        let mut cut = reply(1, 1, "and so on", Vec::new());
        (cut.finish_reason, cut.finish_word) = (FinishReason::Length, word.map(String::from));
        world.when(Input::ModelReplied(cut));
        ended(&world, LimitKind::OutputTokens, reason);
    }
}

#[test]
fn one_good_call_among_bad_ones_is_progress() {
    let mut world = limited(Limits { unusable_replies_max: 1, ..Limits::default() });
    world.calls(&[("find", r#"{"a":1}"#), ("fly", "{}")]);
    world.done(id(1, 1), "x");
    assert_eq!(world.status(), Status::Thinking);
    step(&mut world, &[("fly", "{}")]);
    let reason = "replies in a row that could not be used: 1; the last: there is no tool `fly`";
    ended(&world, LimitKind::UnusableReplies, reason);
}

#[test]
fn an_answer_in_the_last_step_is_in_time() {
    let mut world = limited(Limits { steps_max: 1, ..Limits::default() });
    assert_eq!(world.answer("done"), ["model_replied", "session_finished"]);
    assert_eq!(world.status(), Status::Completed);
}

#[test]
fn no_step_allowed_means_no_request() {
    let world = limited(Limits { steps_max: 0, ..Limits::default() });
    ended(&world, LimitKind::Steps, "0 of 0 steps are used");
}

#[test]
fn the_tokens_are_counted() {
    let mut world = limited(Limits { tokens_max: Some(220), ..Limits::default() });
    step(&mut world, &[("find", "{}")]);
    step(&mut world, &[("find", r#"{"a":1}"#)]);
    ended(&world, LimitKind::Tokens, "220 of 220 tokens are used");
}

/// A server that tells no tokens does not lift the limit.
#[test]
fn tokens_that_nobody_tells_are_estimated() {
    let mut world = limited(Limits { tokens_max: Some(1_000), ..Limits::default() });
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(3_000));
    let mut silent = reply(1, 1, "", vec![wants("find", &long)]);
    silent.usage = Usage::default();
    world.when(Input::ModelReplied(silent));
    let estimated = world.state.account.uncounted_tokens;
    assert!((1_000..2_000).contains(&estimated), "{estimated}");
    world.done(id(1, 1), "x");
    let reason = format!(
        "{estimated} of 1000 tokens are used; {estimated} of them are estimated by size, because the \
         server told none for 1 of its replies"
    );
    ended(&world, LimitKind::Tokens, &reason);
}

#[test]
fn the_deadline_ends_it_in_any_phase() {
    let deadline = Limits { deadline_ms: Some(60_000), ..Limits::default() };
    let mut thinking = limited(deadline.clone());
    let mut acting = limited(deadline.clone());
    acting.calls(&[("find", "{}"), ("ship", "{}"), ("sleep", r#"{"seconds":1000}"#)]);
    let mut backoff = limited(deadline.clone());
    backoff.fail(ModelErrorKind::Timeout);
    backoff.when(pause());
    for world in [&mut thinking, &mut acting, &mut backoff] {
        world.now = START + 59_999;
        let events = world.when(Input::Wake);
        assert!(!events.contains(&"session_finished"), "not yet: {events:?}");
        world.now = START + 60_000;
        assert_eq!(world.when(Input::Wake), ["timer_fired", "session_finished"]);
        ended(world, LimitKind::Deadline, "the session's time is up");
    }
    let mut done = limited(deadline);
    done.answer("done");
    assert!(done.after(100_000).when(Input::Wake).is_empty());
}

#[test]
fn a_huge_deadline_never_comes() {
    let mut world = limited(Limits { deadline_ms: Some(u64::MAX), ..Limits::default() });
    assert_eq!(world.state.timers[&Timer::Deadline], TimestampMs(u64::MAX));
    assert!(world.after(1 << 60).when(Input::Wake).is_empty());
}

const A: (&str, &str) = ("find", r#"{"a":1}"#);
const B: (&str, &str) = ("find", r#"{"b":1}"#);

#[test]
fn one_action_again_and_again_is_noticed() {
    let mut world = limited(Limits::default());
    step(&mut world, &[A]);
    step(&mut world, &[("find", r#" { "a" : 1.0 } "#)]);
    assert_eq!(world.calls(&[A]), ["model_replied", "session_finished"], "not run a third time");
    ended(
        &world,
        LimitKind::RepeatedAction,
        "the model asked for the same call of `find` 3 times within its last 8 actions",
    );
}

#[test]
fn two_actions_in_turn_are_noticed() {
    let mut world = limited(Limits::default());
    for action in [A, B, A, B] {
        step(&mut world, &[action]);
    }
    assert_eq!(world.calls(&[A]), ["model_replied", "session_finished"]);
}

#[test]
fn one_reply_with_the_same_call_three_times_is_noticed() {
    let mut world = limited(Limits::default());
    assert_eq!(world.calls(&[A, A, A]), ["model_replied", "session_finished"]);
}

#[test]
fn a_new_write_in_between_makes_looking_again_useful() {
    let mut world = limited(Limits::default());
    for order in 0..6 {
        step(&mut world, &[A]);
        world.calls(&[("pay", &format!("{{\"order\":{order}}}"))]);
        let call_id = id(world.state.step, 1);
        world.reserve(call_id);
        world.done(call_id, "paid");
    }
    assert_eq!(world.status(), Status::Thinking);
}

#[test]
fn the_same_write_again_and_again_is_noticed() {
    let mut world = limited(Limits::default());
    let pay = ("pay", r#"{"order":1}"#);
    for _ in 0..2 {
        step(&mut world, &[A]);
        world.calls(&[pay]);
        let call_id = id(world.state.step, 1);
        world.reserve(call_id);
        world.done(call_id, "paid");
    }
    assert_eq!(world.calls(&[pay]), ["model_replied", "session_finished"]);
}

/// The window is the last actions, this one included.
#[test]
fn an_action_that_left_the_window_does_not_count() {
    let limits = || Limits { repeat_window: 4, repeat_count: 2, ..Limits::default() };
    let other = |n: u32| format!("{{\"n\":{n}}}");
    let mut world = limited(limits());
    step(&mut world, &[A]);
    for n in 0..3 {
        step(&mut world, &[("find", &other(n))]);
    }
    step(&mut world, &[A]);
    assert_eq!(world.status(), Status::Thinking, "it is the fifth");
    let mut world = limited(limits());
    step(&mut world, &[A]);
    for n in 0..2 {
        step(&mut world, &[("find", &other(n))]);
    }
    assert_eq!(world.calls(&[A]), ["model_replied", "session_finished"], "it is the fourth");
}

#[test]
fn a_window_of_nothing_switches_the_check_off() {
    let mut world = limited(Limits { repeat_window: 0, ..Limits::default() });
    for _ in 0..10 {
        step(&mut world, &[A]);
    }
    assert_eq!(world.status(), Status::Thinking);
}

/// A person who says "again" wants it again.
#[test]
fn what_a_person_says_makes_a_repetition_meant() {
    let mut agent = agent();
    agent.interactive = true;
    let mut world = World::of(agent);
    for _ in 0..5 {
        step(&mut world, &[A]);
        world.answer("looked");
        world.when(message("look again"));
    }
    assert_eq!(world.status(), Status::Thinking);
}

#[test]
fn a_repeated_call_that_cannot_be_read_is_noticed() {
    let mut world = limited(Limits::default());
    for _ in 0..2 {
        let mut call = wants("find", "{\"a\":");
        call.problem = Some("the JSON ends too early".into());
        world.when(Input::ModelReplied(reply(world.state.step, 1, "", vec![call])));
    }
    let mut call = wants("find", "{\"a\":");
    call.problem = Some("the JSON ends too early".into());
    let events = world.when(Input::ModelReplied(reply(3, 1, "", vec![call])));
    assert_eq!(events, ["model_replied", "session_finished"]);
}

#[test]
fn an_answer_that_the_output_limit_cut_off_is_no_answer() {
    let mut world = World::new();
    let mut cut = reply(1, 1, "The answer is", Vec::new());
    cut.finish_reason = FinishReason::Length;
    assert_eq!(world.when(Input::ModelReplied(cut)), ["model_replied", "session_finished"]);
    ended(
        &world,
        LimitKind::OutputTokens,
        "the model's output limit (max_tokens) cut its answer off",
    );
}

#[test]
fn a_full_context_ends_it() {
    let mut world = World::new();
    assert_eq!(world.fail(ModelErrorKind::ContextTooLong), ["model_failed", "session_finished"]);
    ended(&world, LimitKind::Context, "http://127.0.0.1:8000: no luck");
}

#[test]
fn a_limit_is_kept_while_paused() {
    let mut world = limited(Limits { steps_max: 1, ..Limits::default() });
    world.calls(&[A]);
    world.when(pause());
    world.done(id(1, 1), "x");
    assert_eq!(world.status(), Status::Paused, "nothing is decided in a pause");
    assert_eq!(world.when(resume()), ["resume_requested", "session_finished"]);
}
