//! Messages in each phase, answers to the model's questions, interactive agents.

use stepwell_core::event::ModelErrorKind;
use stepwell_core::{Actor, Input, Reject, Status, Text};

use crate::world::{World, agent, bob, id, message};

fn answer_to(step: u32, index: u32, text: &str) -> Input {
    Input::Message {
        content: Text::from(text),
        answers: Some(id(step, index)),
        client_key: None,
        by: bob(),
    }
}

fn keyed(text: &str, key: &str) -> Input {
    Input::Message {
        content: Text::from(text),
        answers: None,
        client_key: Some(key.into()),
        by: Actor::Person("ada".into()),
    }
}

#[test]
fn a_message_while_the_model_thinks_comes_after_its_reply() {
    let mut world = World::new();
    assert_eq!(world.when(message("and box 10")), ["message_received"]);
    world.calls(&[("find", "{}")]);
    world.done(id(1, 1), "shelf A");
    let messages = world.messages();
    let roles: Vec<&str> = messages.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(messages[4]["content"], "and box 10");
}

#[test]
fn a_message_before_the_answer_keeps_the_session_going() {
    let mut world = World::new();
    world.when(message("and box 10"));
    assert_eq!(world.answer("done"), ["model_replied", "model_requested"]);
    world.answer("both done");
    assert_eq!(world.status(), Status::Completed);
}

#[test]
fn messages_while_tools_run_are_shown_after_all_results_in_their_order() {
    let mut world = World::acting(&[("find", "{}"), ("find", r#"{"a":1}"#)]);
    world.when(message("one"));
    world.done(id(1, 2), "b");
    world.when(message("two"));
    world.done(id(1, 1), "a");
    let texts: Vec<String> =
        world.messages()[3..].iter().map(|it| it["content"].as_str().unwrap().into()).collect();
    assert_eq!(texts, ["a", "b", "one", "two"]);
}

#[test]
fn a_message_that_came_before_a_failure_is_in_the_next_attempt() {
    let mut world = World::new();
    world.when(message("and box 10"));
    world.fail(ModelErrorKind::Timeout);
    world.wake();
    assert_eq!(world.messages()[2]["content"], "and box 10");
}

#[test]
fn the_same_key_is_taken_once() {
    let mut world = World::acting(&[("find", "{}")]);
    assert_eq!(world.when(keyed("one", "k1")), ["message_received"]);
    assert!(world.when(keyed("one", "k1")).is_empty());
    assert_eq!(world.when(keyed("two", "k2")), ["message_received"]);
    world.done(id(1, 1), "x");
    world.answer("done");
    assert!(world.when(keyed("one", "k1")).is_empty(), "after the end, too: it was taken");
    assert_eq!(world.refused(keyed("three", "k3")), Reject::Finished { status: Status::Completed });
}

#[test]
fn a_question_of_the_model_waits_for_a_message() {
    let mut world = World::new();
    let events = world.calls(&[("ask_user", r#"{"question":"which box?"}"#)]);
    assert_eq!(events, ["model_replied", "tool_scheduled"]);
    assert_eq!(world.status(), Status::WaitingInput);
    assert_eq!(world.pending(), [], "it costs nothing to wait for days");
    assert_eq!(world.when(message("box 9")), ["message_received", "model_requested"]);
    assert_eq!(world.observations(), ["box 9"]);
    assert_eq!(world.messages().len(), 4, "the answer is no message of its own");
}

#[test]
fn an_answer_can_name_its_question() {
    let questions = [("ask_user", r#"{"question":"a?"}"#), ("ask_user", r#"{"question":"b?"}"#)];
    let mut world = World::acting(&questions);
    assert_eq!(world.when(answer_to(1, 2, "b!")), ["message_received"]);
    assert_eq!(
        world.refused(answer_to(1, 2, "b!")),
        Reject::NoQuestion { call_id: id(1, 2) },
        "answered"
    );
    assert_eq!(world.when(message("a!")), ["message_received", "model_requested"]);
    assert_eq!(world.observations(), ["a!", "b!"]);
}

#[test]
fn an_answer_to_what_asks_nothing_is_refused() {
    let mut world = World::acting(&[("find", "{}")]);
    for (step, index) in [(1, 1), (1, 2), (9, 9)] {
        let refusal = world.refused(answer_to(step, index, "x"));
        assert_eq!(refusal, Reject::NoQuestion { call_id: id(step, index) });
    }
}

#[test]
fn a_refused_answer_does_not_use_up_its_key() {
    let mut world = World::acting(&[("find", "{}")]);
    let answer = Input::Message {
        content: Text::from("x"),
        answers: Some(id(1, 1)),
        client_key: Some("k".into()),
        by: bob(),
    };
    world.refused(answer);
    assert_eq!(world.when(keyed("x", "k")), ["message_received"]);
}

#[test]
fn an_interactive_agent_waits_for_the_next_message() {
    let mut agent = agent();
    agent.interactive = true;
    let mut world = World::of(agent);
    assert_eq!(world.answer("hello"), ["model_replied"]);
    assert_eq!(world.status(), Status::WaitingInput);
    assert_eq!(world.pending(), []);
    assert_eq!(world.when(message("and box 10")), ["message_received", "model_requested"]);
    assert_eq!(world.state.step, 2);
}
