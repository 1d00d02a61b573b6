//! Pausing in each phase: what runs ends, nothing new starts, and `resume` goes on where it was.

use stepwell_core::event::{ApprovalDecision, IMPORTER, ModelErrorKind};
use stepwell_core::explain::explain;
use stepwell_core::{Actor, Command, Input, Reject, Status};

use crate::world::{World, ada, agent, bob, id, message, pause, reserved, resume, session_created};

#[test]
fn a_reply_that_comes_in_a_pause_is_kept_and_starts_nothing() {
    let mut world = World::new();
    assert_eq!(world.when(pause()), ["pause_requested"]);
    assert_eq!(world.status(), Status::Thinking, "the running call is let to its end");
    assert_eq!(world.calls(&[("find", "{}"), ("fly", "{}"), ("ship", "{}")]), ["model_replied"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.pending(), []);
    assert_eq!(
        world.when(resume()),
        ["resume_requested", "tool_scheduled", "tool_refused", "approval_requested"]
    );
}

#[test]
fn an_answer_that_comes_in_a_pause_ends_the_session_after_it() {
    let mut world = World::new();
    world.when(pause());
    assert_eq!(world.answer("done"), ["model_replied"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(resume()), ["resume_requested", "session_finished"]);
}

#[test]
fn a_message_in_a_pause_is_shown_after_it() {
    let mut world = World::new();
    world.when(pause());
    world.answer("done?");
    assert_eq!(world.when(message("not yet: and box 10")), ["message_received"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(resume()), ["resume_requested", "model_requested"]);
    assert_eq!(world.messages()[3]["content"], "not yet: and box 10");
}

#[test]
fn a_tool_that_ends_in_a_pause_leads_to_no_request() {
    let mut world = World::acting(&[("find", "{}")]);
    world.when(pause());
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    assert_eq!(world.done(id(1, 1), "x"), ["tool_finished"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(resume()), ["resume_requested", "model_requested"]);
}

#[test]
fn a_write_that_did_not_start_waits_for_the_end_of_the_pause() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.when(pause());
    assert_eq!(world.pending(), [], "it is not even offered to a worker");
    let refusal = world.refused(reserved(id(1, 1), 1));
    assert_eq!(refusal, Reject::MayNotStart { call_id: id(1, 1) });
    assert_eq!(world.when(resume()), ["resume_requested"]);
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
}

#[test]
fn a_write_that_started_is_followed_in_a_pause() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    world.when(pause());
    assert_eq!(world.pending().len(), 1);
    assert_eq!(world.done(id(1, 1), "paid"), ["tool_finished"]);
}

#[test]
fn an_approval_in_a_pause_is_kept() {
    let mut world = World::acting(&[("ship", "{}")]);
    world.when(pause());
    assert_eq!(world.status(), Status::WaitingApproval);
    assert_eq!(world.decided(ApprovalDecision::Approve), ["approval_decided"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(resume()), ["resume_requested", "tool_scheduled"]);
    let mut world = World::acting(&[("ship", "{}")]);
    world.when(pause());
    assert_eq!(world.decided(ApprovalDecision::Deny), ["approval_decided", "tool_refused"]);
    assert_eq!(world.when(resume()), ["resume_requested", "model_requested"]);
}

#[test]
fn a_backoff_that_ends_in_a_pause_asks_after_it() {
    let mut world = World::new();
    world.when(pause());
    assert_eq!(world.fail(ModelErrorKind::Timeout), ["model_failed", "timer_started"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.wake(), ["timer_fired"]);
    assert_eq!(world.pending(), []);
    assert_eq!(world.when(resume()), ["resume_requested", "model_requested"]);
    assert_eq!(world.attempt(), 2);
}

#[test]
fn a_backoff_that_outlasts_the_pause_is_kept() {
    let mut world = World::new();
    world.fail(ModelErrorKind::Timeout);
    world.when(pause());
    assert_eq!(world.when(resume()), ["resume_requested"]);
    assert_eq!(world.wake(), ["timer_fired", "model_requested"]);
}

#[test]
fn sleeping_and_asking_end_in_a_pause_and_lead_nowhere() {
    let mut world = World::acting(&[("sleep", r#"{"seconds":1}"#)]);
    world.when(pause());
    assert_eq!(world.wake(), ["timer_fired"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(resume()), ["resume_requested", "model_requested"]);
    let mut world = World::acting(&[("ask_user", r#"{"question":"?"}"#)]);
    world.when(pause());
    assert_eq!(world.status(), Status::WaitingInput, "the answer is taken meanwhile");
    assert_eq!(world.when(message("yes")), ["message_received"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(resume()), ["resume_requested", "model_requested"]);
}

#[test]
fn an_interactive_session_can_be_paused_while_it_listens() {
    let mut agent = agent();
    agent.interactive = true;
    let mut world = World::of(agent);
    world.answer("hello");
    world.when(pause());
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(message("hi")), ["message_received"]);
    assert_eq!(world.when(resume()), ["resume_requested", "model_requested"]);
}

#[test]
fn the_same_said_twice_changes_nothing() {
    let mut world = World::new();
    assert!(world.when(resume()).is_empty());
    world.when(pause());
    assert!(world.when(pause()).is_empty());
    world.when(resume());
    assert!(world.when(resume()).is_empty());
}

#[test]
fn a_restart_in_a_pause_starts_nothing_new() {
    let mut world = World::acting(&[("pay", "{}"), ("find", "{}")]);
    world.when(pause());
    assert_eq!(
        world.restart(),
        [Command::RunTool { call_id: id(1, 2), attempt: 1 }],
        "what may be repeated may have started, so it is brought to its end"
    );
}

fn step() -> Input {
    Input::Resume { once: true, by: bob() }
}

/// One model call, one tool call, one after the other.
#[test]
fn a_single_step_lets_exactly_one_thing_through() {
    let mut world = World::empty();
    let mut session = session_created(agent());
    session.paused = true;
    world.when(Input::Create { session, by: ada() });
    assert_eq!((world.status(), world.pending()), (Status::Paused, vec![]));
    assert_eq!(world.when(step()), ["resume_requested", "model_requested"]);
    let calls = [("find", "{}"), ("pay", "{}"), ("erase", "{}")];
    assert_eq!(world.calls(&calls), ["model_replied"], "what it asked for is held");
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(step()), ["resume_requested", "tool_scheduled"]);
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    assert_eq!(world.done(id(1, 1), "shelf A"), ["tool_finished"]);
    assert_eq!(world.when(step()), ["resume_requested", "tool_scheduled"]);
    assert_eq!(world.reserve(id(1, 2)), ["tool_dispatched"], "a write may start, too");
    assert_eq!(world.done(id(1, 2), "paid"), ["tool_finished"]);
    // A refusal is owed to nobody outside, so the step goes on to the next request.
    assert_eq!(world.when(step()), ["resume_requested", "tool_refused", "model_requested"]);
    assert_eq!(world.answer("done"), ["model_replied"]);
    assert_eq!(world.when(step()), ["resume_requested", "session_finished"]);
}

#[test]
fn a_step_with_nothing_to_do_says_what_is_waited_for() {
    let mut world = World::acting(&[("ship", "{}")]);
    world.when(pause());
    let Reject::NothingToStep { why } = world.refused(step()) else { panic!() };
    assert!(why.contains("waits for approval"), "{why}");
    assert_eq!(world.decided(ApprovalDecision::Approve), ["approval_decided"]);
    assert_eq!(world.status(), Status::Paused);
    assert_eq!(world.when(step()), ["resume_requested", "tool_scheduled"]);
}

#[test]
fn a_session_that_runs_cannot_be_stepped() {
    assert_eq!(World::new().refused(step()), Reject::NotPaused);
}

/// What an import does to a session that is not over.
fn brought() -> Input {
    let by = Actor::Person(IMPORTER.to_owned());
    Input::Pause { reason: "from a file".to_owned(), by }
}

/// Nobody here asked for it: whatever was under way elsewhere is not under way here.
#[test]
fn a_session_that_was_brought_here_is_owed_nothing_until_somebody_gives_it_an_input() {
    let dispatched = || {
        let mut world = World::acting(&[("pay", "{}")]);
        world.reserve(id(1, 1));
        world
    };
    let paused = |mut world: World| {
        world.when(pause());
        world
    };
    for (name, mut world, was) in [
        ("thinking", World::new(), "when it was exported: waits for the model small, step 1"),
        ("thinking, paused", paused(World::new()), "paused before by person:bob; when it was"),
        ("dispatched", dispatched(), "ran on a worker where it comes from, its outcome is not"),
        ("dispatched, paused", paused(dispatched()), "ran on a worker where it comes from"),
        (
            "asleep",
            World::acting(&[("sleep", r#"{"seconds":60}"#)]),
            "when it was exported: sleeps",
        ),
    ] {
        let before = world.status();
        let reason = match &world.state.paused {
            Some(stop) => format!("from a file; paused before by {}", stop.by),
            None => "from a file".to_owned(),
        };
        let by = Actor::Person(IMPORTER.to_owned());
        assert_eq!(world.when(Input::Pause { reason, by }), ["pause_requested"], "{name}");
        assert_eq!((world.status(), world.pending()), (Status::Paused, vec![]), "{name}");
        assert_eq!(world.state.next_due(), None, "{name}");
        let why = explain(&world.state);
        assert!(why.starts_with("held, not to run here by itself: from a file"), "{name}: {why}");
        assert!(why.contains(was), "{name}: {why}");
        world.after(24 * 3_600_000);
        assert!(world.when(Input::Wake).is_empty(), "{name}: no timer of elsewhere fires here");
        assert_eq!(world.when(resume()), ["resume_requested"], "{name}");
        assert!(!world.pending().is_empty(), "{name}: it is {before:?} again");
    }
}

/// What a step lets through of a session that was brought here is what was owed there.
#[test]
fn a_step_of_a_session_that_was_brought_here_begins_with_what_was_owed() {
    let mut world = World::new();
    world.when(brought());
    assert_eq!(world.when(step()), ["resume_requested"]);
    assert_eq!(world.pending(), [Command::AskModel { step: 1, attempt: 1 }]);
    assert_eq!(explain(&world.state).matches("when it was exported").count(), 0);
    assert_eq!(world.calls(&[("find", "{}")]), ["model_replied"], "one thing, and it is held");
    assert_eq!(world.when(step()), ["resume_requested", "tool_scheduled"]);

    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    world.when(brought());
    assert_eq!(world.when(step()), ["resume_requested"]);
    assert_eq!(world.lose(id(1, 1)), ["tool_lost", "approval_requested"]);

    let mut world = World::acting(&[("sleep", r#"{"seconds":60}"#)]);
    world.when(brought());
    assert!(matches!(world.refused(step()), Reject::NothingToStep { .. }), "it is not due");
    assert!(world.state.is_brought(), "a refused input touches nothing");
    world.after(61_000);
    assert_eq!(world.when(step()), ["resume_requested"]);
    assert_eq!(world.when(Input::Wake)[0], "timer_fired");

    let mut world = World::acting(&[("ship", "{}")]);
    world.when(brought());
    let Reject::NothingToStep { why } = world.refused(step()) else { panic!() };
    assert!(why.contains("waits for approval") && !why.contains("when it was exported"), "{why}");
}

/// Answers are taken in a pause, and what follows from them waits for its end.
#[test]
fn what_is_asked_in_a_pause_can_be_answered_and_the_sentence_says_so() {
    let mut agent = agent();
    agent.approval_expires_after_ms = Some(60_000);
    let mut world = World::of(agent);
    world.calls(&[("ask_user", r#"{"question":"Which?"}"#), ("ship", "{}")]);
    world.when(pause());
    let why = explain(&world.state);
    for part in [
        "paused by person:bob",
        "waits for approval",
        "it lapses at ",
        "one more call waits for a person",
        "the answer is taken meanwhile, and nothing new begins before stepwell resume",
    ] {
        assert!(why.contains(part), "{part:?} is not in {why:?}");
    }
    assert_eq!(world.decided(ApprovalDecision::Deny), ["approval_decided", "tool_refused"]);
    assert_eq!(world.when(message("the left one")), ["message_received"]);
    assert_eq!(world.status(), Status::Paused);
    assert!(explain(&world.state).ends_with("go on with stepwell resume"));
    assert_eq!(world.when(resume()), ["resume_requested", "model_requested"]);
}
