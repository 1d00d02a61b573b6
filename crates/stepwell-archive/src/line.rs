//! The lines of a file.
//!
//! Each line begins with `{"line":"NAME"`, so that its kind is known before it is read whole.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use stepwell_core::SessionId;

/// What the header calls the format.
pub const FORMAT: &str = "stepwell-session";

/// The version of the format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub(crate) line: String,
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Release that wrote the file.
    pub release: String,
    /// The session.
    pub session_id: SessionId,
    /// When it was exported, in milliseconds since 1970; of a fixture, when the session last moved.
    pub exported_at_ms: u64,
    /// How many events follow, when the writer knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Only what replay needs: whole outputs beside shortened ones are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixture: bool,
    /// Some texts were replaced by markers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

impl Header {
    /// A header of this version.
    pub fn new(session_id: SessionId, release: &str, exported_at_ms: u64) -> Self {
        Self {
            line: "header".to_owned(),
            format: FORMAT.to_owned(),
            version: VERSION,
            release: release.to_owned(),
            session_id,
            exported_at_ms,
            events: None,
            fixture: false,
            redacted: false,
        }
    }
}

/// What is read of a header before anything else: a newer version may have other fields.
#[derive(Debug, Deserialize)]
pub(crate) struct AnyHeader {
    pub(crate) format: String,
    pub(crate) version: u32,
}

/// A payload that the next event needs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlobLine<'a> {
    #[serde(borrow)]
    pub(crate) line: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) blob: Cow<'a, str>,
    /// Stands before the payload, so that a reader can refuse it first.
    pub(crate) bytes: u64,
    /// The payload, when it is UTF-8 and not mostly escapes.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<Cow<'a, str>>,
    /// The payload otherwise.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) hex: Option<Cow<'a, str>>,
}

/// An event as it is stored, and its hash.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventLine<'a> {
    #[serde(borrow)]
    pub(crate) line: Cow<'a, str>,
    pub(crate) seq: u64,
    pub(crate) time_ms: u64,
    pub(crate) cause: u64,
    #[serde(borrow)]
    pub(crate) actor: Cow<'a, str>,
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    pub(crate) schema: u16,
    /// A string that holds JSON: its bytes are what is hashed, so no tool may reformat it.
    #[serde(borrow)]
    pub(crate) body: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) chain: Cow<'a, str>,
    /// Fields whose text was removed, whole or in part, as JSON pointers into the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redacted: Vec<String>,
}

/// The last line but one: a file that was cut has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub(crate) line: String,
    /// How many events there were.
    pub events: u64,
    /// Hash of the last one.
    pub head: String,
    /// Hash of the last one before redaction: what an anchor of the session holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_head: Option<String>,
}

/// The last line: BLAKE3 of all bytes before it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seal {
    pub(crate) line: String,
    pub(crate) blake3: String,
}

/// The kinds of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    Header,
    Blob,
    Event,
    End,
    Seal,
}

/// Every line begins so.
const FRONT: &[u8] = b"{\"line\":\"";

impl LineKind {
    /// The kind of a line by its first bytes.
    pub(crate) fn of(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(FRONT)?;
        let end = rest.iter().position(|it| *it == b'"')?;
        match rest.get(..end)? {
            b"header" => Some(Self::Header),
            b"blob" => Some(Self::Blob),
            b"event" => Some(Self::Event),
            b"end" => Some(Self::End),
            b"seal" => Some(Self::Seal),
            _ => None,
        }
    }
}

/// The size that a blob line declares, read from its first bytes.
pub(crate) fn declared_bytes(line: &[u8]) -> Option<u64> {
    const MARK: &[u8] = b"\",\"bytes\":";
    let at = line.windows(MARK.len()).position(|it| it == MARK)?;
    let digits = line.get(at + MARK.len()..)?;
    let end = digits.iter().position(|it| !it.is_ascii_digit())?;
    str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_its_kind_and_size_early() {
        let line = br#"{"line":"blob","blob":"00","bytes":17,"text":"aaa"#;
        assert_eq!(LineKind::of(line), Some(LineKind::Blob));
        assert_eq!(declared_bytes(line), Some(17));
        assert_eq!(LineKind::of(br#"{"line":"else"}"#), None);
        assert_eq!(declared_bytes(br#"{"line":"blob","blob":"00","bytes":17"#), None);
    }
}
