//! The arguments of a tool call as a model writes them: read strictly, and repaired only where the
//! meaning is certain.
//!
//! The reading happens at the edge and its outcome is recorded with the reply, so a replay never
//! repairs again.
//!
//! Invariant: what a strict reader accepts is never touched; a repair takes away what stands around or
//! between the model's own bytes, or adds the one bracket that is missing at their end, and nothing
//! else.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{JsonProblem, read_strict};

/// What was done to arguments that are no JSON as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// A code fence around them was taken away.
    CodeFence,
    /// Commas with nothing behind them were taken away.
    TrailingComma,
    /// The bracket that ends them was added.
    MissingBracket,
}

impl Repair {
    /// The stored name, for example `code_fence`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CodeFence => "code_fence",
            Self::TrailingComma => "trailing_comma",
            Self::MissingBracket => "missing_bracket",
        }
    }
}

/// Arguments that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    /// The text that counts: the model's own, byte for byte, or a repaired one.
    pub text: String,
    /// What it says.
    pub value: Value,
    /// What was done to the model's text, in this order; empty when nothing was.
    pub repairs: Vec<Repair>,
}

/// Why arguments cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsProblem {
    /// They are no JSON, or two readers could see two values in them.
    #[error("{0}")]
    Json(#[from] JsonProblem),
    /// They are JSON, and no object.
    #[error("the arguments must be one JSON object")]
    NotAnObject,
}

/// Reads arguments as they stand. No text at all means `{}`, which some servers leave out.
///
/// # Errors
/// What is wrong with them.
pub fn read_strictly(raw: &str) -> Result<Arguments, ArgumentsProblem> {
    let text = if raw.trim().is_empty() { "{}" } else { raw };
    match read_strict(text.trim())? {
        value @ Value::Object(_) => {
            Ok(Arguments { text: text.to_string(), value, repairs: Vec::new() })
        }
        _ => Err(ArgumentsProblem::NotAnObject),
    }
}

/// Reads the arguments that a model wrote, and repairs what is surely meant. `is_cut` when the model
/// did not come to its end: nobody can tell then what is missing.
///
/// # Errors
/// What is wrong with them as they were written.
pub fn read(raw: &str, is_cut: bool) -> Result<Arguments, ArgumentsProblem> {
    let problem = match read_strictly(raw) {
        Err(ArgumentsProblem::Json(problem)) => problem,
        read => return read,
    };
    let repaired = match &problem {
        JsonProblem::Truncated { .. } if is_cut => None,
        JsonProblem::Truncated { .. } => with_bracket(raw.trim()),
        JsonProblem::Invalid { .. } => without_wrapping(raw.trim()),
        // JSON, but not to be trusted: nothing to repair.
        JsonProblem::DuplicateKey { .. }
        | JsonProblem::NumberOutOfRange { .. }
        | JsonProblem::TooDeep => None,
    };
    repaired
        .and_then(|(text, repairs)| Some(Arguments { repairs, ..read_strictly(&text).ok()? }))
        .ok_or_else(|| problem.into())
}

type Repaired = Option<(String, Vec<Repair>)>;

/// Without the code fence around it, without the commas that lead nowhere.
fn without_wrapping(text: &str) -> Repaired {
    let mut repairs = Vec::new();
    let inner = match inside_fence(text) {
        Some(inner) => {
            repairs.push(Repair::CodeFence);
            inner
        }
        None => text,
    };
    let plain = without_trailing_commas(inner);
    if plain.len() < inner.len() {
        repairs.push(Repair::TrailingComma);
    }
    (!repairs.is_empty()).then_some((plain, repairs))
}

const FENCE: &str = "```";

/// What stands in a fence that begins and ends with the text and is marked as JSON or as nothing.
fn inside_fence(text: &str) -> Option<&str> {
    let inner = text.strip_prefix(FENCE)?.strip_suffix(FENCE)?;
    let unmarked = match inner.get(..4) {
        Some(mark) if mark.eq_ignore_ascii_case("json") => inner.get(4..)?,
        Some(_) | None => inner,
    };
    let value = unmarked.trim();
    value.starts_with('{').then_some(value)
}

/// Without each comma that stands between a value and a closing bracket.
fn without_trailing_commas(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    // Where in `kept` a comma stands that may lead nowhere.
    let mut comma = None;
    let mut before = None;
    let mut scan = Scan::default();
    for character in text.chars() {
        let in_string = scan.in_string;
        scan.take(character);
        if !in_string && !character.is_ascii_whitespace() {
            if let ('}' | ']', Some(at)) = (character, comma) {
                kept.remove(at);
            }
            let ends_value = !matches!(before, None | Some('{' | '[' | ',' | ':'));
            comma = (character == ',' && ends_value).then_some(kept.len());
            before = Some(character);
        }
        kept.push(character);
    }
    kept
}

/// With the one bracket that the object lacks, when everything in it is whole. A number at the end may
/// lack digits, and after a comma or colon more was meant.
fn with_bracket(text: &str) -> Repaired {
    let mut scan = Scan::default();
    text.chars().for_each(|character| scan.take(character));
    let is_whole = !scan.in_string
        && (text.ends_with(['"', '}', ']'])
            || ["true", "false", "null"].iter().any(|word| text.ends_with(word)));
    if !is_whole || scan.depth != 1 || !text.starts_with('{') {
        return None;
    }
    let mut closed = text.to_string();
    closed.push('}');
    Some((closed, vec![Repair::MissingBracket]))
}

/// Where in a JSON text a character stands. Knows only strings and brackets; whether the whole is JSON
/// says the strict reader.
#[derive(Default)]
struct Scan {
    in_string: bool,
    is_escaped: bool,
    depth: usize,
}

impl Scan {
    fn take(&mut self, character: char) {
        if self.in_string {
            if self.is_escaped {
                self.is_escaped = false;
            } else if character == '\\' {
                self.is_escaped = true;
            } else if character == '"' {
                self.in_string = false;
            }
            return;
        }
        match character {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn repaired(raw: &str, text: &str, repairs: &[Repair]) {
        let read = read(raw, false).unwrap();
        assert_eq!((read.text.as_str(), read.repairs.as_slice()), (text, repairs), "{raw}");
    }

    #[track_caller]
    fn refused(raw: &str) {
        assert!(read(raw, false).is_err(), "{raw}");
    }

    #[test]
    fn what_can_be_read_is_kept_byte_for_byte() {
        for raw in [r#"{"a":",}"}"#, " {\"n\": 2512292042121000001 }\n", r#"{"a":"```"}"#] {
            repaired(raw, raw, &[]);
        }
        repaired("", "{}", &[]);
        repaired(" \n", "{}", &[]);
    }

    #[test]
    fn a_fence_around_is_taken_away() {
        for raw in [
            "```json\n{\"a\": 1}\n```",
            "```\n{\"a\": 1}```",
            "```JSON {\"a\": 1} ```\n",
            "\n```{\"a\": 1}```",
        ] {
            repaired(raw, r#"{"a": 1}"#, &[Repair::CodeFence]);
        }
        for raw in ["```python\n{\"a\":1}\n```", "```json\n{\"a\":1}", "Here:\n```\n{\"a\":1}\n```"]
        {
            refused(raw);
        }
    }

    #[test]
    fn commas_that_lead_nowhere_are_taken_away() {
        repaired("{\"a\":[1,2,],\n}", "{\"a\":[1,2]\n}", &[Repair::TrailingComma]);
        repaired("{\"a\":\",]\" , }", "{\"a\":\",]\"  }", &[Repair::TrailingComma]);
        repaired(
            "```\n{\"a\":{},}\n```",
            r#"{"a":{}}"#,
            &[Repair::CodeFence, Repair::TrailingComma],
        );
        for raw in [r#"{"a":[1,,]}"#, "{,}", r#"{"a":[,]}"#, r#"{"a":,}"#, r#"{"a":1},"#] {
            refused(raw);
        }
    }

    #[test]
    fn the_one_missing_bracket_is_added_where_nothing_else_can_be_missing() {
        for raw in
            [r#"{"a":"x""#, r#"{"a":[1]"#, r#"{"a":{"b":true}"#, r#"{"a":null"#, " {\"a\":[]\n"]
        {
            repaired(raw, &alloc::format!("{}}}", raw.trim()), &[Repair::MissingBracket]);
        }
        for raw in [
            r#"{"a":1"#,
            r#"{"a":"x"#,
            r#"{"a":"x\""#,
            r#"{"a":tru"#,
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":"x","#,
            r#"{"a":["x""#,
            r#"{"a":{"b":"x""#,
            r#"{"a":"x",]"#,
            "{",
            "[\"a\"",
        ] {
            refused(raw);
        }
    }

    #[test]
    fn nothing_is_added_to_what_was_cut() {
        assert!(read(r#"{"a":"x""#, true).is_err());
        assert!(read("```\n{\"a\":1}\n```", true).is_ok(), "both of its ends are there");
    }

    #[test]
    fn json_that_is_no_object_or_says_two_things_is_no_case_for_repair() {
        for raw in ["[]", "\"{}\"", "1", "null"] {
            assert_eq!(read(raw, false), Err(ArgumentsProblem::NotAnObject), "{raw}");
        }
        refused(r#"{"a":1,"a":2,}"#);
        refused("{\"a\":1}}");
        refused("{\"a\":1}{\"a\":2}");
    }
}
