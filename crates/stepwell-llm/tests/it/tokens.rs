//! Token ids: what is recorded of them, texts for the history, and exact continuation.

use stepwell_core::agent::{Agent, History};
use stepwell_core::event::{FinishReason, ModelErrorKind, ModelReplied, Usage};
use stepwell_core::prompt::Prompt;
use stepwell_core::{Input, SessionState, Text, TimestampMs, decide};
use stepwell_llm::OpenAiClient;
use stepwell_ports::{ModelAnswer, ModelFailure, ModelRequest};

use crate::peer::{PATIENT, Peer, Request, ask, request, response};
use crate::transcripts::body_of;

/// The ids of a recorded stream: "Sure, I'm", cut there.
const PROMPT: usize = 32;
const REPLY: [u32; 4] = [39814, 11, 358, 2776];

fn recorded() -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vllm");
    let bytes = std::fs::read(format!("{folder}/20-stream-return-token-ids.response.txt")).unwrap();
    let body = String::from_utf8(body_of(&bytes).to_vec()).unwrap();
    response("200 OK", "content-type: text/event-stream\r\n", &body)
}

fn json(text: &str) -> Vec<u8> {
    response("200 OK", "content-type: application/json\r\n", text)
}

/// Answers one request after the other, each on its own connection.
async fn serve(peer: &Peer, answers: &[Vec<u8>]) -> Vec<Request> {
    let mut got = Vec::new();
    for answer in answers {
        got.push(peer.answer_once(answer).await);
    }
    got
}

async fn ask_for(
    peer: &Peer,
    request: ModelRequest,
    answers: &[Vec<u8>],
) -> (Vec<Request>, Result<ModelAnswer, ModelFailure>) {
    let client = OpenAiClient::new();
    tokio::join!(serve(peer, answers), ask(&client, request))
}

/// A request with that history, after a step whose prompt and reply had these tokens.
fn second(peer: &Peer, history: History, known: (&[u32], &[u32])) -> ModelRequest {
    let first = request(peer.base_url(), PATIENT);
    let mut model = first.model.clone();
    (model.history, model.token_ids) = (history, true);
    let agent = Agent::new("a", "You are.", model.clone());
    let state = after_reply(&agent, known);
    ModelRequest { model, tokens: state.tokens.clone(), prompt: state.prompt, ..first }
}

/// A session that said "one" to its task and was told "two".
fn after_reply(agent: &Agent, (prompt, generated): (&[u32], &[u32])) -> SessionState {
    let agent = Agent { interactive: true, ..agent.clone() };
    let now = TimestampMs(1);
    let session = stepwell_core::event::SessionCreated {
        agent: agent.into(),
        task: Text::from("Say ok."),
        title: String::new(),
        labels: Vec::new(),
        workspace: String::new(),
        seed: "seed".into(),
        paused: false,
    };
    let by = stepwell_core::Actor::Person("ada".into());
    let create = Input::Create { session, by: by.clone() };
    let state = decide(&SessionState::default(), create, now).unwrap().state;
    let reply = ModelReplied {
        step: 1,
        attempt: 1,
        content: Text::from("one"),
        reasoning: Text::default(),
        tool_calls: Vec::new(),
        answer_problem: None,
        finish_reason: FinishReason::Stop,
        finish_word: None,
        usage: Usage::default(),
        endpoint: String::new(),
        first_token_ms: 1,
        duration_ms: 1,
        tokens: Some(Box::new(state.tokens.reply(prompt, generated))),
    };
    let mut state = decide(&state, Input::ModelReplied(reply), now).unwrap().state;
    state.prompt.push_user("two");
    state
}

#[tokio::test]
async fn ids_are_recorded_where_the_agent_asks_for_them() {
    let peer = Peer::listen().await;
    let (_, answer) = ask_for(&peer, request(peer.base_url(), PATIENT), &[recorded()]).await;
    assert_eq!(answer.unwrap().tokens, None);
    let mut asked = request(peer.base_url(), PATIENT);
    asked.model.token_ids = true;
    let (_, answer) = ask_for(&peer, asked, &[recorded()]).await;
    let tokens = answer.unwrap().tokens.unwrap();
    assert_eq!(tokens.prompt.preview().split(' ').count(), PROMPT);
    assert_eq!(tokens.generated.preview(), REPLY.map(|it| it.to_string()).join(" "));
    assert_eq!((tokens.kept, tokens.broke, tokens.text), (0, None, None));
}

#[tokio::test]
async fn a_break_names_the_first_other_token_in_words() {
    let peer = Peer::listen().await;
    let asked = second(&peer, History::Calls, (&[151_644], &[8948, 77]));
    let words = [json(r#"{"prompt":"ugh"}"#), json(r#"{"prompt":"\nYou"}"#)];
    let answers = [&[recorded()][..], &words].concat();
    let (got, answer) = ask_for(&peer, asked, &answers).await;
    let broke = answer.unwrap().tokens.unwrap().broke.unwrap();
    assert_eq!((broke.at, broke.known, broke.in_reply), (2, 3, true));
    assert_eq!((broke.expected, broke.found), (77, Some(198)));
    assert_eq!((broke.expected_text.as_str(), broke.found_text.as_str()), ("ugh", "\nYou"));
    assert!(got[1].head.starts_with("POST /detokenize "), "{}", got[1].head);
    assert_eq!(got[1].body, r#"{"model":"m","tokens":[77]}"#);
    assert!(got[2].body.contains("[198,2610,525,1207,16948,11]"), "{}", got[2].body);
}

#[tokio::test]
async fn a_history_of_texts_keeps_what_was_generated_as_text() {
    let peer = Peer::listen().await;
    let asked = |peer: &Peer| second(peer, History::Text, (&[], &[]));
    let said = json(r#"{"prompt":"Sure, I'm"}"#);
    let (got, answer) = ask_for(&peer, asked(&peer), &[recorded(), said]).await;
    assert_eq!(answer.unwrap().tokens.unwrap().text, Some(Text::from("Sure, I'm")));
    // It was cut, so there is no end of a turn to leave out.
    assert_eq!(got[1].body, r#"{"model":"m","tokens":[39814,11,358,2776]}"#);
    for no_text in [json(r#"{"prompt":"a\ufffd"}"#), response("404 Not Found", "", "")] {
        let (_, answer) = ask_for(&peer, asked(&peer), &[recorded(), no_text]).await;
        assert_eq!(answer.unwrap().tokens.unwrap().text, None);
    }
}

const GENERATED: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"finish_reason\":null,\"token_ids\":[27,5]}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\",\"token_ids\":[100]}]}\n\n",
    "data: {\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3},\"choices\":[]}\n\n",
    "data: [DONE]\n\n",
);

const DERENDERED: &str = r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"content":null,
    "tool_calls":[{"id":"c","function":{"name":"find","arguments":"{\"box\": 9}"}}]}}],
    "usage":{"prompt_tokens":0,"completion_tokens":3}}"#;

fn rendered(ids: &[u32]) -> Vec<u8> {
    json(&format!(
        r#"{{"token_ids":{ids:?},"sampling_params":{{"temperature":0.70}},"stream":true}}"#
    ))
}

fn generated() -> Vec<u8> {
    response("200 OK", "content-type: text/event-stream\r\n", GENERATED)
}

#[tokio::test]
async fn a_session_goes_on_from_the_very_tokens_that_were_generated() {
    let peer = Peer::listen().await;
    // The model wrote 5 6 and ended its turn with 100; the template makes 7 of it, and 10 behind it.
    let asked = second(&peer, History::Tokens, (&[1, 2], &[5, 6, 100]));
    let chat = asked.prompt.body();
    let answers = [
        rendered(&[1, 2, 7, 100, 10, 3, 100, 10]),
        rendered(&[1, 2, 7, 100, 10]),
        generated(),
        json(DERENDERED),
    ];
    let (got, answer) = ask_for(&peer, asked, &answers).await;
    let answer = answer.unwrap();
    let paths: Vec<&str> = got.iter().map(|it| it.head.split(' ').nth(1).unwrap()).collect();
    let api = "/v1/chat/completions";
    let expected = [
        format!("{api}/render"),
        format!("{api}/render"),
        "/inference/v1/generate".into(),
        format!("{api}/derender"),
    ];
    assert_eq!(paths, expected);
    assert_eq!(got[0].body, chat);
    assert!(
        got[1]
            .body
            .ends_with(r#"{"role":"assistant","content":"one"}],"add_generation_prompt":false}"#),
        "{}",
        got[1].body
    );
    let sent = r#"{"token_ids":[1,2,5,6,100,10,3,100,10],"sampling_params":{"temperature":0.70},"stream":true}"#;
    assert_eq!(got[2].body, sent);
    assert!(got[3].body.contains(&format!(r#""chat_request":{chat}"#)), "{}", got[3].body);
    assert!(got[3].body.contains(r#""token_ids":[27,5,100]"#), "{}", got[3].body);
    let call = answer.tool_calls.first().unwrap();
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("find", r#"{"box": 9}"#));
    assert_eq!((answer.usage.prompt_tokens, answer.usage.completion_tokens), (10, 3));
    let tokens = answer.tokens.unwrap();
    assert_eq!((tokens.kept, tokens.prompt.preview(), tokens.broke), (5, "10 3 100 10", None));
    assert_eq!(tokens.generated.preview(), "27 5 100");
}

#[tokio::test]
async fn a_history_that_cannot_be_continued_is_rendered_anew_and_that_is_recorded() {
    let peer = Peer::listen().await;
    let asked = second(&peer, History::Tokens, (&[1, 2], &[5, 6, 100]));
    // The template drops the reply when something follows.
    let answers = [
        rendered(&[1, 2, 3, 100]),
        rendered(&[1, 2, 7, 100, 10]),
        generated(),
        json(DERENDERED),
        json(r#"{"prompt":"five"}"#),
        json(r#"{"prompt":"three"}"#),
    ];
    let (got, answer) = ask_for(&peer, asked, &answers).await;
    assert!(got[2].body.contains(r#""token_ids":[1,2,3,100]"#), "{}", got[2].body);
    let broke = answer.unwrap().tokens.unwrap().broke.unwrap();
    assert_eq!((broke.at, broke.expected, broke.found), (2, 5, Some(3)));
}

#[tokio::test]
async fn a_server_without_the_endpoints_says_what_it_needs() {
    let peer = Peer::listen().await;
    let asked = second(&peer, History::Tokens, (&[], &[]));
    let refused = r#"{"error":{"message":"Scale-out endpoints are disabled.","type":"PermissionDeniedError","code":403}}"#;
    let (_, answer) = ask_for(&peer, asked, &[response("403 Forbidden", "", refused)]).await;
    let failure = answer.unwrap_err();
    assert_eq!(failure.kind, ModelErrorKind::BadRequest);
    assert!(failure.message.contains("--enable-scale-out"), "{failure}");
}

#[tokio::test]
async fn a_stream_of_tokens_that_breaks_off_gives_no_answer() {
    let peer = Peer::listen().await;
    let asked = second(&peer, History::Tokens, (&[], &[]));
    let cut = GENERATED.split_inclusive("\n\n").next().unwrap();
    let cut = response("200 OK", "content-type: text/event-stream\r\n", cut);
    let (_, answer) = ask_for(&peer, asked, &[rendered(&[1]), cut]).await;
    assert_eq!(answer.unwrap_err().kind, ModelErrorKind::StreamBroken);
}

#[test]
fn the_request_of_an_agent_with_ids_asks_for_them() {
    let model = stepwell_core::agent::ModelSpec {
        token_ids: true,
        ..stepwell_core::agent::ModelSpec::new("m", "http://h/v1")
    };
    let body = Prompt::new(&Agent::new("a", "You are.", model), "t").body();
    assert!(body.contains(r#""return_token_ids":true"#), "{body}");
}
