//! Where an event's content contains a text, whatever the case.

use serde_json::Value;

/// Characters around what was found.
const AROUND_CHARS: usize = 60;

/// Members whose texts are numbers of a machine: who looks for "1a2b" does not mean them.
const SKIPPED: &[&str] = &["prompt_digest", "action_digest", "blob", "wire_id", "seed"];

/// What is looked for.
#[derive(Debug)]
pub(crate) struct Needle {
    /// In lower case.
    text: String,
    /// The same as JSON has it within a string.
    escaped: String,
}

/// A place where it was found, and what is around it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) before: String,
    pub(crate) text: String,
    pub(crate) after: String,
}

impl Needle {
    pub(crate) fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        let escaped = Value::String(text.clone()).to_string();
        let inside = escaped.get(1..escaped.len() - 1).unwrap_or_default().to_owned();
        Self { text, escaped: inside }
    }

    /// The first place in the JSON of a content.
    pub(crate) fn find(&self, json: &str) -> Option<Place> {
        // Most events do not have it, and need not be read. Another writer may escape what ours does
        // not.
        let may_have = if self.escaped.is_ascii() {
            json.to_ascii_lowercase().contains(&self.escaped)
        } else {
            json.to_lowercase().contains(&self.escaped)
        };
        if !may_have && !json.contains("\\u") && !json.contains("\\/") {
            return None;
        }
        self.find_in(&serde_json::from_str(json).ok()?)
    }

    fn find_in(&self, value: &Value) -> Option<Place> {
        match value {
            Value::String(text) => self.place(text),
            Value::Array(items) => items.iter().find_map(|it| self.find_in(it)),
            Value::Object(members) => members
                .iter()
                .filter(|(name, _)| !SKIPPED.contains(&name.as_str()))
                .find_map(|(_, it)| self.find_in(it)),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    fn place(&self, text: &str) -> Option<Place> {
        let lower = text.to_lowercase();
        let begin = lower.find(&self.text)?;
        let end = begin + self.text.len();
        // A character may have another length in lower case.
        let (mut at, mut from, mut to) = (0, text.len(), text.len());
        for (here, char) in text.char_indices() {
            if at <= begin {
                from = here;
            }
            if at >= end {
                to = here;
                break;
            }
            at += char.to_lowercase().map(char::len_utf8).sum::<usize>();
        }
        let part = |range: Option<&str>| range.unwrap_or_default().to_owned();
        let before: String = text.get(..from)?.chars().rev().take(AROUND_CHARS).collect();
        Some(Place {
            before: before.chars().rev().collect(),
            text: part(text.get(from..to)),
            after: text.get(to..)?.chars().take(AROUND_CHARS).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(needle: &str, json: &str) -> Option<(String, String, String)> {
        Needle::new(needle).find(json).map(|it| (it.before, it.text, it.after))
    }

    #[test]
    fn a_text_is_found_in_what_was_said_and_not_in_how_it_is_stored() {
        let json = r#"{"output":"The Month and\nday","n":4,"prompt_digest":"abcd","calls":[{"arguments":"{\"path\":\"a.py\"}"}]}"#;
        for (needle, text) in [
            ("MONTH", Some("Month")),
            ("month and\nday", Some("Month and\nday")),
            ("\"path\":\"a", Some("\"path\":\"a")),
            ("output", None),
            ("abcd", None),
            ("4", None),
        ] {
            let got = found(needle, json);
            assert_eq!(got.as_ref().map(|(_, it, _)| it.as_str()), text, "{needle}");
        }
        assert_eq!(found("month", json), Some(("The ".into(), "Month".into(), " and\nday".into())));
    }

    #[test]
    fn other_alphabets_and_other_writers_are_read_as_ours() {
        for (needle, json, text) in [
            ("ÄRGER", r#"{"a":"viel Ärger"}"#, "Ärger"),
            ("ärger", r#"{"a":"viel \u00c4rger"}"#, "Ärger"),
            ("a/b", r#"{"a":"a\/b"}"#, "a/b"),
            // Two characters in lower case.
            ("i̇x", r#"{"a":"İx!"}"#, "İx"),
            ("x", r#"{"a":"İİx!"}"#, "x"),
        ] {
            let got = found(needle, json).unwrap_or_else(|| panic!("{needle} in {json}"));
            assert_eq!(got.1, text, "{needle}");
        }
        assert_eq!(found("x", "no JSON: x"), None);
    }

    #[test]
    fn what_is_around_it_is_short() {
        let json = format!("{{\"a\":\"{}needle{}\"}}", "ü".repeat(1_000), "ß".repeat(1_000));
        let (before, text, after) = found("needle", &json).unwrap();
        assert_eq!(
            (before.chars().count(), text.as_str(), after.chars().count()),
            (60, "needle", 60)
        );
    }
}
