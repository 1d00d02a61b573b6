//! Wire messages as JSON: the proto's field names, enums as lower-case names, texts that hold JSON as
//! the JSON they hold. One value, one line.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use stepwell_proto::v1;

use super::usage;
use super::visible::is_unsafe_in_output;

/// `waiting_approval` for `SESSION_STATUS_WAITING_APPROVAL`.
pub(crate) fn status_name(status: v1::SessionStatus) -> String {
    let name = status.as_str_name();
    name.strip_prefix("SESSION_STATUS_").unwrap_or(name).to_ascii_lowercase()
}

/// `value` on one line. What a terminal would obey is written as an escape, which means the same.
pub(crate) fn to_line(value: &impl Serialize) -> anyhow::Result<String> {
    let line = serde_json::to_string(value)?;
    if !line.chars().any(is_unsafe_in_output) {
        return Ok(line);
    }
    let mut escaped = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        if is_unsafe_in_output(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(escaped, "\\u{unit:04x}")?;
            }
        } else {
            escaped.push(c);
        }
    }
    Ok(escaped)
}

/// A text that should hold JSON: that JSON, digit for digit and in its order, on one line; `null` for
/// an empty text; a JSON string for a text that is no JSON.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Embedded(Option<Box<RawValue>>);

impl Embedded {
    /// See [`Embedded`].
    pub(crate) fn new(text: &str) -> Self {
        if text.is_empty() {
            return Self(None);
        }
        let json = match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => compact(raw.get()),
            Err(_) => serde_json::Value::from(text).to_string(),
        };
        Self(RawValue::from_string(json).ok())
    }
}

/// Valid JSON without the white space between its parts.
fn compact(json: &str) -> String {
    let mut compacted = String::with_capacity(json.len());
    let (mut is_in_string, mut is_escaped) = (false, false);
    for c in json.chars() {
        if !is_in_string && c.is_ascii_whitespace() {
            continue;
        }
        compacted.push(c);
        match c {
            '"' if !is_escaped => is_in_string = !is_in_string,
            '\\' if is_in_string => is_escaped = !is_escaped,
            _ => {}
        }
        if c != '\\' {
            is_escaped = false;
        }
    }
    compacted
}

/// [`v1::Usage`].
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
pub(crate) struct Usage {
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
}

/// [`v1::Session`].
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
pub(crate) struct Session<'a> {
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
    #[serde(skip_serializing_if = "str::is_empty")]
    parent_id: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    parent_seq: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl<'a> From<&'a v1::Session> for Session<'a> {
    fn from(it: &'a v1::Session) -> Self {
        let usage = it.usage.unwrap_or_default();
        Self {
            session_id: &it.session_id,
            status: status_name(it.status()),
            title: &it.title,
            agent: &it.agent,
            agent_version: it.agent_version,
            labels: it.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            head_seq: it.head_seq,
            step: it.step,
            usage: Usage {
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: usage.cached_tokens,
                completion_tokens: usage.completion_tokens,
            },
            created_at_ms: it.created_at_ms,
            updated_at_ms: it.updated_at_ms,
            explain: &it.explain,
            parent_id: &it.parent_id,
            parent_seq: it.parent_seq,
        }
    }
}

/// Two objects as one: the fields of the first, then those of the second. (Serde's `flatten` does not
/// go together with `arbitrary_precision`.)
#[derive(Debug)]
pub(crate) struct Joined<A, B>(pub(crate) A, pub(crate) B);

impl<A: Serialize, B: Serialize> Serialize for Joined<A, B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let first = serde_json::to_string(&self.0).map_err(S::Error::custom)?;
        let second = serde_json::to_string(&self.1).map_err(S::Error::custom)?;
        let joined = match (first.strip_suffix('}'), second.strip_prefix('{')) {
            (Some(first), Some(second)) => format!("{first},{second}"),
            _ => return Err(S::Error::custom("only objects with fields can be joined")),
        };
        RawValue::from_string(joined).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// [`v1::CreateSessionResponse`]: the session's fields and `created`.
pub(crate) fn created(session: &v1::Session, created: bool) -> impl Serialize {
    #[derive(Serialize)]
    struct Rest {
        created: bool,
    }
    Joined(Session::from(session), Rest { created })
}

/// [`v1::GetSessionResponse`]: the session's fields and the rest.
pub(crate) fn shown(session: &v1::Session, response: &v1::GetSessionResponse) -> impl Serialize {
    Joined(Session::from(session), Details::from(response))
}

/// [`v1::DecideApprovalResponse`]: the approval's fields, `unchanged` and the session.
pub(crate) fn decided(approval: &v1::Approval, it: &v1::DecideApprovalResponse) -> impl Serialize {
    #[derive(Serialize)]
    struct Rest<'a> {
        unchanged: bool,
        session: Option<Session<'a>>,
    }
    let session = it.session.as_ref().map(Session::from);
    Joined(Approval::from(approval), Rest { unchanged: it.unchanged, session })
}

/// What [`v1::GetSessionResponse`] says beyond the session's row.
#[derive(Debug, Serialize)]
struct Details<'a> {
    open_calls: Vec<OpenCall<'a>>,
    open_approvals: Vec<Approval<'a>>,
    owner: &'a str,
    owner_seen_at_ms: i64,
    ownership: &'a str,
    wakes_at_ms: i64,
    answer: &'a str,
    agent_json: Embedded,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<usage::Account>,
}

impl<'a> From<&'a v1::GetSessionResponse> for Details<'a> {
    fn from(it: &'a v1::GetSessionResponse) -> Self {
        Self {
            open_calls: it.open_calls.iter().map(OpenCall::from).collect(),
            open_approvals: it.open_approvals.iter().map(Approval::from).collect(),
            owner: &it.owner,
            owner_seen_at_ms: it.owner_seen_at_ms,
            ownership: &it.ownership,
            wakes_at_ms: it.wakes_at_ms,
            answer: &it.answer,
            agent_json: Embedded::new(&it.agent_json),
            account: it.account.as_ref().map(usage::Account::from),
        }
    }
}

/// [`v1::OpenCall`].
#[derive(Debug, Serialize)]
pub(crate) struct OpenCall<'a> {
    call_id: &'a str,
    tool: &'a str,
    arguments: Embedded,
    status: &'a str,
    attempt: u32,
    worker: &'a str,
}

impl<'a> From<&'a v1::OpenCall> for OpenCall<'a> {
    fn from(it: &'a v1::OpenCall) -> Self {
        Self {
            call_id: &it.call_id,
            tool: &it.tool,
            arguments: Embedded::new(&it.arguments),
            status: &it.status,
            attempt: it.attempt,
            worker: &it.worker,
        }
    }
}

/// [`v1::Approval`].
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
pub(crate) struct Approval<'a> {
    approval_id: &'a str,
    session_id: &'a str,
    call_id: &'a str,
    question: &'a str,
    tool: &'a str,
    arguments: Embedded,
    action_digest: &'a str,
    rule: &'a str,
    status: &'a str,
    requested_at_ms: i64,
    expires_at_ms: i64,
    decided_by: &'a str,
    decided_at_ms: i64,
    reason: &'a str,
}

impl<'a> From<&'a v1::Approval> for Approval<'a> {
    fn from(it: &'a v1::Approval) -> Self {
        Self {
            approval_id: &it.approval_id,
            session_id: &it.session_id,
            call_id: &it.call_id,
            question: &it.question,
            tool: &it.tool,
            arguments: Embedded::new(&it.arguments),
            action_digest: &it.action_digest,
            rule: &it.rule,
            status: &it.status,
            requested_at_ms: it.requested_at_ms,
            expires_at_ms: it.expires_at_ms,
            decided_by: &it.decided_by,
            decided_at_ms: it.decided_at_ms,
            reason: &it.reason,
        }
    }
}

/// [`v1::Event`], with `body` for `body_json`.
#[derive(Debug, Serialize)]
pub(crate) struct Event<'a> {
    session_id: &'a str,
    seq: u64,
    time_ms: i64,
    #[serde(rename = "type")]
    kind: &'a str,
    schema: u32,
    cause: u64,
    actor: &'a str,
    body: Embedded,
}

impl<'a> From<&'a v1::Event> for Event<'a> {
    fn from(it: &'a v1::Event) -> Self {
        Self {
            session_id: &it.session_id,
            seq: it.seq,
            time_ms: it.time_ms,
            kind: &it.r#type,
            schema: it.schema,
            cause: it.cause,
            actor: &it.actor,
            body: Embedded::new(&it.body_json),
        }
    }
}

/// [`v1::LiveChunk`]. It has `kind` where an event has `type`.
#[derive(Debug, Serialize)]
pub(crate) struct LiveChunk<'a> {
    kind: &'a str,
    text: &'a str,
    step: u32,
    attempt: u32,
    call_id: &'a str,
}

impl<'a> From<&'a v1::LiveChunk> for LiveChunk<'a> {
    fn from(it: &'a v1::LiveChunk) -> Self {
        Self {
            kind: &it.kind,
            text: &it.text,
            step: it.step,
            attempt: it.attempt,
            call_id: &it.call_id,
        }
    }
}

/// [`v1::Span`].
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
pub(crate) struct Span<'a> {
    span_id: &'a str,
    parent_id: &'a str,
    depth: u32,
    kind: &'a str,
    name: &'a str,
    start_ms: i64,
    end_ms: i64,
    first_seq: u64,
    last_seq: u64,
    status: &'a str,
    detail: &'a str,
    row: u32,
    subtree_size: u32,
    child_count: u32,
    is_last_child: bool,
}

impl<'a> From<&'a v1::Span> for Span<'a> {
    fn from(it: &'a v1::Span) -> Self {
        Self {
            span_id: &it.span_id,
            parent_id: &it.parent_id,
            depth: it.depth,
            kind: &it.kind,
            name: &it.name,
            start_ms: it.start_ms,
            end_ms: it.end_ms,
            first_seq: it.first_seq,
            last_seq: it.last_seq,
            status: &it.status,
            detail: &it.detail,
            row: it.row,
            subtree_size: it.subtree_size,
            child_count: it.child_count,
            is_last_child: it.is_last_child,
        }
    }
}

/// [`v1::Agent`].
#[derive(Debug, Serialize)]
pub(crate) struct Agent<'a> {
    name: &'a str,
    version: u32,
    definition: &'a str,
    created_at_ms: i64,
}

impl<'a> From<&'a v1::Agent> for Agent<'a> {
    fn from(it: &'a v1::Agent) -> Self {
        Self {
            name: &it.name,
            version: it.version,
            definition: &it.definition,
            created_at_ms: it.created_at_ms,
        }
    }
}

/// [`v1::Tool`].
#[derive(Debug, Serialize)]
pub(crate) struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Embedded,
    output_schema: Embedded,
    effect: &'a str,
    timeout_ms: u64,
    workers: &'a [String],
}

impl<'a> From<&'a v1::Tool> for Tool<'a> {
    fn from(it: &'a v1::Tool) -> Self {
        Self {
            name: &it.name,
            description: &it.description,
            parameters: Embedded::new(&it.parameters),
            output_schema: Embedded::new(&it.output_schema),
            effect: &it.effect,
            timeout_ms: it.timeout_ms,
            workers: &it.workers,
        }
    }
}

/// [`v1::Worker`].
#[derive(Debug, Serialize)]
pub(crate) struct Worker<'a> {
    name: &'a str,
    tools: &'a [String],
    running_calls: u32,
    capacity: u32,
    connected_at_ms: i64,
    seen_at_ms: i64,
    draining: bool,
}

impl<'a> From<&'a v1::Worker> for Worker<'a> {
    fn from(it: &'a v1::Worker) -> Self {
        Self {
            name: &it.name,
            tools: &it.tools,
            running_calls: it.running_calls,
            capacity: it.capacity,
            connected_at_ms: it.connected_at_ms,
            seen_at_ms: it.seen_at_ms,
            draining: it.draining,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> v1::Session {
        v1::Session {
            session_id: "01J".into(),
            status: v1::SessionStatus::WaitingApproval.into(),
            title: "t".into(),
            agent: "coder".into(),
            agent_version: 2,
            labels: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
            head_seq: 17,
            step: 3,
            usage: None,
            created_at_ms: 1,
            updated_at_ms: 2,
            explain: "e".into(),
            parent_id: String::new(),
            parent_seq: 0,
        }
    }

    #[track_caller]
    fn line(value: &impl Serialize, expected: &str) {
        assert_eq!(to_line(value).unwrap(), expected);
    }

    const SESSION: &str = r#""session_id":"01J","status":"waiting_approval","title":"t","agent":"coder","agent_version":2,"labels":{"a":"1","b":"2"},"head_seq":17,"step":3,"usage":{"prompt_tokens":0,"cached_tokens":0,"completion_tokens":0},"created_at_ms":1,"updated_at_ms":2,"explain":"e""#;

    #[test]
    fn a_session_has_the_fields_of_the_proto() {
        line(&Session::from(&session()), &format!("{{{SESSION}}}"));
        line(&created(&session(), true), &format!("{{{SESSION},\"created\":true}}"));
    }

    #[test]
    fn a_shown_session_has_its_own_fields_on_top() {
        let response = v1::GetSessionResponse {
            open_calls: vec![v1::OpenCall {
                call_id: "3.1".into(),
                arguments: "{\"a\": 1.0}".into(),
                ..v1::OpenCall::default()
            }],
            agent_json: "{\"name\":\"coder\"}".into(),
            ..v1::GetSessionResponse::default()
        };
        line(
            &shown(&session(), &response),
            &format!(
                "{{{SESSION},\"open_calls\":[{{\"call_id\":\"3.1\",\"tool\":\"\",\"arguments\":{{\"a\":1.0}},\"status\":\"\",\"attempt\":0,\"worker\":\"\"}}],\"open_approvals\":[],\"owner\":\"\",\"owner_seen_at_ms\":0,\"ownership\":\"\",\"wakes_at_ms\":0,\"answer\":\"\",\"agent_json\":{{\"name\":\"coder\"}}}}"
            ),
        );
    }

    #[test]
    fn an_event_carries_its_body_as_json_on_one_line() {
        let event = v1::Event {
            session_id: "01J".into(),
            seq: 4,
            time_ms: 9,
            r#type: "tool_finished".into(),
            schema: 1,
            cause: 4,
            actor: "worker:local".into(),
            body_json: "{\n  \"z\": 1e400,\n \"a\": \"x y\\\" \\n\"}".into(),
        };
        line(
            &Event::from(&event),
            r#"{"session_id":"01J","seq":4,"time_ms":9,"type":"tool_finished","schema":1,"cause":4,"actor":"worker:local","body":{"z":1e400,"a":"x y\" \n"}}"#,
        );
    }

    #[test]
    fn arguments_are_json_when_they_are_json() {
        for (text, expected) in [
            ("", "null"),
            ("{\"command\": \"ls\"}", "{\"command\":\"ls\"}"),
            ("{\"command\": ", "\"{\\\"command\\\": \""),
            ("12345678901234567890.10", "12345678901234567890.10"),
            ("{\"a\":\"\\\\\", \"b\" : 2}", "{\"a\":\"\\\\\",\"b\":2}"),
        ] {
            line(&Embedded::new(text), expected);
        }
    }

    #[test]
    fn output_never_moves_the_cursor() {
        line(&"a\u{9b}b\u{202e}c\u{e0041}d\u{1b}é", r#""a\u009bb\u202ec\udb40\udc41d\u001bé""#);
    }

    #[test]
    fn every_status_has_a_plain_name() {
        assert_eq!(status_name(v1::SessionStatus::ExecutingTools), "executing_tools");
        assert_eq!(status_name(v1::SessionStatus::LimitReached), "limit_reached");
    }
}
