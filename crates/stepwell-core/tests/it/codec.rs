//! The stored form: payloads that are moved out and back, and what is refused when read.

use std::collections::BTreeMap;

use stepwell_core::codec::{CodecError, EVENT_SCHEMA, attach, decode, detach, encode, is_whole};
use stepwell_core::event::{
    ApprovalDecided, ApprovalDecision, EventBody, EventKind, MessageReceived, ToolFinished,
    ToolOutcome,
};
use stepwell_core::text::{INLINE_BYTES_MAX, PREVIEW_BYTES_MAX};
use stepwell_core::{ApprovalId, JsonText, Text};

use crate::golden::samples;
use crate::world::{id, reply, session_created, wants};

/// Every payload of a body, in the order in which they are visited.
fn payloads(body: &EventBody) -> Vec<Text> {
    let mut texts = Vec::new();
    match body {
        EventBody::SessionCreated(it) => texts.push(it.task.clone()),
        EventBody::ModelReplied(it) => {
            texts.push(it.content.clone());
            texts.push(it.reasoning.clone());
            texts.extend(it.tool_calls.iter().map(|call| call.arguments.clone()));
        }
        EventBody::ToolFinished(it) => texts.push(it.output.clone()),
        EventBody::ApprovalDecided(it) => texts.extend(it.output.clone()),
        EventBody::MessageReceived(it) => texts.push(it.content.clone()),
        _ => {}
    }
    texts
}

#[test]
fn large_payloads_go_out_and_come_back() {
    let large = "ä".repeat(INLINE_BYTES_MAX);
    let mut wanted = wants("find", &large);
    wanted.call_id = id(1, 1);
    let mut replied = reply(1, 1, &large, vec![wanted, wants("put", "{}")]);
    replied.reasoning = Text::from(large.as_str());
    let mut created = session_created(crate::world::agent());
    created.task = Text::from(large.as_str());
    let finished = ToolFinished {
        call_id: id(1, 1),
        attempt: 1,
        outcome: ToolOutcome::Ok,
        output: Text::from(large.as_str()),
        full_output: None,
        late: false,
        duration_ms: 0,
    };
    let decided = ApprovalDecided {
        approval_id: ApprovalId(4),
        call_id: id(1, 1),
        decision: ApprovalDecision::Happened,
        reason: String::new(),
        arguments: None,
        output: Some(Text::from(large.as_str())),
    };
    let message =
        MessageReceived { content: Text::from(large.as_str()), answers: None, client_key: None };
    let bodies: [EventBody; 5] =
        [replied.into(), created.into(), finished.into(), decided.into(), message.into()];
    for original in bodies {
        let mut body = original.clone();
        let mut blobs = BTreeMap::new();
        detach(&mut body, &mut |address, payload| {
            blobs.insert(address.to_string(), payload.to_string());
        });
        assert!(!is_whole(&mut body));
        assert_eq!(blobs.len(), 1, "one address for one content");
        assert!(payloads(&body).iter().all(|text| text.whole().is_none_or(|it| it.len() < 99)));
        let json = encode(&body).unwrap();
        assert!(json.len() < 8_192, "the event is small: {}", json.len());
        let mut read = decode(body.kind().as_str(), 1, &json).unwrap();
        attach(&mut read, &mut |_| None);
        assert_eq!(read, body, "what is not found stays out");
        attach(&mut read, &mut |address| blobs.get(address).cloned());
        assert_eq!(read, original);
        assert!(is_whole(&mut read));
    }
}

#[test]
fn a_detached_payload_keeps_address_size_and_preview() {
    let large = "ä".repeat(INLINE_BYTES_MAX);
    let mut body = EventBody::from(reply(1, 1, &large, Vec::new()));
    detach(&mut body, &mut |address, payload| {
        assert_eq!(address, blake3::hash(payload.as_bytes()).to_hex().as_str());
        assert_eq!(payload, large);
    });
    let Text::Detached(blob) = &payloads(&body)[0] else { panic!("it should be out") };
    assert_eq!(blob.bytes, large.len() as u64);
    assert_eq!(blob.preview, "ä".repeat(PREVIEW_BYTES_MAX / 2));
}

#[test]
fn payloads_at_the_limit_stay() {
    let limit = "a".repeat(INLINE_BYTES_MAX);
    let mut body = EventBody::from(reply(1, 1, &limit, Vec::new()));
    detach(&mut body, &mut |_, _| panic!("it is not above the limit"));
    let above = "a".repeat(INLINE_BYTES_MAX + 1);
    let mut body = EventBody::from(reply(1, 1, &above, Vec::new()));
    let mut kept = 0;
    detach(&mut body, &mut |_, _| kept += 1);
    assert_eq!(kept, 1);
}

#[test]
fn what_cannot_be_read_says_why() {
    let found = EVENT_SCHEMA + 1;
    let future = decode("model_replied", found, "{}").unwrap_err();
    assert_eq!(future, CodecError::FromTheFuture { kind: "model_replied".into(), found });
    for json in ["", "{", "[]", "null", "{\"step\":\"one\"}", "{\"step\":1}"] {
        let damaged = decode("model_requested", 1, json).unwrap_err();
        assert!(matches!(&damaged, CodecError::Damaged { kind, .. } if kind == "model_requested"));
    }
    let unknown_outcome = r#"{"call_id":"1.1","attempt":1,"outcome":"maybe","output":"x"}"#;
    assert!(decode("tool_finished", 1, unknown_outcome).is_err());
}

/// du12: a field of a newer release is passed over, and stays in the stored text, which is never
/// rewritten.
#[test]
fn an_unknown_field_is_passed_over() {
    for (name, body) in samples() {
        let json = encode(&body).unwrap();
        let inner = json.strip_prefix('{').unwrap();
        let comma = if inner == "}" { "" } else { "," };
        let extended = format!("{{\"from_the_future\":{{\"a\":[1,2]}}{comma}{inner}");
        assert_eq!(decode(body.kind().as_str(), 1, &extended).as_ref(), Ok(&body), "{name}");
    }
}

/// du12: fields that were added later have documented defaults.
#[test]
fn missing_optional_fields_get_their_defaults() {
    let cases = [
        (
            "model_replied",
            r#"{"step":1,"attempt":1,"finish_reason":"stop","usage":{"prompt_tokens":1,"completion_tokens":2},"endpoint":"e","first_token_ms":0,"duration_ms":0}"#,
        ),
        ("tool_finished", r#"{"call_id":"1.1","attempt":1,"outcome":"ok","output":"x"}"#),
        ("tool_lost", r#"{"call_id":"1.1","attempt":1,"reason":"gone"}"#),
        ("tool_scheduled", r#"{"call_id":"1.1","attempt":1}"#),
        ("tool_dispatched", r#"{"call_id":"1.1","attempt":1,"worker":"w"}"#),
        ("approval_decided", r#"{"approval_id":5,"call_id":"1.1","decision":"approve"}"#),
        (
            "approval_requested",
            r#"{"approval_id":5,"call_id":"1.1","question":"may_run","action_digest":"d","rule":"r"}"#,
        ),
        ("message_received", r#"{"content":"x"}"#),
        ("cancel_requested", "{}"),
        ("pause_requested", "{}"),
        ("resume_requested", "{}"),
        ("session_finished", r#"{"outcome":"completed"}"#),
        (
            "model_failed",
            r#"{"step":1,"attempt":1,"endpoint":"e","error":"timeout","message":"m"}"#,
        ),
    ];
    for (kind, json) in cases {
        let body = decode(kind, 1, json).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let EventBody::ModelReplied(it) = &body else { continue };
        assert_eq!((it.content.preview(), it.tool_calls.len()), ("", 0));
        assert_eq!(it.usage.cached_tokens, 0);
    }
}

#[test]
fn names_and_kinds_are_one_to_one() {
    for kind in EventKind::ALL {
        assert_eq!(EventKind::from_name(kind.as_str()), Some(*kind));
    }
    assert_eq!(EventKind::from_name("nothing"), None);
}

/// ARG-16: numbers keep their digits, spelling and order through the log.
#[test]
fn json_in_events_is_kept_byte_for_byte() {
    let text = r#"{"z":1.50,  "a":[2512292042121000001,1e3],"ä":"\u00e4"}"#;
    let mut created = session_created(crate::world::agent());
    let mut agent = (*created.agent).clone();
    agent.model.parameters = JsonText::parse(text).unwrap();
    created.agent = agent.into();
    let json = encode(&created.clone().into()).unwrap();
    assert!(json.contains(text));
    assert_eq!(decode("session_created", 1, &json), Ok(created.into()));
}
