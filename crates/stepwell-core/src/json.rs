//! JSON as text: strict reading, exact keeping, canonical form.
//!
//! Numbers are kept digit by digit, so `2512292042121000001` is never rounded. Duplicate keys are
//! refused, because two readers of such a text may see two different values.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// How deep arguments may nest. Deeper text is refused, so that reading it has a bound.
pub const DEPTH_MAX: usize = 64;

/// A JSON text that was checked to be one value; it is kept byte for byte.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Box<str>);

impl JsonText {
    /// Checks `text` strictly and keeps it as it is, less the white space around it.
    pub fn parse(text: &str) -> Result<Self, JsonProblem> {
        let text = text.trim();
        read_strict(text)?;
        Ok(Self(text.into()))
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// The text of `value`.
    pub fn from_value(value: &Value) -> Self {
        Self(value.to_string().into())
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value. Its numbers keep their digits.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(raw.get().into()))
    }
}

/// Why a text is not accepted as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// The text ends in the middle of a value.
    #[error("the JSON ends too early, at line {line} column {column}")]
    Truncated {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// The text is no JSON.
    #[error("invalid JSON: {reason}")]
    Invalid {
        /// What the reader says, with line and column.
        reason: String,
    },
    /// A key stands twice in one object.
    #[error("the key {key:?} stands twice in one object")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A number that no 64-bit float can hold.
    #[error("the number {number} is out of range")]
    NumberOutOfRange {
        /// The number as written.
        number: String,
    },
    /// Deeper than [`DEPTH_MAX`].
    #[error("nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

/// Reads one JSON value strictly: no duplicate keys, no infinite numbers, bounded depth.
/// Cost: O(bytes × depth).
pub fn read_strict(text: &str) -> Result<Value, JsonProblem> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| problem(text, text, &error))?;
    read_level(text, raw, 0)
}

/// What is wrong with `part`, a piece of `whole`, with its place in `whole`.
fn problem(whole: &str, part: &str, error: &serde_json::Error) -> JsonProblem {
    let begin = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    let before = whole.get(..begin).unwrap_or_default();
    let line = before.matches('\n').count() + error.line();
    let beside = if error.line() == 1 { before.rsplit('\n').next().map_or(0, str::len) } else { 0 };
    let column = beside + error.column();
    if error.is_eof() {
        return JsonProblem::Truncated { line, column };
    }
    let reason = error.to_string();
    if reason.contains("recursion limit") {
        return JsonProblem::TooDeep;
    }
    let words = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(words, _)| words);
    JsonProblem::Invalid { reason: format!("{words} at line {line} column {column}") }
}

fn read_level(whole: &str, raw: &RawValue, depth: usize) -> Result<Value, JsonProblem> {
    if depth > DEPTH_MAX {
        return Err(JsonProblem::TooDeep);
    }
    let text = raw.get();
    let wrong = |error| problem(whole, text, &error);
    match text.trim_start().bytes().next() {
        Some(b'{') => {
            let members: Members<'_> = serde_json::from_str(text).map_err(wrong)?;
            let mut map = serde_json::Map::new();
            for (key, value) in members.0 {
                let value = read_level(whole, value, depth + 1)?;
                if map.insert(key.clone().into_owned(), value).is_some() {
                    return Err(JsonProblem::DuplicateKey { key: key.into_owned() });
                }
            }
            Ok(Value::Object(map))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(wrong)?;
            let values: Result<Vec<_>, _> =
                items.into_iter().map(|item| read_level(whole, item, depth + 1)).collect();
            values.map(Value::Array)
        }
        Some(_) | None => {
            let value: Value = serde_json::from_str(text).map_err(wrong)?;
            if let Value::Number(number) = &value
                && !number.as_f64().is_some_and(f64::is_finite)
            {
                return Err(JsonProblem::NumberOutOfRange { number: number.to_string() });
            }
            Ok(value)
        }
    }
}

/// The members of an object in their order, duplicates included.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((Cow::Owned(key), value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor).map_err(de::Error::custom)
    }
}

/// The canonical form of `value` after RFC 8785 (JSON Canonicalization Scheme), with one difference:
/// integers keep all their digits, so that two different large integers never look the same.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(&number.to_string(), out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            // RFC 8785 orders keys by their UTF-16 code units.
            let sorted: BTreeMap<Vec<u16>, (&String, &Value)> =
                members.iter().map(|it| (it.0.encode_utf16().collect(), it)).collect();
            out.push('{');
            for (i, (key, value)) in sorted.into_values().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
    }
}

fn write_number(digits: &str, out: &mut String) {
    let is_integer = digits.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    match digits.parse::<f64>() {
        Ok(_) if is_integer => out.push_str(if digits == "-0" { "0" } else { digits }),
        Ok(float) if float.is_finite() => {
            out.push_str(ryu_js::Buffer::new().format_finite(float));
        }
        // Not reachable for values read by `read_strict`; kept visible instead of lost.
        Ok(_) | Err(_) => out.push_str(digits),
    }
}

/// Appends `text` as a JSON string, escaped as RFC 8785 and `serde_json` both do it.
pub fn write_string(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    // All that is escaped is ASCII, so a cut there never splits a character.
    while let Some(at) = first_escaped(rest.as_bytes()) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let (escaped, after) = from.split_at(1);
        escaped.chars().for_each(|character| push_escaped(character, out));
        rest = after;
    }
    out.push_str(rest);
    out.push('"');
}

/// Serialises a text. A long one is written by [`write_string`]: `serde_json` looks at every byte for
/// itself, which costs more than anything else when an event is encoded.
pub(crate) fn serialize_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    const LONG: usize = 128;
    if text.len() < LONG {
        return serializer.serialize_str(text);
    }
    let mut json = String::new();
    write_string(text, &mut json);
    let raw: &RawValue = serde_json::from_str(&json).map_err(serde::ser::Error::custom)?;
    raw.serialize(serializer)
}

/// Where the first byte stands that is escaped. Looks at a block at a time without a branch between,
/// which compiles to vector instructions: most text needs no escape.
fn first_escaped(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 32;
    let any_in = |block: &[u8]| block.iter().fold(false, |any, byte| any | is_escaped(*byte));
    let clean = bytes.chunks_exact(BLOCK).take_while(|block| !any_in(block)).count() * BLOCK;
    let rest = bytes.get(clean..)?;
    rest.iter().position(|byte| is_escaped(*byte)).map(|at| clean + at)
}

fn is_escaped(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

fn push_escaped(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        control => {
            out.push_str("\\u00");
            for digit in [u32::from(control) >> 4, u32::from(control) & 0xf] {
                out.push(char::from_digit(digit, 16).unwrap_or('0'));
            }
        }
    }
}

/// BLAKE3 of the exact action: tool name and canonical arguments. 64 hex digits.
pub fn action_digest(tool: &str, arguments: &Value) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tool.as_bytes());
    hasher.update(&[0]);
    hasher.update(canonical(arguments).as_bytes());
    hasher.finalize().to_hex().as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form_sorts_keys_and_keeps_large_integers_apart() {
        let value = read_strict(r#"{"b": 1.0, "a": [1e3, 9007199254740993, "\u20ac\n"]}"#).unwrap();
        assert_eq!(canonical(&value), "{\"a\":[1000,9007199254740993,\"€\\n\"],\"b\":1}");
    }

    #[test]
    fn strings_are_escaped_wherever_the_character_stands() {
        for at in 0..70 {
            for special in ['"', '\\', '\n', '\u{1}', 'ä', '\u{7f}', '\u{2028}'] {
                let mut text = "x".repeat(at);
                text.push(special);
                text.push_str(&"y".repeat(40));
                let mut out = String::new();
                write_string(&text, &mut out);
                assert_eq!(out, serde_json::to_string(&text).unwrap());
            }
        }
    }

    #[test]
    fn long_texts_are_serialised_as_serde_json_does_it() {
        for special in ["", "\"", "\\", "\n\u{1}", "ä\u{2028}"] {
            let text = alloc::format!("{}{special}{}", "x".repeat(200), "y".repeat(40));
            let whole = crate::text::Text::from(text.as_str());
            assert_eq!(
                serde_json::to_string(&whole).unwrap(),
                serde_json::to_string(&text).unwrap()
            );
            assert_eq!(serde_json::to_value(&whole).unwrap(), Value::String(text));
        }
    }

    #[test]
    fn strict_reading_refuses_what_two_readers_could_see_differently() {
        assert!(matches!(
            read_strict(r#"{"a":1,"b":{"a":1,"a":2}}"#),
            Err(JsonProblem::DuplicateKey { .. })
        ));
        assert!(matches!(read_strict(r#"{"a":"#), Err(JsonProblem::Truncated { .. })));
        assert!(matches!(read_strict("1e400"), Err(JsonProblem::NumberOutOfRange { .. })));
        assert!(matches!(read_strict(r#"{"a":1} {"b":2}"#), Err(JsonProblem::Invalid { .. })));
        assert!(matches!(read_strict(r#"{"a":NaN}"#), Err(JsonProblem::Invalid { .. })));
        let deep = alloc::format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(read_strict(&deep), Err(JsonProblem::TooDeep));
    }

    /// Wherever the slip stands, its place is told as it stands in the whole text.
    #[test]
    fn a_slip_in_a_nested_text_is_told_with_its_place_in_the_whole() {
        for (text, place) in [
            (r#"{"path":"a","content":"\ud800x"}"#, "line 1 column 30"),
            ("{\"a\":[1,\n  {\"b\":\"\\ud800x\"}]}", "line 2 column 15"),
            ("{\n \"a\":\n\"\\ud800x\"}", "line 3 column 8"),
        ] {
            let problem = read_strict(text).unwrap_err().to_string();
            assert!(problem.ends_with(place), "{text}: {problem}");
        }
    }

    #[test]
    fn a_json_text_is_kept_byte_for_byte() {
        let text = JsonText::parse(r#" {"n": 2512292042121000001,  "x":1.50} "#).unwrap();
        let stored = serde_json::to_string(&text).unwrap();
        assert_eq!(stored, r#"{"n": 2512292042121000001,  "x":1.50}"#);
        assert_eq!(serde_json::from_str::<JsonText>(&stored).unwrap(), text);
    }
}
