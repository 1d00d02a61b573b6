//! Markers: what stands in a record where a text was taken out.
//!
//! A marker tells the length and the hash of what was there, so two texts can be compared around it,
//! and a text that nobody took out can be compared with the marker itself.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use memchr::memchr_iter;
use serde_json::Value;

use crate::codec::encode;
use crate::event::EventBody;

/// What a marker begins with.
pub const MARKER_FRONT: &str = "[redacted ";

/// The one member of an object that stands in the place of a whole JSON text.
pub const ALL_REDACTED: &str = "redacted";

/// Longest name of a rule in a marker.
pub const RULE_NAME_MAX: usize = 40;

/// What stands where a text was: its rule, length and hash.
pub fn marker(rule: &str, removed: &[u8]) -> String {
    let (bytes, digest) = (removed.len(), blake3::hash(removed).to_hex());
    format!("{MARKER_FRONT}{rule} bytes:{bytes} blake3:{digest}]")
}

/// A marker in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker<'a> {
    /// Where it stands, in bytes.
    pub range: Range<usize>,
    /// The rule that took the text out.
    pub rule: &'a str,
    bytes: usize,
    digest: &'a str,
}

/// The markers of a text, in order.
pub fn markers(text: &str) -> impl Iterator<Item = Marker<'_>> {
    fronts(text).filter_map(|start| {
        let words = text.get(start + MARKER_FRONT.len()..)?.split(']').next()?;
        let (rule, rest) = words.split_once(" bytes:")?;
        let (bytes, digest) = rest.split_once(" blake3:")?;
        let bytes = bytes.parse().ok()?;
        let end = start + MARKER_FRONT.len() + words.len() + 1;
        let is_whole = is_rule_name(rule) && is_digest(digest) && end <= text.len();
        is_whole.then_some(Marker { range: start..end, rule, bytes, digest })
    })
}

/// Where a marker may begin. Replay searches every text of a history, mostly in vain, and so pays for
/// nothing but the search of one byte.
fn fronts(text: &str) -> impl Iterator<Item = usize> {
    let is_front =
        |start: &usize| text.get(*start..).is_some_and(|it| it.starts_with(MARKER_FRONT));
    memchr_iter(b'[', text.as_bytes()).filter(is_front)
}

/// Whether a marker stands in a text: it is not the original one, wherever it lies by now.
pub fn holds_marker(text: &str) -> bool {
    markers(text).next().is_some()
}

/// Whether a rule may have this name: it must leave markers, and JSON around them, readable.
pub fn is_rule_name(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    !name.is_empty() && name.len() <= RULE_NAME_MAX && name.chars().all(is_plain)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Whether two events say the same, as far as that can be told where markers stand in their texts.
/// Where no marker stands they are the same.
pub(crate) fn agree(ours: &EventBody, theirs: &EventBody) -> bool {
    let value = |body| encode(body).ok().and_then(|it| serde_json::from_str::<Value>(&it).ok());
    ours.kind() == theirs.kind()
        && value(ours).zip(value(theirs)).is_some_and(|(a, b)| values_agree(&a, &b))
}

fn values_agree(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::String(ours), Value::String(theirs)) => texts_agree(ours, theirs),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| values_agree(a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let agrees = |(key, ours): (&String, &Value)| {
                theirs.get(key).is_some_and(|theirs| values_agree(ours, theirs))
            };
            ours.len() == theirs.len() && ours.iter().all(agrees)
        }
        (ours, theirs) => ours == theirs,
    }
}

fn texts_agree(ours: &str, theirs: &str) -> bool {
    match (holds_marker(ours), holds_marker(theirs)) {
        (false, false) => ours == theirs,
        (false, true) => is_of(theirs, ours),
        (true, false) => is_of(ours, theirs),
        (true, true) => {
            ours == theirs
                || (original_len(ours) == original_len(theirs) && ends_agree(ours, theirs))
        }
    }
}

/// Whether arguments, perhaps JSON, are `whole` with texts taken out: lengths and hashes tell it for
/// sure, so what only may have been the same is another one.
pub fn are_of(marked: &str, whole: &str) -> bool {
    if !holds_marker(marked) || holds_marker(whole) {
        return false;
    }
    let read = |text| serde_json::from_str::<Value>(text).ok();
    let (Some(hidden), Some(known)) = (read(marked), read(whole)) else {
        return is_of(marked, whole);
    };
    match hidden.get(ALL_REDACTED).filter(|_| hidden.as_object().is_some_and(|it| it.len() == 1)) {
        Some(Value::String(all)) if is_of(all, whole) => true,
        Some(_) | None => values_agree(&hidden, &known),
    }
}

/// Whether two texts say the same, as far as markers in one of them tell it for sure.
pub fn is_one_of(a: &str, b: &str) -> bool {
    match (holds_marker(a), holds_marker(b)) {
        (true, false) => is_of(a, b),
        (false, true) => is_of(b, a),
        (true, true) | (false, false) => a == b,
    }
}

/// Whether `marked` is `whole` with pieces taken out: lengths and hashes tell it for sure.
fn is_of(marked: &str, whole: &str) -> bool {
    let (mut done, mut rest) = (0, whole);
    for Marker { range, bytes, digest, .. } in markers(marked) {
        let before = marked.get(done..range.start).unwrap_or_default();
        let after = rest.strip_prefix(before).and_then(|it| it.split_at_checked(bytes));
        let Some((removed, after)) = after else { return false };
        if blake3::hash(removed.as_bytes()).to_hex().as_str() != digest {
            return false;
        }
        (done, rest) = (range.end, after);
    }
    marked.get(done..) == Some(rest)
}

/// How long a text was before it lost something.
fn original_len(text: &str) -> Option<usize> {
    let original = |len: usize, Marker { range, bytes, .. }: Marker<'_>| {
        len.checked_sub(range.len())?.checked_add(bytes)
    };
    markers(text).try_fold(text.len(), original)
}

/// Two texts that both lost something are compared in front of the first marker and behind the last.
fn ends_agree(ours: &str, theirs: &str) -> bool {
    let ends = |text: &'_ str| {
        let first = markers(text).next().map_or(0, |it| it.range.start);
        let last = markers(text).last().map_or(text.len(), |it| it.range.end);
        (first, text.len() - last)
    };
    let ((front, back), (their_front, their_back)) = (ends(ours), ends(theirs));
    let (front, back) = (front.min(their_front), back.min(their_back));
    let (ours, theirs) = (ours.as_bytes(), theirs.as_bytes());
    ours.get(..front) == theirs.get(..front)
        && ours.get(ours.len() - back..) == theirs.get(theirs.len() - back..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_known_wherever_it_lies() {
        let marked = marker("api_key", b"sk-1");
        let nested = format!("[redacted x] [redacted {{\"a\":\"{marked}\"}}");
        for text in [&marked, &nested] {
            assert_eq!(markers(text).count(), 1, "{text}");
        }
        for text in
            ["", "[redacted ", "[redacted x bytes:1 blake3:0]", "[redacted x bytes:y blake3:z]"]
        {
            assert!(!holds_marker(text), "{text}");
        }
        assert!(!holds_marker(marked.trim_end_matches(']')), "cut off");
    }

    #[test]
    fn arguments_are_known_by_what_their_markers_tell() {
        let (key, all) = (marker("key", b"abc"), marker("field", br#"{"a":"abc"}"#));
        for (marked, whole, is_known) in [
            (format!(r#"{{"a":"{key}","n":1}}"#), r#"{"a":"abc","n":1}"#, true),
            (format!(r#"{{"a":"{key}","n":1}}"#), r#"{"a":"abd","n":1}"#, false),
            (format!(r#"{{"a":"{key}","n":1}}"#), r#"{"a":"abc","n":2}"#, false),
            (format!(r#"{{"redacted":"{all}"}}"#), r#"{"a":"abc"}"#, true),
            (format!(r#"{{"redacted":"{all}"}}"#), r#"{"a":"abd"}"#, false),
            (format!("no JSON {key}"), "no JSON abc", true),
            (r#"{"a":1}"#.into(), r#"{"a":1}"#, false),
        ] {
            assert_eq!(are_of(&marked, whole), is_known, "{marked} and {whole}");
        }
        assert!(is_one_of("abc", &key) && is_one_of(&key, "abc") && !is_one_of(&key, "abd"));
    }

    #[test]
    fn texts_are_compared_around_markers_and_by_what_these_tell() {
        let key = marker("key", b"abc");
        let other = marker("word", b"abc, then");
        for (ours, theirs, same) in [
            ("say abc, then go".into(), format!("say {key}, then go"), true),
            ("say abd, then go".into(), format!("say {key}, then go"), false),
            ("say abc, then stop".into(), format!("say {key}, then go"), false),
            ("say abc".into(), format!("say {key}, then go"), false),
            (format!("say {key}, then go"), format!("say {other} go"), true),
            (format!("say {key}, then go"), marker("field", b"say xyz, then go"), true),
            (format!("say {key}, then go"), marker("field", b"say xyz"), false),
            (format!("say {key}, then go"), format!("say {}", marker("w", b"abc, then")), false),
            (format!("say {key}, then go"), format!("say {other} stop"), false),
            (format!("tell {key}, then go"), format!("say {other} go"), false),
            ("ü".into(), format!("{}ü", marker("key", b"")), true),
            ("ü".into(), format!("{}ü", marker("key", b"x")), false),
        ] {
            assert_eq!(texts_agree(&ours, &theirs), same, "{ours} and {theirs}");
            assert_eq!(texts_agree(&theirs, &ours), same, "{theirs} and {ours}");
        }
    }
}
