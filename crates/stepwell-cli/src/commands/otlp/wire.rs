//! OTLP 1 as JSON: `ExportTraceServiceRequest` of opentelemetry-proto, as far as it is used.
//!
//! Unlike in other JSON of protobuf, ids are hex and enums are numbers; 64-bit numbers are texts.

use serde::{Serialize, Serializer};

use super::convention;

/// A request; also a line of a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    resource_spans: [ResourceSpans; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: [ScopeSpans; 1],
    schema_url: &'static str,
}

#[derive(Debug, Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<Span>,
    schema_url: &'static str,
}

#[derive(Debug, Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

impl Request {
    /// A request with these spans.
    pub(super) fn new(spans: Vec<Span>) -> Self {
        let (name, version) = ("stepwell", env!("CARGO_PKG_VERSION"));
        let attributes = vec![
            Attribute::text("service.name", name),
            Attribute::text("service.version", version),
        ];
        let schema_url = convention::SCHEMA_URL;
        let scope_spans = [ScopeSpans { scope: Scope { name, version }, spans, schema_url }];
        let resource = Resource { attributes };
        Self { resource_spans: [ResourceSpans { resource, scope_spans, schema_url }] }
    }
}

/// A span.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the proto")]
pub(super) struct Span {
    #[serde(serialize_with = "hex")]
    pub(super) trace_id: [u8; 16],
    #[serde(serialize_with = "hex")]
    pub(super) span_id: [u8; 8],
    #[serde(serialize_with = "hex_or_nothing", skip_serializing_if = "Option::is_none")]
    pub(super) parent_span_id: Option<[u8; 8]>,
    pub(super) name: String,
    pub(super) kind: Kind,
    #[serde(serialize_with = "as_text")]
    pub(super) start_time_unix_nano: u64,
    #[serde(serialize_with = "as_text")]
    pub(super) end_time_unix_nano: u64,
    pub(super) attributes: Vec<Attribute>,
    pub(super) status: Status,
}

/// `SpanKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Client = 3,
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

/// `Status`: nothing when it went well, as the convention wants it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Status {
    /// `STATUS_CODE_ERROR`.
    pub(super) fn error(message: String) -> Self {
        Self { code: Some(2), message }
    }
}

/// A named value.
#[derive(Debug, Serialize)]
pub(super) struct Attribute {
    pub(super) key: &'static str,
    value: Value,
}

/// `AnyValue`.
#[derive(Debug, Serialize)]
enum Value {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "intValue", serialize_with = "as_text")]
    Number(u64),
    #[serde(rename = "arrayValue")]
    List { values: Vec<Value> },
}

impl Attribute {
    /// A text.
    pub(super) fn text(key: &'static str, value: impl Into<String>) -> Self {
        Self { key, value: Value::Text(value.into()) }
    }

    /// A number; on the wire it has a sign.
    pub(super) fn number(key: &'static str, value: u64) -> Self {
        Self { key, value: Value::Number(value.min(i64::MAX as u64)) }
    }

    /// A list of texts.
    pub(super) fn texts(key: &'static str, values: &[&str]) -> Self {
        let values = values.iter().map(|it| Value::Text((*it).to_owned())).collect();
        Self { key, value: Value::List { values } }
    }
}

fn hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Into memory: it cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    serializer.serialize_str(&text)
}

#[expect(clippy::ref_option, reason = "how serde calls it")]
fn hex_or_nothing<S: Serializer>(
    bytes: &Option<[u8; 8]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    hex(bytes.as_ref().map_or(&[], |it| it.as_slice()), serializer)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "how serde calls it")]
fn as_text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
