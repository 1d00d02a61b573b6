//! Cancelling in each phase, and what may still come afterwards.

use stepwell_core::event::{EventBody, Timer, ToolOutcome};
use stepwell_core::{CANCEL_GRACE_MS, Command, Input, Reject, Status, TimestampMs};

use crate::world::{
    World, agent, cancel, failure, id, lost, message, pause, reply, report, reserved, resume,
};
use stepwell_core::event::ModelErrorKind;

#[test]
fn cancelling_while_the_model_thinks_ends_the_session() {
    let mut world = World::new();
    assert_eq!(world.when(cancel()), ["cancel_requested", "session_finished"]);
    assert_eq!(world.status(), Status::Cancelled);
    assert_eq!(world.pending(), [], "the request is stopped");
    let late = Input::ModelReplied(reply(1, 1, "x", Vec::new()));
    assert_eq!(world.refused(late), Reject::NotAsked { step: 1, attempt: 1 });
    let late = Input::ModelFailed(failure(1, 1, ModelErrorKind::Timeout));
    assert_eq!(world.refused(late), Reject::NotAsked { step: 1, attempt: 1 });
}

#[test]
fn cancelling_in_a_backoff_ends_the_session() {
    let mut world = World::new();
    world.fail(ModelErrorKind::Timeout);
    assert_eq!(world.when(cancel()), ["cancel_requested", "session_finished"]);
    assert!(world.after(100_000).when(Input::Wake).is_empty(), "its timer is gone");
}

#[test]
fn cancelling_what_waits_for_people_or_timers_ends_the_session() {
    for (tool, arguments) in
        [("ship", "{}"), ("ask_user", r#"{"question":"?"}"#), ("sleep", r#"{"seconds":60}"#)]
    {
        let mut world = World::acting(&[(tool, arguments)]);
        assert_eq!(world.when(cancel()), ["cancel_requested", "session_finished"], "{tool}");
        assert!(world.after(100_000).when(Input::Wake).is_empty());
    }
    let mut agent = agent();
    agent.interactive = true;
    let mut world = World::of(agent);
    world.answer("hello");
    assert_eq!(world.when(cancel()), ["cancel_requested", "session_finished"]);
}

#[test]
fn running_tools_are_told_to_stop_and_get_their_time() {
    let mut world = World::acting(&[("find", "{}"), ("pay", "{}")]);
    world.reserve(id(1, 2));
    assert_eq!(world.when(cancel()), ["cancel_requested", "timer_started"]);
    let due_at = TimestampMs(world.now + CANCEL_GRACE_MS);
    assert_eq!(
        world.pending(),
        [
            Command::StopTool { call_id: id(1, 1), attempt: 1 },
            Command::StopTool { call_id: id(1, 2), attempt: 1 },
            Command::WaitUntil { timer: Timer::CancelGrace, due_at },
        ]
    );
    assert_eq!(world.restart().len(), 3, "a new owner stops them, too");
    assert_eq!(world.done(id(1, 1), "a"), ["tool_finished"]);
    let events = world.when(report(id(1, 2), 1, ToolOutcome::Error, "interrupted"));
    assert_eq!(events, ["tool_finished", "session_finished"], "nothing to wait for any more");
    assert_eq!(world.status(), Status::Cancelled);
    assert_eq!(world.state.step, 1, "no request follows");
}

/// ti11
#[test]
fn a_tool_that_ignores_the_cancel_reports_late() {
    let mut world = World::acting(&[("find", "{}")]);
    world.when(cancel());
    assert!(world.after(CANCEL_GRACE_MS - 1).when(Input::Wake).is_empty());
    assert_eq!(world.after(1).when(Input::Wake), ["timer_fired", "session_finished"]);
    let prompt = world.state.prompt.clone();
    assert_eq!(
        world.after(20_000).when(report(id(1, 1), 1, ToolOutcome::Ok, "x")),
        ["tool_finished"]
    );
    let EventBody::ToolFinished(late) = world.last() else { panic!() };
    assert!(late.late);
    assert_eq!(world.state.prompt, prompt, "the model never sees it");
    assert_eq!(world.status(), Status::Cancelled);
    let twice = world.refused(report(id(1, 1), 1, ToolOutcome::Ok, "x"));
    assert_eq!(twice, Reject::NotRunning { call_id: id(1, 1), attempt: 1 });
}

#[test]
fn a_tool_that_is_lost_while_it_stops_is_not_asked_about() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    world.when(cancel());
    assert_eq!(world.when(lost(id(1, 1), 1)), ["tool_lost", "session_finished"]);
    assert_eq!(world.when(report(id(1, 1), 1, ToolOutcome::Ok, "paid")), ["tool_finished"]);
}

/// A write that waits for a worker was not started: the cancel need not wait for it.
#[test]
fn a_write_that_never_started_does_not_hold_the_cancel_up() {
    let mut world = World::acting(&[("pay", "{}")]);
    assert_eq!(world.when(cancel()), ["cancel_requested", "session_finished"]);
    let mut world = World::acting(&[("pay", "{}"), ("find", "{}")]);
    assert_eq!(world.when(cancel()), ["cancel_requested", "timer_started"]);
    let refusal = world.refused(reserved(id(1, 1), 1));
    assert_eq!(refusal, Reject::MayNotStart { call_id: id(1, 1) });
    assert_eq!(world.done(id(1, 2), "x"), ["tool_finished", "session_finished"]);
}

#[test]
fn nothing_starts_while_tools_stop() {
    let mut world = World::acting(&[("find", "{}"), ("put", "{}"), ("ship", "{}")]);
    world.lose(id(1, 2));
    world.when(cancel());
    assert!(world.after(5_000).when(Input::Wake).is_empty(), "no retry");
    assert_eq!(
        world.refused(message("stop!")),
        Reject::Finished { status: Status::Cancelled },
        "nobody would read it"
    );
    assert!(world.when(cancel()).is_empty(), "said before");
    assert_eq!(world.when(pause()), ["pause_requested"]);
    assert_eq!(world.when(resume()), ["resume_requested"]);
    assert_eq!(world.when(lost(id(1, 1), 1)), ["tool_lost", "session_finished"]);
}

#[test]
fn cancelling_a_finished_session() {
    let mut world = World::new();
    world.when(cancel());
    assert!(world.when(cancel()).is_empty(), "it is cancelled already");
    let mut world = World::new();
    world.answer("done");
    let refusal = Reject::Finished { status: Status::Completed };
    for input in [cancel(), pause(), resume(), message("hi")] {
        assert_eq!(world.refused(input), refusal);
    }
    assert!(world.when(Input::Wake).is_empty());
}

#[test]
fn a_paused_session_can_be_cancelled() {
    let mut world = World::acting(&[("find", "{}")]);
    world.when(pause());
    world.when(cancel());
    assert_eq!(world.done(id(1, 1), "x"), ["tool_finished", "session_finished"]);
}
