//! How the model's output is bound: what is sent, what follows when it is not held to.

use stepwell_core::agent::{Agent, Limits};
use stepwell_core::event::{EventBody, FinishReason, LimitKind, ModelReplied, Outcome};
use stepwell_core::output::{AnswerForm, OutputPolicy, RelaxedSchema, ToolChoice, WhenIgnored};
use stepwell_core::{Input, JsonText, Status};

use crate::world::{World, agent, id, message, reply};

const SCHEMA: &str = r#"{"type":"object","uniqueItems":true}"#;

fn form() -> AnswerForm {
    AnswerForm::Schema { schema: JsonText::parse(SCHEMA).unwrap(), relaxed: None }
}

fn bound(output: OutputPolicy, has_tools: bool) -> World {
    let mut agent = agent();
    agent.output = output;
    if !has_tools {
        agent.tools.clear();
        agent.approval_rules.clear();
    }
    World::of(agent)
}

fn answered(form: AnswerForm) -> OutputPolicy {
    OutputPolicy { answer: Some(form), ..OutputPolicy::default() }
}

/// What the last request asks for besides its messages.
fn asked(world: &World) -> serde_json::Value {
    let mut body: serde_json::Value = serde_json::from_str(&world.state.prompt.body()).unwrap();
    let body = body.as_object_mut().unwrap();
    for member in ["model", "stream", "stream_options", "temperature", "messages", "tools"] {
        body.remove(member);
    }
    serde_json::Value::Object(body.clone())
}

fn answer_of(world: &World, problem: Option<&str>) -> ModelReplied {
    let mut reply = reply(world.state.step, world.attempt(), "text", Vec::new());
    reply.answer_problem = problem.map(Into::into);
    reply
}

fn last_message(world: &World) -> String {
    world.messages().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[track_caller]
fn check_members(agent: &Agent, expected: &str) {
    let world = World::of(agent.clone());
    assert_eq!(asked(&world), serde_json::from_str::<serde_json::Value>(expected).unwrap());
}

#[test]
fn an_agent_without_tools_asks_for_the_form_from_the_first_request() {
    let mut bare = agent();
    bare.tools.clear();
    bare.approval_rules.clear();
    check_members(&bare, "{}");
    let relaxed = RelaxedSchema {
        schema: JsonText::parse(r#"{"type":"object"}"#).unwrap(),
        dropped: vec!["/uniqueItems".into()],
    };
    let schema = JsonText::parse(SCHEMA).unwrap();
    for (form, expected) in [
        (
            form(),
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","uniqueItems":true}}}}"#,
        ),
        (
            AnswerForm::Schema { schema, relaxed: Some(relaxed) },
            r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}}"#,
        ),
        (AnswerForm::Regex("a\"b".into()), r#"{"structured_outputs":{"regex":"a\"b"}}"#),
        (
            AnswerForm::Choice(vec!["yes".into(), "no".into()]),
            r#"{"structured_outputs":{"choice":["yes","no"]}}"#,
        ),
        (
            AnswerForm::Grammar("start: x".into()),
            r#"{"structured_outputs":{"grammar":"start: x"}}"#,
        ),
    ] {
        bare.output = answered(form);
        check_members(&bare, expected);
    }
}

#[test]
fn an_answer_that_does_not_fit_is_told_so_and_asked_for_in_its_form() {
    let mut world = bound(answered(form()), true);
    assert_eq!(asked(&world), serde_json::json!({}), "beside tools it would bind the calls");
    world.calls(&[("find", r#"{"a":1}"#)]);
    world.done(id(1, 1), "x");
    let wrong = answer_of(&world, Some("it is no JSON"));
    assert_eq!(world.when(Input::ModelReplied(wrong)), ["model_replied", "model_requested"]);
    assert_eq!(last_message(&world), "it is no JSON");
    assert_eq!(asked(&world)["tool_choice"], "none");
    assert!(asked(&world)["response_format"].is_object());
    let right = answer_of(&world, None);
    assert_eq!(world.when(Input::ModelReplied(right)), ["model_replied", "session_finished"]);
    assert_eq!(world.status(), Status::Completed);
}

#[test]
fn answers_that_never_fit_come_to_an_end() {
    let mut agent = agent();
    agent.output = answered(form());
    agent.limits = Limits { unusable_replies_max: 3, ..Limits::default() };
    let mut world = World::of(agent);
    for _ in 0..3 {
        let wrong = answer_of(&world, Some("it is no JSON"));
        world.when(Input::ModelReplied(wrong));
    }
    let EventBody::SessionFinished(end) = world.last() else { panic!("{:?}", world.last()) };
    assert_eq!(end.limit, Some(LimitKind::UnusableReplies));
    assert!(end.reason.ends_with("3; the last: it is no JSON"), "{}", end.reason);
}

#[test]
fn a_server_that_does_not_hold_to_the_form_is_noticed_at_its_first_answer() {
    for (when_ignored, events) in [
        (WhenIgnored::GoOn, ["model_replied", "model_requested"]),
        (WhenIgnored::Fail, ["model_replied", "session_finished"]),
    ] {
        let mut world = bound(OutputPolicy { when_ignored, ..answered(form()) }, false);
        let wrong = answer_of(&world, Some("it is no JSON"));
        assert_eq!(world.when(Input::ModelReplied(wrong)), events);
        if let EventBody::SessionFinished(end) = world.last() {
            assert_eq!(end.outcome, Outcome::Failed);
            assert!(end.reason.contains("does not hold to the form"), "{}", end.reason);
        }
    }
    // Nothing was asked of the server yet.
    let fail = OutputPolicy { when_ignored: WhenIgnored::Fail, ..answered(form()) };
    let mut world = bound(fail, true);
    let wrong = answer_of(&world, Some("it is no JSON"));
    assert_eq!(world.when(Input::ModelReplied(wrong)), ["model_replied", "model_requested"]);
}

#[test]
fn an_answer_that_was_cut_is_not_asked_for_again() {
    let mut world = bound(answered(form()), false);
    let cut = ModelReplied { finish_reason: FinishReason::Length, ..answer_of(&world, None) };
    assert_eq!(world.when(Input::ModelReplied(cut)), ["model_replied", "session_finished"]);
    assert_eq!(world.status(), Status::LimitReached);
}

#[test]
fn a_required_call_is_asked_for_until_the_model_called_something() {
    for (choice, expected) in [
        (ToolChoice::Required, serde_json::json!("required")),
        (
            ToolChoice::Tool("find".into()),
            serde_json::json!({"type": "function", "function": {"name": "find"}}),
        ),
    ] {
        let mut world =
            bound(OutputPolicy { tool_choice: choice, ..OutputPolicy::default() }, true);
        assert_eq!(asked(&world)["tool_choice"], expected);
        let none = answer_of(&world, None);
        assert_eq!(world.when(Input::ModelReplied(none)), ["model_replied", "model_requested"]);
        assert!(last_message(&world).starts_with("No tool was called"));
        assert_eq!(asked(&world)["tool_choice"], expected);
        world.calls(&[("find", "{}")]);
        world.when(message("and now?"));
        world.done(id(2, 1), "x");
        assert_eq!(asked(&world)["tool_choice"], expected, "a person said more");
        world.calls(&[("find", r#"{"a":1}"#)]);
        world.done(id(3, 1), "x");
        assert_eq!(asked(&world), serde_json::json!({}));
        assert_eq!(world.answer("done"), ["model_replied", "session_finished"]);
    }
}

#[test]
fn no_call_may_be_asked_for() {
    let output = OutputPolicy { tool_choice: ToolChoice::None, ..answered(form()) };
    let world = bound(output.clone(), true);
    assert_eq!(asked(&world)["tool_choice"], "none");
    assert!(asked(&world)["response_format"].is_object(), "nothing but an answer can come");
    let mut world = bound(OutputPolicy { when_ignored: WhenIgnored::Fail, ..output }, true);
    world.calls(&[("find", "{}")]);
    let EventBody::SessionFinished(end) = world.last() else { panic!("{:?}", world.last()) };
    assert!(end.reason.contains("tool_choice is none"), "{}", end.reason);
}

/// A server that makes calls nobody asked for: they do not run, the model is told, and the same is
/// asked for again.
#[test]
fn a_call_that_was_not_asked_for_does_not_run() {
    for (choice, told) in [
        (ToolChoice::None, "no tool may be called here"),
        (ToolChoice::Tool("put".into()), "`put` must be called first"),
    ] {
        let policy = OutputPolicy { tool_choice: choice, ..OutputPolicy::default() };
        let mut world = bound(policy.clone(), true);
        let before = asked(&world)["tool_choice"].clone();
        let kinds = world.calls(&[("find", r#"{"a":1}"#), ("find", r#"{"a":2}"#)]);
        let refused = ["model_replied", "tool_refused", "tool_refused", "model_requested"];
        assert_eq!(kinds, refused);
        assert!(last_message(&world).contains(told), "{}", last_message(&world));
        assert_eq!(asked(&world)["tool_choice"], before);

        let mut strict = bound(OutputPolicy { when_ignored: WhenIgnored::Fail, ..policy }, true);
        assert_eq!(strict.calls(&[("find", "{}")]), ["model_replied", "session_finished"]);
        let EventBody::SessionFinished(end) = strict.last() else { panic!("{:?}", strict.last()) };
        assert!(end.reason.contains("called `find` although tool_choice is"), "{}", end.reason);
    }
}

/// Of the calls of one reply, those that were asked for run.
#[test]
fn what_was_asked_for_runs_beside_what_was_not() {
    let policy =
        OutputPolicy { tool_choice: ToolChoice::Tool("find".into()), ..OutputPolicy::default() };
    let mut world = bound(policy, true);
    let kinds = world.calls(&[("put", r#"{"box":1}"#), ("find", r#"{"a":1}"#)]);
    assert_eq!(kinds, ["model_replied", "tool_refused", "tool_scheduled"]);
    world.done(id(1, 2), "x");
    assert_eq!(asked(&world), serde_json::json!({}), "what must be called was called");
    assert_eq!(world.calls(&[("put", r#"{"box":1}"#)])[1], "tool_scheduled");
}

#[test]
fn a_reply_of_nothing_is_no_answer() {
    let mut agent = agent();
    agent.limits = Limits { unusable_replies_max: 3, ..Limits::default() };
    let mut world = World::of(agent);
    assert_eq!(world.answer(""), ["model_replied", "model_requested"]);
    assert!(last_message(&world).starts_with("The reply was empty"));
    assert_eq!(world.answer(" \n"), ["model_replied", "model_requested"]);
    assert_eq!(world.answer(""), ["model_replied", "session_finished"]);
    let EventBody::SessionFinished(end) = world.last() else { panic!("{:?}", world.last()) };
    assert_eq!(end.limit, Some(LimitKind::UnusableReplies));
    // A form may be the empty text.
    let mut world = bound(answered(AnswerForm::Regex("a*".into())), false);
    assert_eq!(world.answer(""), ["model_replied", "session_finished"]);
    assert_eq!(world.status(), Status::Completed);
}

#[test]
fn strict_tools_are_sent_with_the_schema_that_engines_accept() {
    let mut agent = agent();
    agent.tools.truncate(2);
    agent.output.strict_tools = true;
    let schema = JsonText::parse(r#"{"type":"object","properties":{}}"#).unwrap();
    let relaxed = RelaxedSchema { schema, dropped: vec!["/x".into()] };
    agent.output.relaxed.insert("put".into(), relaxed);
    let body: serde_json::Value =
        serde_json::from_str(&World::of(agent).state.prompt.body()).unwrap();
    for (at, parameters) in [
        (0, serde_json::json!({"type": "object"})),
        (1, serde_json::json!({"type": "object", "properties": {}})),
    ] {
        let function = &body["tools"][at]["function"];
        assert_eq!((&function["strict"], &function["parameters"]), (&true.into(), &parameters));
    }
}
