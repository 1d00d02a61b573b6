//! A session as a trace: the golden file, the ids, and a collector that has its moods.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;
use stepwell_core::spans::Row;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::send::Collector;
use super::wire::Request;
use super::*;
use crate::args::ColorWhen;
use crate::out::Out;

const SESSION: &str = "51WRKMSS2TD4EK7F1RWBQ5B6TA";

/// A history: seconds, type, content. A retry, a call that ran, one that was denied, one that is open.
const HISTORY: &[(i64, &str, &str)] = &[
    (
        0,
        "session_created",
        include_str!("../../../../stepwell-core/tests/golden/events/v1/session_created.bare.json"),
    ),
    (0, "model_requested", r#"{"step":1,"attempt":1,"prompt_digest":"d","prompt_bytes":9}"#),
    (
        1,
        "model_failed",
        r#"{"step":1,"attempt":1,"endpoint":"http://127.0.0.1:8000/v1","error":"timeout","message":"too slow"}"#,
    ),
    (1, "timer_started", r#"{"timer":"model_retry","due_at":1795996797000}"#),
    (2, "timer_fired", r#"{"timer":"model_retry","due_at":1795996797000}"#),
    (2, "model_requested", r#"{"step":1,"attempt":2,"prompt_digest":"d","prompt_bytes":9}"#),
    (
        4,
        "model_replied",
        r#"{"step":1,"attempt":2,"tool_calls":[
            {"call_id":"1.1","wire_id":"call_a","name":"find","arguments":"{\"box\":9}"},
            {"call_id":"1.2","wire_id":"call_b","name":"ship","arguments":"{\"order\":7}"},
            {"call_id":"1.3","wire_id":"call_c","name":"pay","arguments":"{}"}],
            "finish_reason":"tool_calls",
            "usage":{"prompt_tokens":900,"cached_tokens":800,"completion_tokens":30},
            "endpoint":"http://127.0.0.1:8000/v1","first_token_ms":5,"duration_ms":2000}"#,
    ),
    (4, "tool_scheduled", r#"{"call_id":"1.1","attempt":1}"#),
    (4, "tool_refused", r#"{"call_id":"1.2","reason":"denied","message":"not on a Friday"}"#),
    (4, "tool_scheduled", r#"{"call_id":"1.3","attempt":1}"#),
    (
        5,
        "tool_finished",
        r#"{"call_id":"1.1","attempt":1,"outcome":"ok","output":"shelf A","duration_ms":9}"#,
    ),
];

fn history() -> (SpanIndex, Facts) {
    let (mut index, mut facts) = (SpanIndex::default(), Facts::default());
    for ((seconds, kind, body), seq) in HISTORY.iter().zip(1..) {
        let event = v1::Event {
            session_id: SESSION.into(),
            seq,
            time_ms: 1_795_996_795_000 + seconds * 1_000,
            r#type: (*kind).into(),
            schema: 1,
            cause: seq,
            actor: "engine".into(),
            body_json: (*body).into(),
        };
        let event = decoded(&event).unwrap_or_else(|error| panic!("{kind}: {error}"));
        facts.take(&event);
        index.push(&event);
    }
    (index, facts)
}

fn request() -> Request {
    let (index, facts) = history();
    let trace = Trace { session_id: SESSION.parse().unwrap(), index: &index, facts: &facts };
    let rows: Vec<Row> = index.rows(0, u32::MAX);
    Request::new(rows.iter().map(|row| trace.span(row)).collect())
}

#[test]
fn a_session_is_the_trace_of_the_golden_file() {
    let text = serde_json::to_string_pretty(&request()).unwrap();
    let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
    let text = text.replace(&version, "\"VERSION\"");
    let golden = include_str!("golden.json");
    assert_eq!(text.trim(), golden.trim(), "now:\n{text}");
}

#[test]
fn ids_are_the_same_each_time_and_different_for_each_span_and_session() {
    let session: SessionId = SESSION.parse().unwrap();
    let other = SessionId::from_random([1; 16]);
    assert_eq!(trace::trace_id(session), trace::trace_id(session));
    assert_ne!(trace::trace_id(session), trace::trace_id(other));
    assert_ne!(trace::span_id(session, "step:1"), trace::span_id(session, "step:2"));
    assert_ne!(trace::span_id(session, "step:1"), trace::span_id(other, "step:1"));
}

#[test]
fn every_parent_is_in_the_trace_and_nothing_ends_before_it_begins() {
    let text = serde_json::to_value(request()).unwrap();
    let spans = text["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let known: Vec<&Value> = spans.iter().map(|it| &it["spanId"]).collect();
    for span in spans {
        assert!(span["parentSpanId"].is_null() || known.contains(&&span["parentSpanId"]));
        let nanos = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanos("endTimeUnixNano") >= nanos("startTimeUnixNano"), "{span}");
    }
}

/// What a collector answers: status, `Retry-After`, body.
type Mood = (u16, Option<&'static str>, &'static str);

#[derive(Debug, Default)]
struct Received {
    moods: VecDeque<Mood>,
    bodies: Vec<Value>,
    headers: Vec<HeaderMap>,
}

type Shared = Arc<Mutex<Received>>;

async fn receive(State(shared): State<Shared>, headers: HeaderMap, body: String) -> Response {
    let mut shared = shared.lock().unwrap();
    shared.bodies.push(serde_json::from_str(&body).unwrap());
    shared.headers.push(headers);
    let (status, wait, body) = shared.moods.pop_front().unwrap_or((200, None, "{}"));
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    if let Some(wait) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, wait.parse().unwrap());
    }
    response
}

/// A collector on a free port, until the tasks are dropped.
async fn collector(moods: &[Mood]) -> (String, Shared, JoinSet<()>) {
    let shared = Shared::default();
    shared.lock().unwrap().moods = moods.iter().copied().collect();
    let router = Router::new().route("/v1/traces", post(receive)).with_state(shared.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (endpoint, shared, tasks)
}

/// Sends the session to a collector in these moods; what became of it, and what was received.
async fn sent(moods: &[Mood]) -> (Result<(), String>, Shared) {
    let (endpoint, shared, _tasks) = collector(moods).await;
    let headers = [("x-key".to_owned(), "secret".to_owned())];
    let out = Out::new(true, ColorWhen::Never);
    let mut collector = Collector::impatient(&endpoint, &headers, out);
    let body = serde_json::to_string(&request()).unwrap();
    let result = collector.send(body).await.map_err(|error| format!("{error:#}"));
    (result, shared)
}

#[tokio::test]
async fn a_collector_gets_the_spans_as_json_with_the_headers() {
    let (result, shared) = sent(&[]).await;
    result.unwrap();
    let shared = shared.lock().unwrap();
    assert_eq!(shared.bodies, [serde_json::to_value(request()).unwrap()]);
    assert_eq!(shared.headers[0]["content-type"], "application/json");
    assert_eq!(shared.headers[0]["x-key"], "secret");
}

#[tokio::test]
async fn what_may_pass_is_tried_again_with_the_same_spans() {
    let moods = [(429, Some("0"), ""), (503, None, "busy"), (500, Some("0.001"), "")];
    let (result, shared) = sent(&moods).await;
    result.unwrap();
    let bodies = &shared.lock().unwrap().bodies;
    assert_eq!(bodies.len(), 4);
    assert!(bodies.iter().all(|it| *it == bodies[0]));
}

#[tokio::test]
async fn what_does_not_pass_is_said_with_what_to_do() {
    for (mood, tries, words) in [
        ((400, None, "bad  span\n"), 1, "400 Bad Request (bad span)"),
        ((401, None, ""), 1, "--header NAME=VALUE"),
        ((404, None, ""), 1, "check the path"),
        ((308, None, ""), 1, "give its true address"),
        ((503, Some("3600"), ""), 1, "it asks to come back in 3600 s"),
    ] {
        let (result, shared) = sent(&[mood]).await;
        let error = result.unwrap_err();
        assert!(error.contains(words) && !error.contains("secret"), "{error}");
        assert!(error.contains("http://127.0.0.1:"), "{error}");
        assert_eq!(shared.lock().unwrap().bodies.len(), tries, "{error}");
    }
    let (result, shared) = sent(&[(503, Some("0"), "busy"); 9]).await;
    let error = result.unwrap_err();
    assert!(error.contains("503 Service Unavailable (busy), 6 times"), "{error}");
    assert_eq!(shared.lock().unwrap().bodies.len(), 6);
}

#[tokio::test]
async fn a_part_that_is_rejected_is_no_failure() {
    let answer = r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}"#;
    let (result, shared) = sent(&[(200, None, answer)]).await;
    result.unwrap();
    assert_eq!(shared.lock().unwrap().bodies.len(), 1);
}

#[tokio::test]
async fn a_collector_that_is_not_there_is_named_without_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    drop(listener);
    let endpoint = format!("http://user:secret@{place}/v1/traces?key=secret");
    let out = Out::new(true, ColorWhen::Never);
    let error = Collector::impatient(&endpoint, &[], out).send("{}".into()).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains(&place.to_string()) && error.contains("no collector answers"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn an_endpoint_must_be_an_address() {
    let out = Out::new(true, ColorWhen::Never);
    for (endpoint, problem) in [("h:4318", "http://"), ("ftp://h", "http://"), ("http://", "empty")]
    {
        let error = Collector::new(endpoint, &[], out).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("4318"), "{error}");
    }
    for (endpoint, address) in [
        ("http://h:4318", "http://h:4318/v1/traces"),
        ("http://h:4318/", "http://h:4318/v1/traces"),
        ("https://h/otlp/v1/traces", "https://h/otlp/v1/traces"),
    ] {
        assert_eq!(Collector::new(endpoint, &[], out).unwrap().address(), address);
    }
}
