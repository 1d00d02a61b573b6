//! What goes, what stays, and which rules are refused.

use std::sync::Arc;

use stepwell_core::agent::{ApprovalRule, ArgumentPattern, ModelSpec, Verdict};
use stepwell_core::event::{
    ApprovalDecided, ApprovalDecision, FinishReason, Label, ModelReplied, PrefixBreak, ReplyTokens,
    SessionCreated, ToolCall, ToolDispatched, ToolFinished, ToolOutcome, Usage,
};
use stepwell_core::output::AnswerForm;
use stepwell_core::{Agent, ApprovalId, CallId, Seq, TimestampMs, ToolSpec};

use super::*;

const CALL: CallId = CallId { step: 1, index: 1 };

fn stored(body: &EventBody) -> StoredEvent {
    StoredEvent {
        seq: Seq(3),
        time: TimestampMs(5),
        cause: Seq(3),
        actor: "worker:w".into(),
        kind: body.kind().as_str().into(),
        schema: EVENT_SCHEMA,
        body: codec::encode(body).unwrap(),
    }
}

fn finished(output: &str) -> EventBody {
    EventBody::ToolFinished(ToolFinished {
        call_id: CALL,
        attempt: 1,
        outcome: ToolOutcome::Ok,
        output: output.into(),
        full_output: None,
        late: false,
        duration_ms: 4,
    })
}

fn redact(rules: &Rules, event: StoredEvent, blobs: Blobs) -> Redacted {
    Redactor::new(rules).redact(event, blobs).unwrap()
}

fn run(rules: &str, body: &EventBody) -> Redacted {
    redact(&Rules::parse(rules).unwrap(), stored(body), Vec::new())
}

#[test]
fn what_holds_no_secret_stays_byte_for_byte() {
    let body = finished("all tests pass");
    let done = run("", &body);
    assert_eq!(done.event, stored(&body));
    assert!(done.pointers.is_empty());
}

#[test]
fn built_in_secrets_go_and_leave_length_and_hash() {
    let key = "sk-abcdefghijklmnopqrstuvwx";
    for (text, secret, rule) in [
        (format!("use {key} now"), key, "api_key"),
        (
            "Authorization: Bearer abcdefghijklmnop1234".into(),
            "abcdefghijklmnop1234",
            "bearer_token",
        ),
        ("password = hunter2hunter2".into(), "hunter2hunter2", "api_key"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----".into(),
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "private_key",
        ),
    ] {
        let done = run("", &finished(&text));
        assert_eq!(done.pointers, ["/output"], "{text}");
        assert!(!done.event.body.contains(secret), "{}", done.event.body);
        assert!(done.event.body.contains(&marker(rule, secret.as_bytes())), "{}", done.event.body);
    }
}

#[test]
fn emails_go_when_asked_for() {
    let body = finished("write to ada@example.org");
    assert!(run("", &body).pointers.is_empty());
    let done = run("secrets = [\"email\"]", &body);
    assert!(!done.event.body.contains("example.org"), "{}", done.event.body);
}

#[test]
fn a_marker_is_not_redacted_again() {
    let once = run("", &finished("token: abcdefgh12345678"));
    let body = codec::decode("tool_finished", EVENT_SCHEMA, &once.event.body).unwrap();
    assert!(run("", &body).pointers.is_empty(), "{}", once.event.body);
}

#[test]
fn no_rule_searches_the_marker_of_another_and_a_false_marker_hides_nothing() {
    let rules = "[[secret]]\nname = \"hash\"\npattern = \"[0-9a-f]{64}\"";
    let done = run(rules, &finished("token: abcdefgh12345678"));
    assert!(done.event.body.contains(&marker("api_key", b"abcdefgh12345678")));
    let done = run(rules, &finished("[redacted sk-abcdefghijklmnopqrstuvwx bytes:1 blake3:0]"));
    assert!(!done.event.body.contains("sk-abc"), "{}", done.event.body);
}

fn replied() -> EventBody {
    EventBody::ModelReplied(ModelReplied {
        step: 1,
        attempt: 1,
        content: "".into(),
        reasoning: "".into(),
        tool_calls: Vec::new(),
        answer_problem: None,
        finish_reason: FinishReason::ToolCalls,
        finish_word: None,
        usage: Usage::default(),
        endpoint: "http://m/v1".into(),
        first_token_ms: 1,
        duration_ms: 2,
        tokens: None,
    })
}

#[test]
fn arguments_stay_json_and_keep_what_is_structure() {
    let key = "sk-abcdefghijklmnopqrstuvwx";
    let EventBody::ModelReplied(reply) = replied() else { panic!("another event") };
    let call = ToolCall {
        call_id: CALL,
        wire_id: "call_1".into(),
        name: "shell".into(),
        arguments: format!(r#"{{"command": "curl -H {key}", "n": [1, "{key}"]}}"#).into(),
        repaired: None,
        problem: None,
    };
    let body = EventBody::from(ModelReplied { tool_calls: vec![call], ..reply });
    for rules in ["", "[[field]]\nevent = \"model_replied\"\npointer = \"/tool_calls/*/arguments\""]
    {
        let done = run(rules, &body);
        assert_eq!(done.pointers, ["/tool_calls/0/arguments"]);
        assert!(!done.event.body.contains(key));
        let read = codec::decode("model_replied", EVENT_SCHEMA, &done.event.body).unwrap();
        let EventBody::ModelReplied(read) = read else { panic!("another event") };
        let call = read.tool_calls.first().unwrap();
        assert_eq!((call.wire_id.as_str(), call.name.as_str()), ("call_1", "shell"));
        JsonText::parse(call.arguments.whole().unwrap()).unwrap();
    }
}

#[test]
fn token_ids_are_never_exported_with_what_was_taken_out() {
    let broke = PrefixBreak {
        at: 3,
        known: 4,
        in_reply: true,
        expected: 9,
        found: Some(8),
        expected_text: "sk-abc".into(),
        found_text: "sk-abd".into(),
    };
    let tokens = ReplyTokens {
        kept: 3,
        prompt: "8 7".into(),
        generated: "5 6".into(),
        broke: Some(broke),
        text: Some("key: sk-abcdefghijklmnopqrstuvwx".into()),
    };
    let EventBody::ModelReplied(reply) = replied() else { panic!("another event") };
    let done = run("", &ModelReplied { tokens: Some(Box::new(tokens)), ..reply }.into());
    assert_eq!(done.pointers, ["/tokens/text", "/tokens/prompt", "/tokens/generated"]);
    assert!(!done.event.body.contains("sk-ab"), "{}", done.event.body);
    let read = codec::decode("model_replied", EVENT_SCHEMA, &done.event.body).unwrap();
    let EventBody::ModelReplied(ModelReplied { tokens: Some(read), .. }) = read else {
        panic!("the comparison is gone");
    };
    assert_eq!((read.kept, read.prompt, read.broke.unwrap().found), (3, Text::default(), Some(8)));
}

#[test]
fn changed_arguments_and_vouched_results_are_texts_too() {
    let body = EventBody::ApprovalDecided(ApprovalDecided {
        approval_id: ApprovalId(3),
        call_id: CALL,
        decision: ApprovalDecision::Approve,
        reason: "password: correct-horse".into(),
        arguments: Some(JsonText::parse(r#"{"token":"token=abcdefgh1234"}"#).unwrap()),
        output: Some("token=abcdefgh1234".into()),
    });
    assert_eq!(run("", &body).pointers, ["/reason", "/arguments", "/output"]);
}

#[test]
fn large_texts_get_a_new_address() {
    let secret = "sk-abcdefghijklmnopqrstuvwx";
    let text = format!("{}{secret}", "x ".repeat(10_000));
    let mut body = finished(&text);
    let mut blobs = Vec::new();
    codec::detach(&mut body, &mut |address, it| {
        blobs.push((address.to_owned(), it.as_bytes().to_vec()));
    });
    let rules = Rules::parse("").unwrap();
    let done = redact(&rules, stored(&body), blobs);
    let (address, bytes) = done.blobs.first().unwrap();
    assert_eq!(*address, blake3::hash(bytes).to_hex().to_string());
    assert!(done.event.body.contains(address.as_str()));
    assert!(!String::from_utf8_lossy(bytes).contains(secret));
}

#[test]
fn the_whole_output_beside_a_short_one_is_searched() {
    let secret = "sk-abcdefghijklmnopqrstuvwx";
    let whole = format!("{secret} {}", "y".repeat(50));
    let mut body = finished("short");
    if let EventBody::ToolFinished(it) = &mut body {
        it.full_output = Some(codec::blob_ref(&whole));
    }
    let rules = Rules::parse("").unwrap();
    let address = codec::blob_ref(&whole).blob;
    for blobs in [vec![(address, whole.into_bytes())], Vec::new()] {
        let done = redact(&rules, stored(&body), blobs);
        assert_eq!(done.pointers, ["/full_output"]);
        assert!(!done.event.body.contains(secret), "{}", done.event.body);
    }
}

#[test]
fn rules_that_mean_nothing_are_refused() {
    for (rules, words) in [
        ("secrets = [\"keys\"]", "no built-in rule \"keys\""),
        ("[[secret]]\nname = \"x\"\npattern = \"(\"", "no regular expression"),
        ("[[secret]]\nname = \"x y\"\npattern = \"a\"", "letters, digits"),
        ("[[field]]\nevent = \"tool_ended\"\npointer = \"/output\"", "no event"),
        ("[[field]]\nevent = \"tool_finished\"\npointer = \"/call_id\"", "it has /output"),
        ("[[field]]\nevent = \"timer_fired\"\npointer = \"/timer\"", "it has none"),
        ("else = 1", "cannot be read"),
        ("[[secret]]\nname = \"x\"\npattern = \"\"", "finds the empty text"),
        ("[[secret]]\nname = \"x\"\npattern = \"(abc)*\"", "finds the empty text"),
    ] {
        let error = Rules::parse(rules).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn every_event_has_its_fields_listed_once() {
    let listed: Vec<_> = FIELDS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(listed.len(), stepwell_core::EventKind::ALL.len());
    for kind in stepwell_core::EventKind::ALL {
        assert!(listed.contains(kind), "{kind:?}");
    }
}

/// The rules of an agent, and what binds it, are texts that people wrote.
fn created() -> EventBody {
    let mut agent = Agent::new("desk", "Help.", ModelSpec::new("m", "http://m/v1"));
    let schema = |word: &str| {
        JsonText::parse(&format!(
            r#"{{"type":"object","properties":{{"a":{{"enum":["{word}"]}}}}}}"#
        ))
        .unwrap()
    };
    let look = ToolSpec { name: "look".into(), ..ToolSpec::ask_user() };
    let (parameters, output_schema) = (schema("XSECRETZZ"), Some(schema("YSECRETZZ")));
    agent.tools = vec![ToolSpec { parameters, output_schema, ..look }];
    agent.approval_rules = vec![ApprovalRule {
        tool: "look".into(),
        arguments: vec![ArgumentPattern { name: "a".into(), pattern: "ASECRETZZ*".into() }],
        commands: vec!["run BSECRETZZ".into()],
        verdict: Verdict::Deny,
    }];
    agent.output.answer = Some(AnswerForm::Choice(vec!["yes".into(), "CSECRETZZ".into()]));
    EventBody::SessionCreated(SessionCreated {
        agent: Arc::new(agent),
        task: "Look.".into(),
        title: "Look.".into(),
        labels: vec![Label { key: "KSECRETZZ".into(), value: "v".into() }],
        workspace: String::new(),
        seed: "s".into(),
        paused: false,
    })
}

const SECRETZZ: &str = "[[secret]]\nname = \"z\"\npattern = \"[A-Z]+SECRETZZ\"";

#[test]
fn rules_schemas_and_labels_are_searched() {
    let done = run(SECRETZZ, &created());
    assert!(!done.event.body.contains("SECRETZZ"), "{}", done.event.body);
    assert_eq!(done.left, [""; 0]);
    assert_eq!(
        done.pointers,
        [
            "/labels/0/key",
            "/agent/tools/0/parameters",
            "/agent/tools/0/output_schema",
            "/agent/approval_rules/0/arguments/0/pattern",
            "/agent/approval_rules/0/commands/0",
            "/agent/output/answer/choice/1",
        ]
    );
}

/// Each text of an event can be left out whole where it says so, and nothing else loses anything.
#[test]
fn every_text_is_listed_under_its_pointer() {
    for kind in [created(), call("look", "{}"), finished("x")] {
        let mut body = kind.clone();
        for_each_field(&mut body, &mut |pointer, field| {
            let (_, listed) = FIELDS.iter().find(|(it, _)| *it == kind.kind()).unwrap();
            let is_listed = listed.iter().any(|it| fields::fits(it, pointer));
            assert_eq!(is_listed, !matches!(field, Field::Tool(_)), "{pointer}");
        });
    }
}

fn call(tool: &str, arguments: &str) -> EventBody {
    let EventBody::ModelReplied(reply) = replied() else { panic!("another event") };
    let call = ToolCall {
        call_id: CALL,
        wire_id: "call_1".into(),
        name: tool.into(),
        arguments: arguments.into(),
        repaired: None,
        problem: None,
    };
    EventBody::from(ModelReplied { tool_calls: vec![call], ..reply })
}

#[test]
fn the_name_of_a_tool_goes_only_when_there_is_none() {
    let rules = Rules::parse("[[secret]]\nname = \"z\"\npattern = \"look|peekSECRETZZ\"").unwrap();
    let mut redactor = Redactor::new(&rules);
    let first = redactor.redact(stored(&created()), Vec::new()).unwrap();
    assert_eq!(first.left, ["/agent/approval_rules/0/tool", "/agent/tools/0/name"]);
    let known = redactor.redact(stored(&call("look", "{}")), Vec::new()).unwrap();
    assert_eq!((known.pointers.len(), known.left), (0, vec!["/tool_calls/0/name".to_owned()]));
    let unknown = redactor.redact(stored(&call("peekSECRETZZ", "{}")), Vec::new()).unwrap();
    assert_eq!(unknown.pointers, ["/tool_calls/0/name"]);
    assert_eq!(unknown.left, [""; 0]);
}

#[test]
fn whatever_a_rule_still_finds_is_told_with_its_place() {
    let rules = Rules::parse(SECRETZZ).unwrap();
    let mut event = stored(&EventBody::ToolDispatched(ToolDispatched {
        call_id: CALL,
        attempt: 1,
        worker: "WSECRETZZ".into(),
        approval_id: None,
    }));
    event.actor = "worker:WSECRETZZ".into();
    assert_eq!(redact(&rules, event, Vec::new()).left, ["actor", "/worker"]);
    // A field of which no list knows, in the event and beside it.
    let mut event = stored(&finished("x"));
    event.body = event.body.replacen('{', r#"{"new":[{"NSECRETZZ":{"a/b":"VSECRETZZ"}}],"#, 1);
    let left = redact(&rules, event, Vec::new()).left;
    assert_eq!(left, ["/new/0/*", "/new/0/*/a~1b"]);
    // A text that only looks like a marker hides nothing.
    let fake = marker("OSECRETZZ", b"x");
    let dispatched = |worker: String| {
        stored(&ToolDispatched { call_id: CALL, attempt: 1, worker, approval_id: None }.into())
    };
    assert_eq!(redact(&rules, dispatched(fake), Vec::new()).left, ["/worker"]);
    let own = "[[secret]]\nname = \"z\"\npattern = \"blake3\"";
    let own = Rules::parse(own).unwrap();
    assert_eq!(redact(&own, dispatched(marker("z", b"x")), Vec::new()).left, [""; 0]);
}

#[test]
fn arguments_hide_what_a_rule_finds_in_a_name_or_across_members() {
    let rules = "[[secret]]\nname = \"z\"\npattern = \"[A-Z]+SECRETZZ|one\\\":\\\\[2\"";
    for (arguments, whole) in [
        (r#"{"token":"abcdefgh1234"}"#, false),
        (r#"{"max_token":123456789}"#, false),
        (r#"{"KSECRETZZ":1}"#, true),
        (r#"{"a":{"one":[2]}}"#, true),
    ] {
        let done = run(rules, &call("look", arguments));
        assert_eq!(done.pointers, ["/tool_calls/0/arguments"], "{arguments}");
        assert_eq!(done.left, [""; 0]);
        let body = &done.event.body;
        assert!(!body.contains("SECRETZZ") && !body.contains("12345"), "{body}");
        assert_eq!(body.contains(r#"{\"redacted\":\""#), whole, "{body}");
    }
}

/// What one rule finds within what another one finds does not keep the rest of it here.
#[test]
fn what_two_rules_find_goes_whole() {
    let rules = "[[secret]]\nname = \"line\"\npattern = \"say: .*\"";
    let text = "say: sk-abcdefghijklmnopqrstuvwx and more";
    let done = run(rules, &finished(text));
    assert!(done.event.body.contains(&marker("api_key", text.as_bytes())), "{}", done.event.body);
    assert!(!done.event.body.contains("and more"), "{}", done.event.body);
}
