//! Forks: the parent's beginning, and then something else.

use std::sync::Arc;

use stepwell_core::event::{Edit, EventBody, Timer, ToolOutcome};
use stepwell_core::{Command, Event, Input, JsonText, Reject, Status, Text};

use crate::world::{World, agent, fork, id, reply, wants};

fn result(text: &str) -> Edit {
    let output = Text::from(text);
    Edit::ToolResult { call_id: id(1, 1), outcome: ToolOutcome::Ok, output }
}

#[test]
fn a_fork_owes_what_its_parent_owed_at_that_moment() {
    let mut world = World::acting(&[("find", "{}")]);
    let pending = world.pending();
    assert_eq!(world.when(fork(&world.state, Vec::new())), ["override_applied"]);
    assert_eq!(world.pending(), pending);
    assert_eq!(world.state.forked_from.unwrap().seq.next(), world.state.head);
    let origin = world.state.origin.as_ref().unwrap();
    assert_eq!((origin.workspace.as_str(), origin.seed.as_str()), ("theirs", "fork"));
}

/// It was the parent that asked, so the log must say what this session asks, and of whom.
#[test]
fn a_request_that_was_open_is_made_anew() {
    let mut world = World::new();
    let digest = world.state.prompt.digest();
    let mut other = agent();
    other.instructions = "You carry boxes.".into();
    let Input::Fork { mut fork, by } = fork(&world.state, Vec::new()) else { panic!() };
    fork.agent = Some(Arc::new(other));
    let events = world.when(Input::Fork { fork: fork.clone(), by: by.clone() });
    assert_eq!(events, ["override_applied", "model_requested"]);
    let EventBody::ModelRequested(asked) = world.last() else { panic!() };
    assert_eq!((asked.step, asked.attempt), (1, 2));
    assert_ne!(asked.prompt_digest, digest);

    let mut held = World::new();
    fork.paused = true;
    assert_eq!(held.when(Input::Fork { fork, by }), ["override_applied"]);
    assert_eq!((held.status(), held.pending()), (Status::Paused, vec![]), "held means held");
    assert_eq!(held.when(crate::world::resume()), ["resume_requested", "model_requested"]);
}

/// What a worker had of the parent is started here anew, by the rules.
#[test]
fn a_dispatched_call_is_dispatched_again() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    world.when(fork(&world.state, Vec::new()));
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    assert_eq!(world.reserve(id(1, 1)), ["tool_dispatched"]);
}

#[test]
fn another_result_takes_the_place_of_the_run() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    let events = world.when(fork(&world.state, vec![result("paid twice")]));
    assert_eq!(events, ["override_applied", "model_requested"]);
    assert_eq!(world.observations(), ["paid twice"]);
}

#[test]
fn another_result_answers_an_open_question() {
    let mut world = World::acting(&[("ship", "{}")]);
    assert_eq!(world.status(), Status::WaitingApproval);
    world.when(fork(&world.state, vec![result("shipped")]));
    assert!(world.state.approvals.is_empty());
    assert_eq!(world.status(), Status::Thinking);
}

#[test]
fn another_reply_is_followed_like_the_models_own() {
    let mut world = World::new();
    let other = reply(1, 1, "", vec![wants("find", "{}"), wants("erase", "{}")]);
    let events = world.when(fork(&world.state, vec![Edit::ModelReply(other)]));
    assert_eq!(events, ["override_applied", "tool_scheduled", "tool_refused"]);
    let EventBody::OverrideApplied(it) = &world.events[world.events.len() - 3].body else {
        panic!()
    };
    let [Edit::ModelReply(reply)] = &it.edits[..] else { panic!() };
    assert_eq!(reply.tool_calls[1].call_id, id(1, 2), "calls are numbered");
}

/// The rules judge the new arguments, not the old ones.
#[test]
fn edited_arguments_are_judged_anew() {
    let mut parent = World::new();
    parent.calls(&[("ship", r#"{"note":"forbidden"}"#)]);
    let reply = |it: &Event| matches!(it.body, EventBody::ModelReplied(_));
    let length = parent.events.iter().position(reply).unwrap() + 1;
    let mut world = parent.beginning(length);
    let arguments = JsonText::parse(r#"{"note":"fine"}"#).unwrap();
    let edit = Edit::Arguments { call_id: id(1, 1), arguments };
    let events = world.when(fork(&world.state, vec![edit]));
    assert_eq!(events, ["override_applied", "approval_requested"]);
    assert_eq!(world.state.calls[&id(1, 1)].effective_arguments(), r#"{"note":"fine"}"#);
}

#[test]
fn a_message_goes_on_after_a_completed_end_only() {
    let mut world = World::new();
    world.answer("done");
    assert_eq!(world.status(), Status::Completed);
    let Reject::CannotFork { reason } = world.refused(fork(&world.state, Vec::new())) else {
        panic!()
    };
    assert!(reason.contains("fork it before its end"), "{reason}");
    let say = Edit::Message { content: Text::from("and box 10?") };
    let events = world.when(fork(&world.state, vec![say]));
    assert_eq!(events, ["override_applied", "model_requested"]);
    assert!(world.state.prompt.body().contains("and box 10?"));
}

/// Another definition changes head and system prompt; what was said stays.
#[test]
fn another_definition_renders_the_same_messages() {
    let mut world = World::acting(&[("find", "{}")]);
    let before = world.state.prompt.body();
    let mut other = agent();
    other.instructions = "You carry boxes.".into();
    other.model.name = "large".into();
    let stepwell_core::Input::Fork { mut fork, by } = fork(&world.state, Vec::new()) else {
        panic!()
    };
    fork.agent = Some(Arc::new(other));
    world.when(stepwell_core::Input::Fork { fork, by });
    let expected = before
        .replace("\"model\":\"small\"", "\"model\":\"large\"")
        .replace("You move boxes.", "You carry boxes.");
    assert_eq!(world.state.prompt.body(), expected);
    let parent = world.beginning(world.events.len() - 1).state.outline();
    let outline = stepwell_core::fold(parent, world.events.last()).unwrap();
    assert_eq!(outline.prompt, world.state.outline().prompt);
    assert_eq!(world.state.prompt.digest(), blake3::hash(expected.as_bytes()).to_hex().as_str());
}

/// Time stands still for a fork: what had an hour left has an hour left.
#[test]
fn timers_go_on_where_they_stood() {
    let mut agent = agent();
    agent.limits.deadline_ms = Some(3_600_000);
    let mut world = World::of(agent);
    world.now += 86_400_000;
    let now = world.now;
    world.when(fork(&world.state, Vec::new()));
    assert_eq!(world.state.timers[&Timer::Deadline].0 - now, 3_600_000);
}

#[test]
fn an_edit_that_does_not_fit_says_so_and_changes_nothing() {
    let mut world = World::acting(&[("find", "{}"), ("find", r#"{"n":2}"#)]);
    world.done(id(1, 1), "here");
    let before = world.state.clone();
    for edit in [
        result("there"),
        Edit::Arguments { call_id: id(1, 2), arguments: JsonText::empty_object() },
        Edit::ModelReply(reply(1, 1, "", Vec::new())),
        Edit::ToolResult { call_id: id(7, 1), outcome: ToolOutcome::Ok, output: Text::from("x") },
    ] {
        let refusal = world.refused(fork(&world.state, vec![edit]));
        assert!(matches!(refusal, Reject::CannotFork { .. }), "{refusal}");
        assert_eq!(world.state, before);
    }
}
