//! The request to the model, byte for byte.

use stepwell_core::event::ToolCall;
use stepwell_core::prompt::Prompt;
use stepwell_core::{Agent, JsonText};

use crate::world::{World, agent, id, message, wants};

fn small() -> Agent {
    let mut agent = agent();
    agent.tools.truncate(1);
    agent
}

fn with_parameters(parameters: &str) -> String {
    let mut agent = small();
    agent.model.parameters = JsonText::parse(parameters).unwrap();
    Prompt::new(&agent, "task").body()
}

/// Servers keep what they read by its bytes, so these bytes never change without a reason.
#[test]
fn a_whole_request() {
    let mut world = World::of(small());
    world.calls(&[("find", r#"{"box": 9}"#), ("find", "no JSON")]);
    world.done(id(1, 1), "shelf \"A\"\n\u{1}");
    world.when(message("and <box> 10"));
    world.done(id(1, 2), "ß😀");
    assert_eq!(
        world.state.prompt.body(),
        concat!(
            r#"{"model":"small","stream":true,"stream_options":{"include_usage":true},"#,
            r#""temperature":0,"tools":[{"type":"function","function":{"name":"find","#,
            r#""description":"does find","parameters":{"type":"object"}}}],"messages":["#,
            r#"{"role":"system","content":"You move boxes."},"#,
            r#"{"role":"user","content":"move box 9"},"#,
            r#"{"role":"assistant","content":null,"tool_calls":["#,
            r#"{"id":"call_1_1","type":"function","function":{"name":"find","#,
            r#""arguments":"{\"box\": 9}"}},"#,
            r#"{"id":"call_1_2","type":"function","function":{"name":"find","#,
            r#""arguments":"{}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"call_1_1","content":"shelf \"A\"\n\u0001"},"#,
            r#"{"role":"tool","tool_call_id":"call_1_2","content":"ß😀"},"#,
            r#"{"role":"user","content":"and <box> 10"}]}"#,
        )
    );
}

#[test]
fn parameters_are_merged_as_they_are_written() {
    let body = with_parameters(r#"{ "temperature": 0.70, "seed":7 }"#);
    assert!(
        body.contains(r#""include_usage":true},"temperature": 0.70, "seed":7,"tools""#),
        "{body}"
    );
    for empty in ["{}", "{ }"] {
        let body = with_parameters(empty);
        assert!(body.contains(r#""include_usage":true},"tools""#), "{body}");
    }
}

#[test]
fn an_answer_in_words_is_sent_back_as_text() {
    let mut prompt = Prompt::new(&small(), "task");
    prompt.push_assistant("", &[]);
    prompt.push_assistant("words", &[call("{}")]);
    let body = prompt.body();
    assert!(body.contains(r#"{"role":"assistant","content":""}"#), "{body}");
    assert!(body.contains(r#"{"role":"assistant","content":"words","tool_calls":["#), "{body}");
}

fn call(arguments: &str) -> ToolCall {
    ToolCall { wire_id: "c1".into(), call_id: id(1, 1), ..wants("find", arguments) }
}

/// CACHE-02: what the model wrote goes back as it wrote it; what servers cannot read does not.
#[test]
fn arguments_are_sent_back_as_written_when_servers_can_read_them() {
    for (written, sent) in [
        (r#"{"b":1,  "a":1.50}"#, r#"{"b":1,  "a":1.50}"#),
        ("{}", "{}"),
        ("", "{}"),
        ("null", "{}"),
        ("[1]", "{}"),
        ("{\"a\":", "{}"),
        (r#"{"a":1,"a":2}"#, "{}"),
    ] {
        let mut prompt = Prompt::new(&small(), "task");
        prompt.push_assistant("", &[call(written)]);
        let body: serde_json::Value = serde_json::from_str(&prompt.body()).unwrap();
        let arguments = &body["messages"][2]["tool_calls"][0]["function"]["arguments"];
        assert_eq!(arguments, sent, "{written}");
    }
}

#[test]
fn a_large_prompt_is_the_same_in_pieces_and_when_it_is_cached() {
    let mut prompt = Prompt::new(&small(), "task");
    let mut before = prompt.body();
    for n in 0..40 {
        prompt.push_user(&format!("{n} {}", "ä".repeat(1_000 * (n % 7))));
        prompt.push_observation("c1", "x");
        let body = prompt.body();
        assert!(body.starts_with(before.strip_suffix("]}").unwrap()));
        assert_eq!(prompt.body_bytes(), body.len() as u64);
        assert_eq!(prompt.digest(), blake3::hash(body.as_bytes()).to_hex().as_str());
        assert_eq!(prompt.body_segments().collect::<String>(), body);
        let json = serde_json::to_string(&prompt).unwrap();
        let cached: Prompt = serde_json::from_str(&json).unwrap();
        assert_eq!(cached, prompt);
        assert_eq!((cached.body(), cached.messages()), (body.clone(), prompt.messages()));
        before = body;
    }
    assert!(prompt.body_segments().count() > 3, "it lies in several pieces");
    let mut grown = prompt.clone();
    grown.push_user("more");
    assert_ne!(grown, prompt, "a copy grows by itself");
}
