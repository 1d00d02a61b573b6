//! What goes, what stays, and which rules are refused.

use stepwell_core::event::{
    ApprovalDecided, ApprovalDecision, FinishReason, ModelReplied, PrefixBreak, ReplyTokens,
    ToolCall, ToolFinished, ToolOutcome, Usage,
};
use stepwell_core::{ApprovalId, CallId, Seq, TimestampMs};

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

fn run(rules: &str, body: &EventBody) -> Redacted {
    redact(&Rules::parse(rules).unwrap(), stored(body), Vec::new()).unwrap()
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
    let done = redact(&rules, stored(&body), blobs).unwrap();
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
        let done = redact(&rules, stored(&body), blobs).unwrap();
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
