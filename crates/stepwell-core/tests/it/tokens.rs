//! The last request and its reply as tokens, and a history of the texts that the model generated.

use std::sync::Arc;

use stepwell_core::agent::{Agent, FallbackModel, History};
use stepwell_core::codec::detach;
use stepwell_core::event::{EventBody, FinishReason, ModelErrorKind, ModelReplied, ReplyTokens};
use stepwell_core::prompt::Prompt;
use stepwell_core::{Input, SessionState, Text, fold};

use crate::world::{World, agent, fork, id, reply, wants};

const GENERATED: &str = "<tool_call>\n{\"name\":\"find\",\"arguments\":{\"box\":9}}\n</tool_call>";

fn with_history(history: History) -> Agent {
    let mut agent = agent();
    agent.model.history = history;
    agent
}

fn replied(tokens: Option<ReplyTokens>) -> ModelReplied {
    ModelReplied {
        tokens: tokens.map(Box::new),
        ..reply(1, 1, "", vec![wants("find", r#"{"box":9}"#)])
    }
}

/// A session that was shown the result of its first call; its first request had the tokens 1 2 3.
fn after_one_call(history: History, text: Option<&str>) -> World {
    let mut world = World::of(with_history(history));
    let tokens = world.state.tokens.reply(&[1, 2, 3], &[4, 5]);
    let tokens = ReplyTokens { text: text.map(Text::from), ..tokens };
    world.when(Input::ModelReplied(replied(Some(tokens))));
    world.done(id(1, 1), "shelf A");
    world
}

#[test]
fn token_ids_are_asked_for_where_the_agent_wants_them() {
    let asks =
        |agent: &Agent| Prompt::new(agent, "t").body().contains(r#""return_token_ids":true"#);
    assert!(!asks(&agent()));
    assert!(asks(&with_history(History::Text)) && asks(&with_history(History::Tokens)));
    let mut checked = agent();
    checked.model.token_ids = true;
    assert!(asks(&checked));
}

#[test]
fn the_tokens_of_a_reply_are_known_until_the_next_one() {
    let mut world = after_one_call(History::Calls, None);
    let known = &world.state.tokens;
    assert_eq!((known.ids(), known.messages(), known.is_cut()), (&[1, 2, 3, 4, 5][..], 3, false));
    let tokens = known.reply(&[1, 2, 3, 4, 6, 7], &[8]);
    assert_eq!(tokens.kept, 4);
    let cut = ModelReplied {
        tokens: Some(Box::new(tokens)),
        finish_reason: FinishReason::Length,
        ..reply(2, 1, "", vec![wants("find", "{}")])
    };
    world.when(Input::ModelReplied(cut));
    assert_eq!(
        (world.state.tokens.ids(), world.state.tokens.is_cut()),
        (&[1, 2, 3, 4, 6, 7, 8][..], true)
    );
}

#[test]
fn a_reply_without_tokens_leaves_nothing_known() {
    let mut world = after_one_call(History::Calls, None);
    world.when(Input::ModelReplied(reply(2, 1, "", vec![wants("put", "{}")])));
    assert_eq!(world.state.tokens.ids(), [0_u32; 0]);
}

#[test]
fn a_fork_with_another_definition_knows_nothing_of_the_parents_tokens() {
    let world = after_one_call(History::Calls, None);
    let events = |agent: Option<Arc<Agent>>| {
        let Input::Fork { mut fork, by } = fork(&world.state, Vec::new()) else { unreachable!() };
        fork.agent = agent;
        let mut forked = world.clone();
        forked.when(Input::Fork { fork, by });
        forked.state.tokens
    };
    assert_eq!(events(None), world.state.tokens);
    assert_eq!(events(Some(Arc::new(agent()))).ids(), [0_u32; 0]);
}

#[test]
fn a_history_of_texts_has_what_the_model_generated() {
    let world = after_one_call(History::Text, Some(GENERATED));
    let messages = world.messages();
    assert_eq!(messages[2], serde_json::json!({"role": "assistant", "content": GENERATED}));
    assert_eq!(messages[3]["role"], "tool");
    // Where the server did not tell the text, the calls stand for it.
    let without = after_one_call(History::Text, None).messages();
    assert_eq!(without[2]["tool_calls"][0]["function"]["arguments"], r#"{"box":9}"#);
}

/// What is long lies beside its event, and the same comes out.
#[test]
fn long_tokens_and_texts_are_payloads() {
    let mut body = EventBody::from(replied(Some(ReplyTokens {
        text: Some(Text::from("x".repeat(20_000))),
        ..World::new().state.tokens.reply(&vec![7; 20_000], &vec![8; 20_000])
    })));
    let mut kept = 0;
    detach(&mut body, &mut |_, _| kept += 1);
    assert_eq!(kept, 3);
}

#[test]
fn a_request_ends_with_a_message_of_choice() {
    let prompt = after_one_call(History::Tokens, None).state.prompt;
    let beginning = prompt.beginning(3, ",\"add_generation_prompt\":false");
    let whole: serde_json::Value = serde_json::from_str(&prompt.body()).unwrap();
    let read: serde_json::Value = serde_json::from_str(&beginning).unwrap();
    assert_eq!(
        read["messages"].as_array().unwrap()[..],
        whole["messages"].as_array().unwrap()[..3]
    );
    assert_eq!((&read["add_generation_prompt"], &read["tools"]), (&false.into(), &whole["tools"]));
}

#[test]
fn a_fallback_is_asked_in_the_way_that_all_servers_understand() {
    let mut agent = with_history(History::Tokens);
    agent.model.fallbacks = vec![FallbackModel {
        after_attempts: 1,
        name: "other".into(),
        base_url: "http://h/v1".into(),
        replicas: Vec::new(),
        api_key_env: None,
    }];
    let mut world = World::of(agent);
    assert_eq!(world.state.model(1).unwrap().history, History::Tokens);
    assert_eq!(world.state.model(2).unwrap().history, History::Calls);
    world.fail(ModelErrorKind::Overloaded);
    world.wake();
    let tokens = world.state.tokens.of_model("other").reply(&[1], &[2]);
    let attempt = world.attempt();
    world.when(Input::ModelReplied(ModelReplied { attempt, ..replied(Some(tokens)) }));
    assert_eq!(world.state.tokens.of_model("other").ids(), [1, 2]);
    assert_eq!(world.state.tokens.of_model("small").ids(), [0_u32; 0], "they are another model's");
}

#[test]
fn an_outline_has_no_tokens_and_goes_on_without() {
    let mut world = after_one_call(History::Calls, None);
    let at = world.events.len();
    let tokens = world.state.tokens.reply(&[1, 2, 3, 4, 5, 6], &[7]);
    let outline = world.state.outline();
    world.when(Input::ModelReplied(ModelReplied {
        tokens: Some(Box::new(tokens)),
        ..reply(2, 1, "", vec![wants("put", "{}")])
    }));
    let later: SessionState = fold(outline, &world.events[at..]).unwrap();
    assert_eq!(later.tokens.ids(), [0_u32; 0]);
}
