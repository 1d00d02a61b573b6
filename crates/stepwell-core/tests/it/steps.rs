//! Creation, replies, tool calls and what the model is shown of them.

use stepwell_core::agent::{ApprovalRule, Verdict as Rule};
use stepwell_core::event::{Actor, EventBody, FinishReason, RefusalReason, ToolOutcome};
use stepwell_core::{Command, Input, Reject, Status, Text};

use crate::world::{
    World, agent, create, id, kinds, messages, pause, reply, report, reserved, wants,
};

#[test]
fn a_session_begins_by_asking_the_model() {
    let mut world = World::empty();
    assert_eq!(world.when(create(agent())), ["session_created", "model_requested"]);
    assert_eq!(world.pending(), [Command::AskModel { step: 1, attempt: 1 }]);
    assert_eq!(world.status(), Status::Thinking);
    let messages = messages(&world.state);
    assert_eq!(messages[0]["content"], "You move boxes.");
    assert_eq!(messages[1]["content"], "move box 9");
    assert_eq!(world.refused(create(agent())), Reject::AlreadyExists);
}

#[test]
fn nothing_but_a_creation_begins_a_session() {
    let inputs = [
        Input::Wake,
        pause(),
        crate::world::cancel(),
        crate::world::message("hi"),
        reserved(id(1, 1), 1),
    ];
    for input in inputs {
        assert_eq!(World::empty().refused(input), Reject::NotFound);
    }
}

#[test]
fn an_answer_without_calls_completes_the_session() {
    let mut world = World::new();
    assert_eq!(world.answer("done"), ["model_replied", "session_finished"]);
    assert_eq!(world.status(), Status::Completed);
    assert_eq!(world.state.last_reply, Text::from("done"));
    assert_eq!(world.events[2].actor, Actor::Model("small".into()));
    assert_eq!(world.pending(), []);
    assert_eq!(
        world.refused(Input::ModelReplied(reply(1, 1, "again", Vec::new()))),
        Reject::NotAsked { step: 1, attempt: 1 }
    );
}

/// LLM-07b: a server that says `tool_calls` and sends none.
#[test]
fn a_reply_that_names_calls_and_has_none_is_an_answer() {
    let mut world = World::new();
    let mut reply = reply(1, 1, "done", Vec::new());
    reply.finish_reason = FinishReason::ToolCalls;
    assert_eq!(world.when(Input::ModelReplied(reply)), ["model_replied", "session_finished"]);
}

/// LLM-07a: a server that says `stop` and sends a call.
#[test]
fn a_call_counts_whatever_the_finish_reason_says() {
    let mut world = World::new();
    let mut reply = reply(1, 1, "", vec![wants("find", "{}")]);
    reply.finish_reason = FinishReason::Stop;
    assert_eq!(world.when(Input::ModelReplied(reply)), ["model_replied", "tool_scheduled"]);
}

#[test]
fn a_reading_tool_runs_at_once_and_its_result_leads_to_the_next_request() {
    let mut world = World::new();
    assert_eq!(world.calls(&[("find", r#"{"box":9}"#)]), ["model_replied", "tool_scheduled"]);
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    assert_eq!(world.status(), Status::ExecutingTools);
    assert_eq!(world.done(id(1, 1), "shelf A"), ["tool_finished", "model_requested"]);
    assert_eq!(world.observations(), ["shelf A"]);
    assert_eq!(world.pending(), [Command::AskModel { step: 2, attempt: 1 }]);
}

#[test]
fn a_writing_tool_is_told_to_the_session_before_it_starts() {
    let mut world = World::acting(&[("pay", r#"{"order":771}"#)]);
    assert_eq!(world.pending(), [Command::RunTool { call_id: id(1, 1), attempt: 1 }]);
    assert_eq!(world.reserve(id(1, 1)), ["tool_dispatched"]);
    let follow = Command::FollowTool { call_id: id(1, 1), attempt: 1, worker: "w1".into() };
    assert_eq!(world.pending(), [follow]);
    assert!(world.when(reserved(id(1, 1), 1)).is_empty(), "said again by the same worker");
    let other = Input::WorkerReserved { call_id: id(1, 1), attempt: 1, worker: "w2".into() };
    let refusal = Reject::NotRunning { call_id: id(1, 1), attempt: 1 };
    assert_eq!(world.refused(other), refusal, "it is started once");
    assert_eq!(world.done(id(1, 1), "paid"), ["tool_finished", "model_requested"]);
}

/// du19: the results come as they come, and are shown in the order of the calls.
#[test]
fn results_are_shown_in_the_order_of_the_calls() {
    for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1]] {
        let calls = [("find", r#"{"box":1}"#), ("put", r#"{"box":2}"#), ("find", r#"{"box":3}"#)];
        let mut world = World::acting(&calls);
        assert_eq!(world.pending().len(), 3, "they run side by side");
        for index in order {
            world.done(id(1, index), &format!("result {index}"));
        }
        assert_eq!(world.observations(), ["result 1", "result 2", "result 3"]);
        assert_eq!(world.status(), Status::Thinking);
    }
}

#[test]
fn a_report_of_a_worker_that_does_not_have_the_call_is_refused() {
    let mut world = World::acting(&[("pay", "{}")]);
    world.reserve(id(1, 1));
    let Input::ToolFinished { report, .. } = report(id(1, 1), 1, ToolOutcome::Ok, "paid") else {
        panic!()
    };
    let lie = Input::ToolFinished { report, worker: "w2".into() };
    let (call_id, worker) = (id(1, 1), "w1".to_string());
    assert_eq!(world.refused(lie), Reject::OtherWorker { call_id, attempt: 1, worker });
    assert_eq!(world.done(id(1, 1), "paid"), ["tool_finished", "model_requested"]);
}

/// Nobody knows what the filter took out, so nothing of such a reply runs.
#[test]
fn no_call_of_a_filtered_reply_runs() {
    let mut world = World::new();
    let mut reply = reply(1, 1, "", vec![wants("find", "{}"), wants("pay", "{}")]);
    reply.finish_reason = FinishReason::ContentFilter;
    let events = world.when(Input::ModelReplied(reply));
    assert_eq!(events, ["model_replied", "tool_refused", "tool_refused", "model_requested"]);
    assert!(world.observations().iter().all(|it| it.contains("content filter")));
}

#[test]
fn a_failed_tool_is_shown_as_an_error() {
    let mut world = World::acting(&[("find", "{}")]);
    let events = world.when(report(id(1, 1), 1, ToolOutcome::Error, "no such shelf"));
    assert_eq!(events, ["tool_finished", "model_requested"]);
    assert_eq!(world.observations(), ["Error: no such shelf"]);
}

#[test]
fn an_unknown_tool_is_an_observation() {
    let mut world = World::new();
    let events = world.calls(&[("fly", "{}"), ("find", "{}")]);
    assert_eq!(events, ["model_replied", "tool_refused", "tool_scheduled"]);
    world.done(id(1, 2), "shelf A");
    let [refusal, result] = &world.observations()[..] else { panic!("two are shown") };
    assert!(refusal.starts_with("Not run: there is no tool `fly`; use one of: find, put"));
    assert_eq!(result, "shelf A");
}

#[test]
fn an_agent_without_tools_tells_the_model_so() {
    let mut agent = agent();
    agent.tools.clear();
    let mut world = World::of(agent);
    let events = world.calls(&[("find", "{}")]);
    assert_eq!(events, ["model_replied", "tool_refused", "model_requested"]);
    assert!(world.observations()[0].contains("this agent has no tools"));
    assert!(!world.state.prompt.body().contains("\"tools\""));
}

#[test]
fn bad_arguments_are_an_observation_and_are_sent_back_readable() {
    let mut world = World::new();
    let mut call = wants("find", "{\"box\":");
    call.problem = Some("the JSON ends too early; you wrote {\"box\":".into());
    let events = world.when(Input::ModelReplied(reply(1, 1, "", vec![call])));
    assert_eq!(events, ["model_replied", "tool_refused", "model_requested"]);
    let EventBody::ToolRefused(refused) = &world.events[3].body else { panic!() };
    assert_eq!(refused.reason, RefusalReason::BadArguments);
    assert!(world.observations()[0].starts_with("Not run: the JSON ends too early"));
    let calls = &world.messages()[2]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], "{}");
}

/// LLM-08a: the output limit cuts the last call; what is left of it never runs.
#[test]
fn a_call_that_was_cut_off_is_not_run() {
    let mut world = World::new();
    let calls = vec![wants("find", r#"{"box":1}"#), wants("pay", r#"{"order":7}"#)];
    let mut reply = reply(1, 1, "", calls);
    reply.finish_reason = FinishReason::Length;
    let events = world.when(Input::ModelReplied(reply));
    assert_eq!(events, ["model_replied", "tool_scheduled", "tool_refused"]);
    let EventBody::ToolRefused(refused) = world.last() else { panic!() };
    assert_eq!((refused.call_id, refused.reason), (id(1, 2), RefusalReason::CutOff));
    world.done(id(1, 1), "shelf A");
    assert!(world.observations()[1].contains("max_tokens"));
}

#[test]
fn a_forbidden_call_is_refused_with_its_rule() {
    let mut world = World::new();
    let calls = [("erase", "{}"), ("shell", r#"{"command":"ls; rm -rf x"}"#)];
    let events = world.calls(&calls);
    assert_eq!(events, ["model_replied", "tool_refused", "tool_refused", "model_requested"]);
    let observations = world.observations();
    assert_eq!(observations[0], "Not run: forbidden by rule 2: deny `erase`");
    assert_eq!(observations[1], "Not run: forbidden by rule 4: deny `shell` for `rm`");
}

#[test]
fn the_first_rule_that_fits_decides() {
    let allow = ApprovalRule {
        tool: "*".into(),
        arguments: Vec::new(),
        commands: Vec::new(),
        verdict: Rule::Allow,
    };
    let mut agent = agent();
    agent.approval_rules.push(allow);
    let mut world = World::of(agent);
    let calls = [("ship", "{}"), ("erase", "{}"), ("ship", r#"{"note":"forbidden: all"}"#)];
    let events = world.calls(&calls);
    assert_eq!(events, ["model_replied", "tool_scheduled", "tool_refused", "tool_refused"]);
}

/// LLM-03a: ids that a server did not send, or sent twice, are made once and stored.
#[test]
fn every_call_has_an_id_of_its_own() {
    let mut world = World::new();
    let ids = ["", "a", "a", "call_1_5", "", "call_1_6", "", "call_1_6_"];
    let calls = ids.map(|wire_id| {
        let mut call = wants("fly", "{}");
        call.wire_id = wire_id.into();
        call
    });
    world.when(Input::ModelReplied(reply(1, 1, "", calls.into())));
    let EventBody::ModelReplied(stored) = &world.events[2].body else { panic!() };
    let stored: Vec<&str> = stored.tool_calls.iter().map(|it| it.wire_id.as_str()).collect();
    assert_eq!(stored[1], "a", "an id that can be used is kept");
    assert_eq!(stored[3], "call_1_5");
    let unique: std::collections::BTreeSet<_> = stored.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{stored:?}");
}

/// LLM-20a: a server that counts its ids anew in each reply.
#[test]
fn the_same_id_in_a_later_step_is_another_call() {
    let mut world = World::new();
    for step in 1..=2 {
        let mut call = wants("find", &format!("{{\"box\":{step}}}"));
        call.wire_id = "call_0".into();
        world.when(Input::ModelReplied(reply(step, 1, "", vec![call])));
        world.done(id(step, 1), &format!("result {step}"));
    }
    let messages = world.messages();
    assert_eq!(messages[3]["content"], "result 1");
    assert_eq!(messages[5]["content"], "result 2");
}

#[test]
fn a_reply_to_another_step_or_attempt_is_refused() {
    let mut world = World::new();
    for (step, attempt) in [(1, 2), (2, 1), (0, 1), (1, 0)] {
        let late = Input::ModelReplied(reply(step, attempt, "x", Vec::new()));
        assert_eq!(world.refused(late), Reject::NotAsked { step, attempt });
    }
    world.calls(&[("find", "{}")]);
    let twice = Input::ModelReplied(reply(1, 1, "x", Vec::new()));
    assert_eq!(world.refused(twice), Reject::NotAsked { step: 1, attempt: 1 });
}

#[test]
fn a_report_on_another_call_or_attempt_is_refused() {
    let mut world = World::acting(&[("find", "{}"), ("find", r#"{"a":1}"#)]);
    for (call_id, attempt) in [(id(1, 3), 1), (id(2, 1), 1), (id(1, 1), 2), (id(1, 1), 0)] {
        let refusal = world.refused(report(call_id, attempt, ToolOutcome::Ok, "x"));
        assert_eq!(refusal, Reject::NotRunning { call_id, attempt });
    }
    world.done(id(1, 1), "x");
    let refusal = world.refused(report(id(1, 1), 1, ToolOutcome::Ok, "x"));
    assert_eq!(refusal, Reject::NotRunning { call_id: id(1, 1), attempt: 1 }, "said twice");
}

/// What must not run twice is told to the session before it starts, so a report without that is a lie.
#[test]
fn a_report_on_a_write_that_was_not_dispatched_is_refused() {
    let mut world = World::acting(&[("pay", "{}")]);
    let refusal = Reject::NotRunning { call_id: id(1, 1), attempt: 1 };
    assert_eq!(world.refused(report(id(1, 1), 1, ToolOutcome::Ok, "paid")), refusal);
}

#[test]
fn a_long_result_is_shown_short_and_kept_whole() {
    let mut agent = agent();
    agent.limits.observation_bytes_max = 100;
    let mut world = World::of(agent);
    world.calls(&[("find", "{}")]);
    let output = "ä".repeat(1_000);
    world.done(id(1, 1), &output);
    let shown = &world.observations()[0];
    assert!(shown.len() < 200 && shown.contains("bytes left out"), "{shown}");
    let kept = world.events.iter().find_map(|event| match &event.body {
        EventBody::ToolFinished(it) => it.output.whole(),
        _ => None,
    });
    assert_eq!(kept, Some(output.as_str()));
}

/// du21, ARG-16: NUL and large integers pass through unchanged.
#[test]
fn odd_text_and_large_numbers_are_kept() {
    let arguments = r#"{"box": 2512292042121000001,  "note":"\ud83d\ude00"}"#;
    let mut world = World::acting(&[("find", arguments)]);
    assert_eq!(world.state.calls[&id(1, 1)].effective_arguments(), arguments);
    world.done(id(1, 1), "W\u{0}s\u{0}l\u{0} and more");
    assert_eq!(world.observations(), ["W\u{0}s\u{0}l\u{0} and more"]);
    let calls = &world.messages()[2]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], arguments, "byte for byte as the model wrote");
}

#[test]
fn the_kinds_of_a_whole_session() {
    let mut world = World::acting(&[("find", "{}"), ("pay", "{}")]);
    world.done(id(1, 1), "a");
    world.reserve(id(1, 2));
    world.done(id(1, 2), "b");
    world.answer("done");
    assert_eq!(
        kinds(&world.events),
        [
            "session_created",
            "model_requested",
            "model_replied",
            "tool_scheduled",
            "tool_scheduled",
            "tool_finished",
            "tool_dispatched",
            "tool_finished",
            "model_requested",
            "model_replied",
            "session_finished",
        ]
    );
}
