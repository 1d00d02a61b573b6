//! Forks: the parent's beginning, and then something else.

use std::sync::Arc;

use stepwell_core::agent::{ApprovalRule, Effect, Verdict as Rule};
use stepwell_core::decide::Verdict;
use stepwell_core::event::{
    ApprovalDecision, Edit, EventBody, EventKind, Question, Timer, ToolOutcome,
};
use stepwell_core::replay::replay;
use stepwell_core::summary::session_row;
use stepwell_core::survey::{Hazard, Survey};
use stepwell_core::{
    Agent, CallId, Command, Event, Input, JsonText, Reject, Seq, SessionId, Status, Text,
    TimestampMs,
};

use crate::world::{
    START, World, ada, agent, fork, id, reply, resume, session_created, verdict, wants,
};

fn result(text: &str) -> Edit {
    let output = Text::from(text);
    Edit::ToolResult { call_id: id(1, 1), outcome: ToolOutcome::Ok, output }
}

#[test]
fn a_fork_owes_what_its_parent_owed_at_that_moment() {
    let mut world = World::acting(&[("find", "{}")]);
    let beginning = world.state.head;
    let events = world.when(fork(&world.state, Vec::new()));
    assert_eq!(events, ["override_applied", "tool_scheduled"], "judged by the rules, not by leave");
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 2 }]);
    assert_eq!(world.state.forked_from.unwrap().seq, beginning);
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

/// A write tool that the parent started may have done its work: nobody starts it here blindly.
#[test]
fn what_became_of_a_dispatched_call_is_asked() {
    for (word, next, pending) in [
        (ApprovalDecision::Happened, &["approval_decided", "model_requested"][..], 0),
        (ApprovalDecision::Failed, &["approval_decided", "model_requested"], 0),
        (ApprovalDecision::DidNotHappen, &["approval_decided", "tool_scheduled"], 1),
    ] {
        let mut world = World::acting(&[("pay", "{}")]);
        world.reserve(id(1, 1));
        let Input::Fork { mut fork, by } = fork(&world.state, Vec::new()) else { panic!() };
        fork.paused = word == ApprovalDecision::Failed;
        let is_held = fork.paused;
        let events = world.when(Input::Fork { fork, by });
        assert_eq!(events, ["override_applied", "approval_requested"]);
        assert_eq!((world.status(), world.pending()), (Status::WaitingApproval, vec![]));
        let EventBody::ApprovalRequested(asked) = world.last() else { panic!() };
        assert_eq!(asked.question, Question::WhatHappened);
        assert!(asked.rule.contains("had started it before this fork"), "{}", asked.rule);
        let next = if is_held { &next[..1] } else { next };
        assert_eq!(world.decided(word), next);
        let runs = |it: &Command| matches!(it, Command::RunTool { .. });
        assert_eq!(world.pending().iter().filter(|it| runs(it)).count(), pending, "{word:?}");
    }
}

/// Another agent without that tool does not undo what was started.
#[test]
fn what_became_of_a_call_is_asked_when_the_fork_has_no_such_tool() {
    for (word, told) in [
        (ApprovalDecision::Happened, "done"),
        (ApprovalDecision::DidNotHappen, "Not run: there is no tool `pay`"),
    ] {
        let mut world = World::acting(&[("pay", "{}")]);
        world.reserve(id(1, 1));
        let Input::Fork { mut fork, by } = fork(&world.state, Vec::new()) else { panic!() };
        let mut other = agent();
        other.tools.retain(|tool| tool.name != "pay");
        fork.agent = Some(Arc::new(other));
        let events = world.when(Input::Fork { fork, by });
        assert_eq!(events, ["override_applied", "approval_requested"]);
        let output = (word == ApprovalDecision::Happened).then(|| Text::from("done"));
        let said = verdict(world.approval(), word);
        world.when(Input::Decide(Verdict { output, ..said }));
        assert!(world.observations()[0].starts_with(told), "{:?}", world.observations());
    }
}

/// A call that is about to be lost, or that a person is asked about, stays so.
#[test]
fn a_question_what_happened_goes_with_the_fork() {
    let mut parent = World::acting(&[("pay", "{}")]);
    parent.reserve(id(1, 1));
    parent.lose(id(1, 1));
    let asked = parent.events.len();
    for (length, follows) in [
        (asked, &["override_applied"][..]),
        (asked - 1, &["override_applied", "approval_requested"]),
    ] {
        let mut world = parent.beginning(length);
        assert_eq!(world.when(fork(&world.state, Vec::new())), follows);
        assert_eq!((world.status(), world.pending()), (Status::WaitingApproval, vec![]));
    }
}

/// An agent that asks before it reads.
fn asking() -> Agent {
    let mut agent = agent();
    let rule = &agent.approval_rules[0];
    let ask = ApprovalRule { tool: "find".into(), verdict: Rule::Ask, ..rule.clone() };
    agent.approval_rules.push(ask);
    agent
}

/// A person's yes is for one exact action of the parent, once: at no moment does a fork act on it.
#[test]
fn what_a_person_allowed_in_the_parent_is_asked_anew() {
    for decision in [ApprovalDecision::Approve, ApprovalDecision::ApproveForSession] {
        let mut parent = World::of(asking());
        parent.calls(&[("find", "{}"), ("ship", "{}"), ("pay", "{}")]);
        while let Some(approval) = parent.state.approvals.keys().next() {
            parent.when(Input::Decide(verdict(*approval, decision)));
        }
        parent.lose(id(1, 1));
        parent.wake();
        let first = parent.events.iter().position(|it| it.body.kind() == EventKind::ModelReplied);
        for length in first.unwrap() + 1..=parent.events.len() {
            let mut world = parent.beginning(length);
            world.when(fork(&world.state, Vec::new()));
            let asked: Vec<CallId> = world.state.approvals.values().map(|it| it.call_id).collect();
            assert_eq!(asked.len(), 2, "{decision:?} at {length}: {asked:?}");
            assert!(asked.contains(&id(1, 1)) && asked.contains(&id(1, 2)), "{asked:?}");
            assert!(world.state.grants.is_empty());
            let runs = |it: &Command| matches!(it, Command::RunTool { .. });
            let running: Vec<_> = world.pending().into_iter().filter(runs).collect();
            let by_rule = |it: &Command| matches!(it, Command::RunTool { call_id, .. } if *call_id == id(1, 3));
            assert!(running.len() == 1 && running.iter().all(by_rule), "{running:?}");
            replay(world.events.clone()).unwrap();
        }
    }
}

/// What the person put in place of the model's arguments is what the fork asks about.
#[test]
fn edited_arguments_are_asked_about_in_a_fork() {
    let mut world = World::acting(&[("ship", "{}")]);
    let edited = JsonText::parse(r#"{"note":"mine"}"#).unwrap();
    let approval = world.approval();
    let said = verdict(approval, ApprovalDecision::Approve);
    world.when(Input::Decide(Verdict { arguments: Some(edited), ..said }));
    let events = world.when(fork(&world.state, Vec::new()));
    assert_eq!(events, ["override_applied", "approval_requested"]);
    assert_ne!(world.approval(), approval);
    assert_eq!(world.state.calls[&id(1, 1)].effective_arguments(), r#"{"note":"mine"}"#);
    assert_eq!(world.decided(ApprovalDecision::Approve), ["approval_decided", "tool_scheduled"]);
    let told = |parent: &World, at: usize| -> Vec<String> {
        let mut survey = Survey::default();
        parent.events.iter().for_each(|event| survey.push(event));
        let before = parent.beginning(at).state;
        let hazards = survey.hazards(Seq(at as u64), &agent(), &before, &[]);
        hazards.into_iter().map(|it| it.arguments).collect()
    };
    let mut ran = world.clone();
    ran.reserve(id(1, 1));
    let length = ran.events.len();
    assert_eq!(told(&world, length - 1), [r#"{"note":"mine"}"#], "it did not start yet");
    for at in [3, 5, 6, length - 1, length] {
        assert_eq!(told(&ran, at), [r#"{"note":"mine"}"#], "at {at}");
    }
    let detail = |events: &[Event]| {
        let tree = stepwell_core::spans::spans(events);
        tree.iter().find(|it| it.span_id == "call:1.1").unwrap().detail.clone()
    };
    let edited = r#"{"note":"mine"} in place of {}"#;
    assert!(detail(&ran.events).starts_with(edited), "{}", detail(&ran.events));
    assert_eq!(detail(&ran.events[..4]), "{}", "as it stood before");
}

/// A list says when the fork was made; its events keep their times.
#[test]
fn a_fork_is_as_old_as_itself() {
    let mut world = World::acting(&[("find", "{}")]);
    let row = |world: &World| session_row(SessionId::from_random([7; 16]), &world.state).unwrap();
    assert_eq!(row(&world).created_at, TimestampMs(START));
    world.after(5_000);
    world.when(fork(&world.state, Vec::new()));
    assert_eq!(row(&world).created_at, TimestampMs(START + 5_000));
    assert_eq!(world.events[0].time, TimestampMs(START));
    world.after(5_000).done(id(1, 1), "here");
    assert_eq!(row(&world).created_at, TimestampMs(START + 5_000));
}

/// The one thing that a single step let begin was let begin in the parent.
#[test]
fn a_fork_has_no_leave_of_its_parents_single_step() {
    for tool in ["pay", "find", "put"] {
        let mut session = session_created(agent());
        session.paused = true;
        let mut world = World::empty();
        world.when(Input::Create { session, by: ada() });
        world.when(Input::Resume { once: true, by: ada() });
        world.calls(&[(tool, "{}")]);
        world.when(Input::Resume { once: true, by: ada() });
        assert_eq!(world.pending().len(), 1, "the parent runs it");
        let Input::Fork { mut fork, by } = fork(&world.state, Vec::new()) else { panic!() };
        fork.paused = true;
        assert_eq!(world.when(Input::Fork { fork, by }), ["override_applied"]);
        assert_eq!((world.status(), world.pending()), (Status::Paused, vec![]), "{tool}");
        assert_eq!(world.when(resume()), ["resume_requested", "tool_scheduled"]);
        assert_eq!(world.pending().len(), 1);
    }
}

/// What earlier releases wrote is read as they meant it.
#[test]
fn a_fork_of_an_earlier_release_goes_on_as_it_did() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    let Input::Fork { mut fork, by } = fork(&world.state, Vec::new()) else { panic!() };
    fork.asks_anew = false;
    assert_eq!(world.when(Input::Fork { fork, by }), ["override_applied"]);
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    assert_eq!(world.reserve(id(1, 1)), ["tool_dispatched"]);
    replay(world.events.clone()).unwrap();
}

/// A parent that paid and shipped; at event 7 it began to pay, at 10 to ship.
fn paid_and_shipped() -> World {
    let mut parent = World::acting(&[("pay", "{\"n\":1}"), ("ship", "{}"), ("find", "{}")]);
    parent.reserve(id(1, 1));
    parent.decided(ApprovalDecision::Approve);
    parent.reserve(id(1, 2));
    parent.done(id(1, 1), "paid");
    parent.done(id(1, 2), "shipped");
    parent.done(id(1, 3), "found");
    let kinds = crate::world::kinds(&parent.events);
    let dispatched = |at: &usize| kinds.get(*at) == Some(&"tool_dispatched");
    assert_eq!((0..kinds.len()).filter(dispatched).collect::<Vec<_>>(), [6, 9]);
    assert_eq!(kinds[10..], ["tool_finished", "tool_finished", "tool_finished", "model_requested"]);
    parent
}

fn survey_of(parent: &World) -> Survey {
    let mut survey = Survey::default();
    parent.events.iter().for_each(|event| survey.push(event));
    survey
}

/// What a fork at that event is told of, in words.
fn told(parent: &World, at: usize, agent: &Agent, edits: &[Edit]) -> Vec<String> {
    let before = parent.beginning(at).state;
    let hazards = survey_of(parent).hazards(Seq(at as u64), agent, &before, edits);
    let in_words = |it: &Hazard| {
        let given = if it.result_given { ", told otherwise" } else { "" };
        format!("{} {} {}{given}", it.seq, it.call_id, it.ending.as_str())
    };
    hazards.iter().map(in_words).collect()
}

/// Whatever of a write tool parent and fork may both run is told, at every moment.
#[test]
fn the_report_names_what_ran_after_and_what_was_on_its_way() {
    let parent = paid_and_shipped();
    for (at, expected) in [
        (3, &["7 1.1 ok", "10 1.2 ok"][..]),
        (6, &["7 1.1 ok", "10 1.2 ok"]),
        (7, &["7 1.1 ok", "10 1.2 ok"]),
        (9, &["7 1.1 ok", "10 1.2 ok"]),
        (10, &["7 1.1 ok", "10 1.2 ok"]),
        (11, &["10 1.2 ok"]),
        (12, &[]),
    ] {
        assert_eq!(told(&parent, at, &agent(), &[]), expected, "at {at}");
    }
}

/// What the fork is told instead does not undo what the parent did; nor does what its agent calls it.
#[test]
fn the_report_names_what_stays_done_though_the_fork_is_told_otherwise() {
    let parent = paid_and_shipped();
    for at in [6, 7, 10] {
        let expected = ["7 1.1 ok, told otherwise", "10 1.2 ok"];
        assert_eq!(told(&parent, at, &agent(), &[result("x")]), expected, "at {at}");
    }
    let mut tame = agent();
    tame.tools.iter_mut().for_each(|tool| tool.effect = Effect::Read);
    assert_eq!(told(&parent, 10, &tame, &[]), ["7 1.1 ok", "10 1.2 ok"]);
}

/// What did not start there and does not run here did nothing anywhere.
#[test]
fn the_report_names_what_may_start_in_the_fork_alone() {
    let mut running = World::acting(&[("pay", "{}"), ("ship", "{}")]);
    running.decided(ApprovalDecision::Approve);
    running.reserve(id(1, 1));
    let at = running.events.len();
    let expected = ["7 1.2 not_started", "8 1.1 unknown"];
    assert_eq!(told(&running, at, &agent(), &[]), expected);
    let (call_id, outcome) = (id(1, 2), ToolOutcome::Error);
    let edit = Edit::ToolResult { call_id, outcome, output: Text::from("boom") };
    assert_eq!(told(&running, at, &agent(), &[edit]), ["8 1.1 unknown"]);
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
    let events = world.when(fork(&world.state, vec![Edit::ModelReply(other.into())]));
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
        Edit::Arguments { call_id: id(1, 1), arguments: JsonText::empty_object() },
        Edit::ModelReply(reply(1, 1, "", Vec::new()).into()),
        Edit::ToolResult { call_id: id(7, 1), outcome: ToolOutcome::Ok, output: Text::from("x") },
    ] {
        let refusal = world.refused(fork(&world.state, vec![edit]));
        assert!(matches!(refusal, Reject::CannotFork { .. }), "{refusal}");
        assert_eq!(world.state, before);
    }
}
