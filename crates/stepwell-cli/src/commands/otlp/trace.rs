//! From a session's spans to those of a trace.

use stepwell_core::spans::{Row, Span, SpanIndex, SpanKind, SpanStatus};
use stepwell_core::text::prefix;
use stepwell_core::{CallId, SessionId, TimestampMs};

use super::convention as names;
use super::facts::Facts;
use super::wire::{self, Attribute, Kind, Status};

/// Longest text of an attribute.
const ATTRIBUTE_BYTES_MAX: usize = 4_096;

/// A session as a trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace<'a> {
    pub(super) session_id: SessionId,
    pub(super) index: &'a SpanIndex,
    pub(super) facts: &'a Facts,
}

impl Trace<'_> {
    /// The span of a row.
    pub(super) fn span(&self, row: &Row) -> wire::Span {
        let span = &row.span;
        // A collector takes only what ended. What did not is told by its status.
        let end = span.end.unwrap_or_else(|| TimestampMs(self.index.time().0.max(span.start.0)));
        let (name, kind, mut attributes) = self.as_convention_has_it(span);
        attributes.extend(ours(span));
        wire::Span {
            trace_id: trace_id(self.session_id),
            span_id: span_id(self.session_id, &span.span_id),
            parent_span_id: span.parent.as_deref().map(|it| span_id(self.session_id, it)),
            name,
            kind,
            start_time_unix_nano: nanos(span.start),
            end_time_unix_nano: nanos(end),
            attributes,
            status: status(span),
        }
    }

    /// Name, kind and attributes by the convention.
    fn as_convention_has_it(&self, span: &Span) -> (String, Kind, Vec<Attribute>) {
        let facts = self.facts;
        let operation = |name| Attribute::text(names::OPERATION, name);
        let mut attributes = Vec::new();
        let (name, kind) = match span.kind {
            SpanKind::Session => {
                attributes.push(operation(names::operation::AGENT));
                attributes.push(Attribute::text(names::PROVIDER, names::OPENAI));
                attributes.push(Attribute::text(names::AGENT_NAME, &facts.agent));
                attributes.push(Attribute::text(names::REQUEST_MODEL, &facts.model));
                attributes.extend(error_type(span));
                (format!("{} {}", names::operation::AGENT, facts.agent), Kind::Internal)
            }
            SpanKind::ModelCall => {
                attributes.push(operation(names::operation::CHAT));
                attributes.push(Attribute::text(names::PROVIDER, names::OPENAI));
                attributes.push(Attribute::text(names::REQUEST_MODEL, &span.name));
                self.say_model_call(span, &mut attributes);
                (format!("{} {}", names::operation::CHAT, span.name), Kind::Client)
            }
            SpanKind::ToolCall => {
                attributes.push(operation(names::operation::TOOL));
                attributes.push(Attribute::text(names::TOOL_NAME, &span.name));
                attributes.push(Attribute::text(names::TOOL_TYPE, names::FUNCTION));
                let call_id: Option<CallId> = suffix(&span.span_id);
                if let Some(id) = call_id.and_then(|it| facts.call_ids.get(&it)) {
                    attributes.push(Attribute::text(names::TOOL_CALL_ID, id));
                }
                attributes.extend(error_type(span));
                (format!("{} {}", names::operation::TOOL, span.name), Kind::Internal)
            }
            // The convention has no names for these. Tokens stand at the call and not again at its
            // attempts, so that a sum counts them once.
            SpanKind::Step | SpanKind::Attempt => (span.name.clone(), Kind::Internal),
            SpanKind::Approval => (format!("approval {}", span.name), Kind::Internal),
            SpanKind::Wait => (format!("wait {}", span.name), Kind::Internal),
        };
        attributes.push(Attribute::text(names::CONVERSATION, self.session_id.to_string()));
        (name, kind, attributes)
    }

    fn say_model_call(&self, span: &Span, attributes: &mut Vec<Attribute>) {
        let Some(step) = suffix::<u32>(&span.span_id) else { return };
        let reply = self.facts.replies.get(&step);
        let failure = self.facts.failures.get(&step);
        if let Some(reply) = reply {
            attributes.push(Attribute::texts(names::FINISH_REASONS, &[reply.finish_reason]));
            attributes.push(Attribute::number(names::INPUT_TOKENS, reply.usage.prompt_tokens));
            attributes.push(Attribute::number(names::OUTPUT_TOKENS, reply.usage.completion_tokens));
            attributes.push(Attribute::number(names::CACHED_TOKENS, reply.usage.cached_tokens));
        }
        let endpoint = reply.map(|it| it.endpoint.as_str()).or(failure.map(|it| it.0.as_str()));
        attributes.extend(endpoint.map(server).unwrap_or_default());
        match failure.filter(|_| span.status == SpanStatus::Error) {
            Some((_, kind)) => attributes.push(Attribute::text(names::ERROR_TYPE, *kind)),
            None => attributes.extend(error_type(span)),
        }
    }
}

/// What we say of every span.
fn ours(span: &Span) -> Vec<Attribute> {
    let mut attributes = vec![
        Attribute::text("stepwell.span.id", &span.span_id),
        Attribute::text("stepwell.span.kind", span.kind.as_str()),
        Attribute::text("stepwell.status", span.status.as_str()),
        Attribute::number("stepwell.first_seq", span.first_seq.0),
        Attribute::number("stepwell.last_seq", span.last_seq.0),
    ];
    if span.kind == SpanKind::Session && !span.name.is_empty() {
        attributes.push(Attribute::text("stepwell.title", short(&span.name)));
    }
    if !span.detail.is_empty() {
        attributes.push(Attribute::text("stepwell.detail", short(&span.detail)));
    }
    attributes
}

/// Host and port of an address.
fn server(endpoint: &str) -> Vec<Attribute> {
    let Ok(url) = reqwest::Url::parse(endpoint) else { return Vec::new() };
    let Some(host) = url.host_str() else { return Vec::new() };
    let mut attributes = vec![Attribute::text(names::SERVER_ADDRESS, host)];
    if let Some(port) = url.port_or_known_default() {
        attributes.push(Attribute::number(names::SERVER_PORT, port.into()));
    }
    attributes
}

fn is_error(status: SpanStatus) -> bool {
    match status {
        SpanStatus::Error
        | SpanStatus::Lost
        | SpanStatus::Denied
        | SpanStatus::Expired
        | SpanStatus::LimitReached => true,
        SpanStatus::Open | SpanStatus::Ok | SpanStatus::Cancelled => false,
    }
}

fn error_type(span: &Span) -> Option<Attribute> {
    is_error(span.status).then(|| Attribute::text(names::ERROR_TYPE, span.status.as_str()))
}

fn status(span: &Span) -> Status {
    if is_error(span.status) { Status::error(short(&span.detail)) } else { Status::default() }
}

fn short(text: &str) -> String {
    prefix(text, ATTRIBUTE_BYTES_MAX).to_owned()
}

/// What stands behind `call:` and its kin.
fn suffix<T: std::str::FromStr>(span_id: &str) -> Option<T> {
    span_id.split_once(':')?.1.parse().ok()
}

/// The trace of a session: always the same, so that a second export adds nothing.
pub(super) fn trace_id(session_id: SessionId) -> [u8; 16] {
    beginning(&format!("stepwell trace\n{session_id}"))
}

/// The same for a span.
pub(super) fn span_id(session_id: SessionId, span_id: &str) -> [u8; 8] {
    beginning(&format!("stepwell span\n{session_id}\n{span_id}"))
}

fn beginning<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn nanos(time: TimestampMs) -> u64 {
    time.0.saturating_mul(1_000_000)
}
