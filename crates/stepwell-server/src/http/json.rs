//! JSON with the field names of the proto. Numbers are numbers; bodies of events stand inline.

use std::collections::BTreeMap;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;
use stepwell_core::{SessionId, Status as SessionStatus};
use stepwell_ports::StoredEvent;
use stepwell_proto::v1;
use stepwell_runtime::LiveChunk;
use tonic::Status;

use super::error::HttpError;
use crate::convert;

#[derive(Serialize)]
struct Sessions<'a> {
    sessions: Vec<Session<'a>>,
    next_page_token: &'a str,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
struct Session<'a> {
    session_id: &'a str,
    status: String,
    title: &'a str,
    agent: &'a str,
    agent_version: u32,
    labels: BTreeMap<&'a str, &'a str>,
    head_seq: u64,
    step: u32,
    usage: Usage,
    created_at_ms: i64,
    updated_at_ms: i64,
    explain: &'a str,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
struct Usage {
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
}

impl<'a> From<&'a v1::Session> for Session<'a> {
    fn from(session: &'a v1::Session) -> Self {
        let status = session.status().as_str_name();
        let usage = session.usage.unwrap_or_default();
        Self {
            session_id: &session.session_id,
            status: status.strip_prefix("SESSION_STATUS_").unwrap_or(status).to_lowercase(),
            title: &session.title,
            agent: &session.agent,
            agent_version: session.agent_version,
            labels: session.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect(),
            head_seq: session.head_seq,
            step: session.step,
            usage: Usage {
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: usage.cached_tokens,
                completion_tokens: usage.completion_tokens,
            },
            created_at_ms: session.created_at_ms,
            updated_at_ms: session.updated_at_ms,
            explain: &session.explain,
        }
    }
}

/// A page of sessions.
pub(super) fn sessions(
    sessions: &[v1::Session],
    next_page: Option<&str>,
) -> Result<Response, HttpError> {
    answer(&Sessions {
        sessions: sessions.iter().map(Session::from).collect(),
        next_page_token: next_page.unwrap_or_default(),
    })
}

/// One session.
pub(super) fn session(session: &v1::Session) -> Result<Response, HttpError> {
    answer(&Session::from(session))
}

fn answer(value: &impl Serialize) -> Result<Response, HttpError> {
    let text = serde_json::to_string(value).map_err(|error| Status::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response())
}

#[derive(Serialize)]
struct Event<'a> {
    session_id: String,
    seq: u64,
    time_ms: i64,
    r#type: &'a str,
    schema: u16,
    cause: u64,
    actor: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    /// The body of a damaged event, which is no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_text: Option<&'a str>,
}

/// An event on one line.
pub(super) fn event(session_id: SessionId, event: &StoredEvent) -> serde_json::Result<String> {
    let body: Option<&RawValue> = serde_json::from_str(&event.body).ok();
    let body_text = body.is_none().then_some(event.body.as_str());
    let json = serde_json::to_string(&Event {
        session_id: session_id.to_string(),
        seq: event.seq.0,
        time_ms: convert::time(event.time),
        r#type: &event.kind,
        schema: event.schema,
        cause: event.cause.0,
        actor: &event.actor,
        body,
        body_text,
    })?;
    // A body is kept as it was written. Line breaks in JSON are white space between values: inside
    // of strings they are escaped.
    Ok(json.replace(['\n', '\r'], " "))
}

#[derive(Serialize)]
struct Chunk<'a> {
    kind: &'static str,
    text: &'a str,
    step: u32,
    attempt: u32,
    call_id: String,
}

/// A live piece on one line.
pub(super) fn chunk(chunk: &LiveChunk) -> serde_json::Result<String> {
    serde_json::to_string(&Chunk {
        kind: chunk.kind.as_str(),
        text: &chunk.text,
        step: chunk.step,
        attempt: chunk.attempt,
        call_id: chunk.call_id.map(|it| it.to_string()).unwrap_or_default(),
    })
}

/// How a session ended, on one line.
pub(super) fn end(status: SessionStatus, head_seq: u64) -> String {
    format!(r#"{{"status":"{}","head_seq":{head_seq}}}"#, status.as_str())
}
