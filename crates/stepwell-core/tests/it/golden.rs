//! The stored form of every event, as this release writes it, and as every earlier one did.
//!
//! `tests/golden/events/v<N>/KIND.VARIANT.json` is what schema `N` wrote. These files are read for
//! ever. To add one: add a sample below and run the tests with `UPDATE_GOLDEN=1`. A file that is there
//! is never changed: a change means that stored events of users would be read differently.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_core::agent::History;
use stepwell_core::arguments::Repair;
use stepwell_core::codec::{EVENT_SCHEMA, decode, encode};
use stepwell_core::event::{
    ApprovalDecided, ApprovalDecision, ApprovalRequested, CancelRequested, ContextSize, Edit,
    EventBody, EventKind, FinishReason, Label, LimitKind, MessageReceived, ModelErrorKind,
    ModelFailed, ModelReplied, ModelRequested, Outcome, OverrideApplied, PauseRequested,
    PrefixBreak, Question, RefusalReason, Repaired, ReplyTokens, ResumeRequested, SessionFinished,
    TimeLimit, Timer, TimerFired, TimerStarted, ToolCall, ToolDispatched, ToolFinished, ToolLost,
    ToolOutcome, ToolRefused, ToolScheduled, Usage,
};
use stepwell_core::output::{AnswerForm, OutputPolicy, RelaxedSchema, ToolChoice, WhenIgnored};
use stepwell_core::text::BlobRef;
use stepwell_core::{Agent, ApprovalId, JsonText, Seq, SessionId, Text, TimestampMs};

use crate::world::{agent, failure, id, reply, session_created, wants};

fn blob() -> BlobRef {
    BlobRef { blob: "af13".repeat(16), bytes: 70_000, preview: "the first words".into() }
}

/// An event of every kind, bare and with all that is optional.
pub(crate) fn samples() -> Vec<(&'static str, EventBody)> {
    let mut samples = session_samples();
    samples.extend(model_samples());
    samples.extend(tool_samples());
    samples.extend(approval_samples());
    samples.extend(timer_samples());
    samples
}

fn session_samples() -> Vec<(&'static str, EventBody)> {
    let mut full = session_created(agent());
    full.labels = vec![Label { key: "team".into(), value: "boxes".into() }];
    full.task = Text::Detached(blob());
    full.workspace = "boxes".into();
    let mut bare = agent();
    bare.tools.clear();
    bare.approval_rules.clear();
    let bound = Agent { output: output(), ..bare.clone() };
    let mut exact = bare.clone();
    (exact.model.history, exact.model.token_ids) = (History::Tokens, true);
    let finished =
        |outcome, limit, reason: &str| SessionFinished { outcome, reason: reason.into(), limit };
    vec![
        ("bare", session_created(bare).into()),
        ("full", full.into()),
        ("output", session_created(bound).into()),
        ("history", session_created(exact).into()),
        (
            "bare",
            MessageReceived { content: Text::from("hi"), answers: None, client_key: None }.into(),
        ),
        (
            "full",
            MessageReceived {
                content: Text::from("a \"quoted\" line\nand \u{0} more"),
                answers: Some(id(3, 1)),
                client_key: Some("key-1".into()),
            }
            .into(),
        ),
        ("bare", CancelRequested { reason: String::new() }.into()),
        ("full", CancelRequested { reason: "enough".into() }.into()),
        ("bare", PauseRequested { reason: String::new() }.into()),
        ("full", PauseRequested { reason: "lunch".into() }.into()),
        ("bare", ResumeRequested { once: false }.into()),
        ("once", ResumeRequested { once: true }.into()),
        ("bare", bare_fork().into()),
        ("full", full_fork().into()),
        ("completed", finished(Outcome::Completed, None, "").into()),
        ("failed", finished(Outcome::Failed, None, "3 attempts failed").into()),
        ("cancelled", finished(Outcome::Cancelled, None, "enough").into()),
        ("steps", finished(Outcome::LimitReached, Some(LimitKind::Steps), "2 of 2").into()),
        ("deadline", finished(Outcome::LimitReached, Some(LimitKind::Deadline), "d").into()),
        ("tokens", finished(Outcome::LimitReached, Some(LimitKind::Tokens), "t").into()),
        ("repeated", finished(Outcome::LimitReached, Some(LimitKind::RepeatedAction), "r").into()),
        ("context", finished(Outcome::LimitReached, Some(LimitKind::Context), "c").into()),
        ("output", finished(Outcome::LimitReached, Some(LimitKind::OutputTokens), "o").into()),
        ("unusable", finished(Outcome::LimitReached, Some(LimitKind::UnusableReplies), "u").into()),
    ]
}

fn bare_fork() -> OverrideApplied {
    OverrideApplied {
        parent: SessionId::from_random([9; 16]),
        parent_seq: Seq(12),
        seed: "seed".into(),
        title: None,
        agent: None,
        workspace: "boxes".into(),
        edits: Vec::new(),
        paused: false,
        asks_anew: false,
    }
}

fn full_fork() -> OverrideApplied {
    let mut bare = agent();
    bare.tools.clear();
    bare.approval_rules.clear();
    OverrideApplied {
        title: Some("again".into()),
        agent: Some(Arc::new(bare)),
        edits: vec![
            Edit::ToolResult {
                call_id: id(3, 1),
                outcome: ToolOutcome::Error,
                output: Text::from("no shelf"),
            },
            Edit::ModelReply(reply(4, 1, "I look.", vec![wants("find", "{}")]).into()),
            Edit::Arguments {
                call_id: id(4, 1),
                arguments: JsonText::parse(r#"{"box":9}"#).unwrap(),
            },
            Edit::Message { content: Text::from("again") },
        ],
        paused: true,
        asks_anew: true,
        ..bare_fork()
    }
}

fn output() -> OutputPolicy {
    let json = |text| JsonText::parse(text).unwrap();
    let relaxed =
        RelaxedSchema { schema: json(r#"{"type":"array"}"#), dropped: vec!["/uniqueItems".into()] };
    let schema = json(r#"{"type":"array","uniqueItems":true}"#);
    OutputPolicy {
        strict_tools: true,
        relaxed: [("find".to_string(), relaxed.clone())].into(),
        tool_choice: ToolChoice::Tool("find".into()),
        answer: Some(AnswerForm::Schema { schema, relaxed: Some(relaxed) }),
        when_ignored: WhenIgnored::Fail,
    }
}

fn model_samples() -> Vec<(&'static str, EventBody)> {
    let call = |index: u32, wire_id: &str, call: ToolCall| ToolCall {
        call_id: id(2, index),
        wire_id: wire_id.into(),
        ..call
    };
    let calls = vec![
        call(1, "call_a", wants("find", r#"{"box": 2512292042121000001}"#)),
        ToolCall {
            problem: Some("the JSON ends too early".into()),
            ..call(2, "call_b", wants("put", "{\"box\":"))
        },
        ToolCall { arguments: Text::Detached(blob()), ..call(3, "call_c", wants("put", "")) },
        ToolCall {
            repaired: Some(Repaired {
                raw: Text::from("```json\n{\"box\":4,}\n```"),
                repairs: vec![Repair::CodeFence, Repair::TrailingComma],
            }),
            ..call(4, "call_d", wants("put", r#"{"box":4}"#))
        },
    ];
    let full = ModelReplied {
        content: Text::from("I look."),
        reasoning: Text::from("Where is it?"),
        usage: Usage {
            prompt_tokens: 900,
            cached_tokens: 800,
            completion_tokens: 40,
            ..Usage::default()
        },
        ..reply(2, 3, "", calls)
    };
    let requested = ModelRequested {
        step: 2,
        attempt: 1,
        prompt_digest: "0f".repeat(32),
        prompt_bytes: 12_345,
        fallback: None,
    };
    let fallen_back = ModelRequested { fallback: Some("small".into()), ..requested.clone() };
    let finish = |finish_reason| ModelReplied { finish_reason, ..reply(1, 1, "x", Vec::new()) };
    let mut samples: Vec<(&'static str, EventBody)> = vec![
        ("fallback", fallen_back.into()),
        ("bare", requested.into()),
        ("bare", reply(1, 1, "", Vec::new()).into()),
        ("full", full.into()),
        (
            "answer",
            ModelReplied { answer_problem: Some("no JSON".into()), ..finish(FinishReason::Stop) }
                .into(),
        ),
        (
            "tokens",
            ModelReplied { tokens: Some(Box::new(broken_tokens())), ..finish(FinishReason::Stop) }
                .into(),
        ),
        ("length", finish(FinishReason::Length).into()),
        ("filter", finish(FinishReason::ContentFilter).into()),
    ];
    samples.extend(failure_samples());
    samples
}

fn broken_tokens() -> ReplyTokens {
    ReplyTokens {
        kept: 900,
        prompt: Text::from("330 878 2458"),
        generated: Text::Detached(blob()),
        broke: Some(PrefixBreak {
            at: 900,
            known: 941,
            in_reply: true,
            expected: 878,
            found: Some(330),
            expected_text: "read".into(),
            found_text: " \"".into(),
        }),
        text: Some(Text::from("<tool_call>\n{\"name\":\"find\"}\n</tool_call>")),
    }
}

fn failure_samples() -> Vec<(&'static str, EventBody)> {
    let limited = ModelFailed {
        http_status: Some(429),
        retry_after_ms: Some(7_000),
        ..failure(2, 1, ModelErrorKind::RateLimited)
    };
    let mut samples: Vec<(&'static str, EventBody)> = vec![
        ("full", limited.into()),
        (
            "time_limit",
            ModelFailed {
                time_limit: Some(TimeLimit::FirstToken),
                ..failure(1, 1, ModelErrorKind::Timeout)
            }
            .into(),
        ),
        (
            "context",
            ModelFailed {
                context: Some(ContextSize { limit: Some(16_384), prompt: Some(16_385) }),
                ..failure(1, 1, ModelErrorKind::ContextTooLong)
            }
            .into(),
        ),
    ];
    let elsewhere = ModelFailed {
        http_status: Some(401),
        elsewhere: true,
        ..failure(1, 1, ModelErrorKind::Unauthorized)
    };
    samples.push(("elsewhere", elsewhere.into()));
    for error in [
        ModelErrorKind::QuotaExhausted,
        ModelErrorKind::ContentFilter,
        ModelErrorKind::Transport,
        ModelErrorKind::Overloaded,
        ModelErrorKind::ContextTooLong,
        ModelErrorKind::BadRequest,
        ModelErrorKind::Unauthorized,
        ModelErrorKind::ServerError,
        ModelErrorKind::StreamBroken,
        ModelErrorKind::Timeout,
        ModelErrorKind::BadResponse,
    ] {
        samples.push((error.as_str(), failure(1, 1, error).into()));
    }
    samples
}

fn tool_samples() -> Vec<(&'static str, EventBody)> {
    let scheduled = ToolScheduled { call_id: id(1, 1), attempt: 1, approval_id: None };
    let dispatched =
        ToolDispatched { call_id: id(1, 1), attempt: 1, worker: "w1".into(), approval_id: None };
    let finished = ToolFinished {
        call_id: id(1, 1),
        attempt: 1,
        outcome: ToolOutcome::Ok,
        output: Text::from("shelf A"),
        full_output: None,
        late: false,
        duration_ms: 12,
    };
    let lost =
        ToolLost { call_id: id(1, 1), attempt: 1, reason: "gone".into(), never_started: false };
    let approval_id = Some(ApprovalId(17));
    let mut samples: Vec<(&'static str, EventBody)> = vec![
        ("bare", scheduled.clone().into()),
        ("approved", ToolScheduled { attempt: 2, approval_id, ..scheduled }.into()),
        ("bare", dispatched.clone().into()),
        ("approved", ToolDispatched { approval_id, ..dispatched }.into()),
        ("bare", finished.clone().into()),
        (
            "full",
            ToolFinished {
                outcome: ToolOutcome::Error,
                output: Text::Detached(blob()),
                full_output: Some(blob()),
                late: true,
                ..finished
            }
            .into(),
        ),
        ("bare", lost.clone().into()),
        ("never_started", ToolLost { never_started: true, ..lost }.into()),
    ];
    for (name, reason) in [
        ("unknown_tool", RefusalReason::UnknownTool),
        ("bad_arguments", RefusalReason::BadArguments),
        ("cut_off", RefusalReason::CutOff),
        ("forbidden", RefusalReason::Forbidden),
        ("denied", RefusalReason::Denied),
        ("expired", RefusalReason::Expired),
        ("worker_lost", RefusalReason::WorkerLost),
    ] {
        let refused = ToolRefused { call_id: id(1, 2), reason, message: "no".into() };
        samples.push((name, refused.into()));
    }
    samples
}

fn approval_samples() -> Vec<(&'static str, EventBody)> {
    let requested = ApprovalRequested {
        approval_id: ApprovalId(17),
        call_id: id(1, 1),
        question: Question::MayRun,
        action_digest: "0f".repeat(32),
        rule: "no rule covers it".into(),
        expires_at: None,
    };
    let decided = |decision| ApprovalDecided {
        approval_id: ApprovalId(17),
        call_id: id(1, 1),
        decision,
        reason: String::new(),
        arguments: None,
        output: None,
    };
    let mut samples: Vec<(&'static str, EventBody)> = vec![
        ("bare", requested.clone().into()),
        (
            "full",
            ApprovalRequested {
                question: Question::WhatHappened,
                expires_at: Some(TimestampMs(1_700_000_000_000)),
                ..requested
            }
            .into(),
        ),
        (
            "edited",
            ApprovalDecided {
                reason: "two are needed".into(),
                arguments: Some(JsonText::parse(r#"{"qty": 2.0,"order":771}"#).unwrap()),
                ..decided(ApprovalDecision::Approve)
            }
            .into(),
        ),
        (
            "happened_with_output",
            ApprovalDecided {
                output: Some(Text::from("receipt 4")),
                ..decided(ApprovalDecision::Happened)
            }
            .into(),
        ),
    ];
    for decision in [
        ApprovalDecision::Approve,
        ApprovalDecision::ApproveForSession,
        ApprovalDecision::Deny,
        ApprovalDecision::Happened,
        ApprovalDecision::DidNotHappen,
        ApprovalDecision::Failed,
    ] {
        samples.push((decision.as_str(), decided(decision).into()));
    }
    samples
}

fn timer_samples() -> Vec<(&'static str, EventBody)> {
    let due_at = TimestampMs(1_700_000_000_000);
    let timers = [
        ("model_retry", Timer::ModelRetry),
        ("tool_retry", Timer::ToolRetry(id(3, 1))),
        ("sleep", Timer::Sleep(id(3, 12))),
        ("approval_expiry", Timer::ApprovalExpiry(ApprovalId(17))),
        ("deadline", Timer::Deadline),
        ("cancel_grace", Timer::CancelGrace),
    ];
    let mut samples: Vec<(&'static str, EventBody)> = Vec::new();
    for (name, timer) in timers {
        samples.push((name, TimerStarted { timer, due_at }.into()));
        samples.push((name, TimerFired { timer, due_at }.into()));
    }
    samples
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/events")
}

/// Every golden file: its schema, its kind and what stands in it.
fn files() -> Vec<(PathBuf, u16, String, String)> {
    let mut files = Vec::new();
    for version in fs::read_dir(folder()).unwrap() {
        let version = version.unwrap().path();
        let name = version.file_name().unwrap().to_str().unwrap();
        let schema: u16 = name.strip_prefix('v').unwrap().parse().unwrap();
        for file in fs::read_dir(&version).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let kind = name.split('.').next().unwrap().to_string();
            let text = fs::read_to_string(&path).unwrap();
            files.push((path, schema, kind, text.trim_end_matches('\n').to_string()));
        }
    }
    files
}

#[test]
fn every_golden_event_is_read() {
    let files = files();
    assert!(files.len() > 50);
    for (path, schema, kind, text) in files {
        let body = decode(&kind, schema, &text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if schema == EVENT_SCHEMA {
            assert_eq!(encode(&body).unwrap(), text, "{}", path.display());
        }
    }
}

#[test]
fn every_sample_is_written_as_its_file_says() {
    let mut names = BTreeSet::new();
    for (variant, body) in samples() {
        let kind = body.kind().as_str();
        let name = format!("{kind}.{variant}.json");
        let path = folder().join(format!("v{EVENT_SCHEMA}")).join(&name);
        let text = encode(&body).unwrap();
        if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, format!("{text}\n")).unwrap();
        }
        let stored = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{name}: {error}; it would be: {text}"));
        assert_eq!(text, stored.trim_end_matches('\n'), "{name}");
        assert!(names.insert(name.clone()), "two samples are named {name}");
    }
}

#[test]
fn every_kind_has_a_golden_file() {
    let known: BTreeSet<String> = files()
        .into_iter()
        .filter(|(_, schema, _, _)| *schema == EVENT_SCHEMA)
        .map(|(_, _, kind, _)| kind)
        .collect();
    for kind in EventKind::ALL {
        assert!(known.contains(kind.as_str()), "{} has no golden file", kind.as_str());
    }
}
