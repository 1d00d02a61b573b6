//! Rules for whole fields, and the texts that say a field again.

use stepwell_core::SessionId;
use stepwell_core::event::{
    CancelRequested, Edit, Outcome, OverrideApplied, RefusalReason, Repaired, SessionFinished,
    ToolRefused,
};
use stepwell_core::text::{shorten, title_of};

use super::*;

const SAID: &str = "the quick brown fox";

fn field(event: &str, pointer: &str) -> Rules {
    let rule = format!("[[field]]\nevent = \"{event}\"\npointer = \"{pointer}\"\n");
    Rules::parse(&rule).unwrap()
}

#[track_caller]
fn goes(rules: &Rules, body: &EventBody) {
    let done = redact(rules, stored(body), Vec::new());
    assert!(stored(body).body.contains(SAID), "it was there");
    assert!(!done.event.body.contains(SAID), "{}", done.event.body);
}

fn task(task: &str, title: &str) -> EventBody {
    let EventBody::SessionCreated(mut it) = created() else { panic!("another event") };
    (it.task, it.title) = (task.into(), title.into());
    it.into()
}

#[test]
fn a_task_takes_its_title_with_it() {
    let long = format!("{SAID} {}", "jumps ".repeat(40));
    for text in [SAID, &long, &format!("\n  {SAID}\nmore")] {
        for rules in [field("session_created", "/task"), field("*", "/task")] {
            goes(&rules, &task(text, &title_of(text)));
        }
    }
    // A title that somebody gave is no part of the task, of a fork neither.
    let done = redact(&field("*", "/task"), stored(&task(SAID, "Fox")), Vec::new());
    assert_eq!(done.pointers, ["/task"]);
    let done = redact(&field("*", "/task"), stored(&fork("other", Vec::new())), Vec::new());
    assert_eq!(done.pointers, [""; 0]);
}

#[test]
fn an_output_takes_the_whole_output_with_it() {
    let whole = format!("{SAID} {}", "jumps ".repeat(40));
    let mut body = finished(SAID);
    if let EventBody::ToolFinished(it) = &mut body {
        it.full_output = Some(codec::blob_ref(&whole));
    }
    for with_payload in [true, false] {
        let blobs = vec![(codec::blob_ref(&whole).blob, whole.clone().into_bytes())];
        let blobs = if with_payload { blobs } else { Vec::new() };
        let done = redact(&field("tool_finished", "/output"), stored(&body), blobs);
        assert_eq!(done.pointers, ["/output", "/full_output"]);
        assert!(!done.event.body.contains(SAID), "{}", done.event.body);
        assert!(done.blobs.iter().all(|(_, it)| !it.starts_with(SAID.as_bytes())));
    }
}

fn spoken(content: &str, arguments: &str) -> ModelReplied {
    let EventBody::ModelReplied(reply) = replied() else { panic!("another event") };
    let tokens = ReplyTokens {
        kept: 0,
        prompt: "".into(),
        generated: "".into(),
        broke: None,
        text: Some(format!("{content}{arguments}").into()),
    };
    let repaired = Repaired { raw: arguments.into(), repairs: Vec::new() };
    let call = ToolCall {
        call_id: CALL,
        wire_id: "call_1".into(),
        name: "shell".into(),
        arguments: arguments.into(),
        repaired: Some(repaired),
        problem: Some(format!("bad; the arguments were: {arguments}")),
    };
    ModelReplied {
        content: content.into(),
        answer_problem: Some(format!("no answer: {content}")),
        tool_calls: vec![call],
        tokens: Some(Box::new(tokens)),
        ..reply
    }
}

#[test]
fn what_a_reply_says_twice_goes_twice() {
    for event in ["model_replied", "*"] {
        goes(&field(event, "/content"), &spoken(SAID, "{}").into());
        for place in ["*", "0"] {
            let rules = field(event, &format!("/tool_calls/{place}/arguments"));
            goes(&rules, &spoken("", SAID).into());
        }
    }
    let other = field("model_replied", "/tool_calls/1/arguments");
    let done = redact(&other, stored(&spoken("", SAID).into()), Vec::new());
    assert!(!done.pointers.iter().any(|it| it.starts_with("/tool_calls")), "{:?}", done.pointers);
}

fn fork(title: &str, edits: Vec<Edit>) -> EventBody {
    EventBody::OverrideApplied(OverrideApplied {
        parent: SessionId::from_random([7; 16]),
        parent_seq: Seq(2),
        seed: "fork".into(),
        title: Some(title.into()),
        agent: None,
        workspace: "theirs".into(),
        edits,
        paused: false,
        asks_anew: true,
    })
}

/// An edit of a fork stands in the place of an event, so a rule for that event is one for it.
#[test]
fn an_edit_is_treated_as_the_event_whose_place_it_takes() {
    let (call_id, outcome) = (CALL, ToolOutcome::Ok);
    let json = JsonText::parse(&format!("{{\"a\":\"{SAID}\"}}")).unwrap();
    let reply = spoken("", SAID);
    let content = spoken(SAID, "{}");
    for (event, pointer, edit) in [
        ("tool_finished", "/output", Edit::ToolResult { call_id, outcome, output: SAID.into() }),
        ("model_replied", "/tool_calls/*/arguments", Edit::ModelReply(Box::new(reply))),
        ("model_replied", "/content", Edit::ModelReply(Box::new(content))),
        ("message_received", "/content", Edit::Message { content: SAID.into() }),
        ("approval_decided", "/arguments", Edit::Arguments { call_id, arguments: json }),
    ] {
        for event in [event, "*"] {
            goes(&field(event, pointer), &fork("x", vec![edit.clone()]));
        }
    }
    goes(&field("session_created", "/title"), &fork(SAID, Vec::new()));
}

/// The engine says a problem, a reason again in its own decisions.
#[test]
fn what_the_engine_says_again_goes_with_it() {
    let long = format!("{SAID} {}", "jumps over the lazy dog ".repeat(30));
    for arguments in [SAID, &long] {
        let rules = field("model_replied", "/tool_calls/*/arguments");
        let mut redactor = Redactor::new(&rules);
        let reply = spoken("", arguments);
        let problem = reply.tool_calls.first().and_then(|it| it.problem.clone()).unwrap();
        redactor.redact(stored(&reply.into()), Vec::new()).unwrap();
        let (reason, message) = (RefusalReason::BadArguments, problem.clone());
        let refused = ToolRefused { call_id: CALL, reason, message };
        let reason = format!("3 replies; the last: {}", shorten(&problem, 300));
        let ended = SessionFinished { outcome: Outcome::Failed, reason, limit: None };
        for body in [EventBody::from(refused), EventBody::from(ended)] {
            let done = redactor.redact(stored(&body), Vec::new()).unwrap();
            assert!(!done.event.body.contains("brown"), "{}", done.event.body);
        }
    }
    // A short word is only the same one where nothing else stands.
    let rules = field("cancel_requested", "/reason");
    let mut redactor = Redactor::new(&rules);
    let cancel = CancelRequested { reason: "no".into() };
    redactor.redact(stored(&cancel.into()), Vec::new()).unwrap();
    for (reason, goes) in [("no", true), ("there is no tool", false)] {
        let ended =
            SessionFinished { outcome: Outcome::Cancelled, reason: reason.into(), limit: None };
        let done = redactor.redact(stored(&ended.into()), Vec::new()).unwrap();
        assert_eq!(!done.pointers.is_empty(), goes, "{reason}");
    }
}

#[test]
fn a_rule_that_finds_nothing_is_told() {
    let field = |event: &str, pointer: &str| {
        format!("[[field]]\nevent = \"{event}\"\npointer = \"{pointer}\"\n")
    };
    let rules = [
        field("tool_finished", "/output"),
        field("*", "/reason"),
        field("model_replied", "/reasoning"),
    ];
    let rules = Rules::parse(&rules.concat()).unwrap();
    let mut redactor = Redactor::new(&rules);
    redactor.redact(stored(&finished("x")), Vec::new()).unwrap();
    redactor.redact(stored(&spoken("", "{}").into()), Vec::new()).unwrap();
    assert_eq!(redactor.unused(), ["* /reason", "model_replied /reasoning"]);
}
