//! Arguments and results against the JSON Schemas of tools.
//!
//! The verdict on a model's arguments is part of the recorded reply, so a replay depends on no
//! version of the schema library.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use stepwell_core::arguments::{self, Arguments, ArgumentsProblem};
use stepwell_core::event::Repaired;
use stepwell_core::json::read_strict;
use stepwell_core::text::shorten;
use stepwell_core::{Agent, JsonText, Text, ToolSpec};

/// Compiled schemas that are kept. When there are more, all are dropped and compiled again.
const COMPILED_MAX: usize = 1_024;

/// How much of unreadable arguments is quoted back to the model, in bytes.
const QUOTE_BYTES_MAX: usize = 2_048;

/// Problems that are named at once, so that the model can mend them together.
const PROBLEMS_MAX: usize = 5;

static COMPILED: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Checks that `text` is a JSON Schema.
///
/// # Errors
/// What is wrong with it, in words.
pub fn schema(text: &str) -> Result<(), String> {
    compiled(text).map(|_| ())
}

/// Checks arguments that a person wrote for `tool`: one JSON object that fits its schema. Kept byte
/// for byte; an empty text means `{}`.
///
/// # Errors
/// What is wrong and where, in words.
pub fn arguments(tool: &ToolSpec, text: &str) -> Result<JsonText, String> {
    let read = arguments::read_strictly(text).map_err(|problem| quoting(&problem, text))?;
    check(tool.parameters.as_str(), &read.value)?;
    JsonText::parse(&read.text).map_err(|problem| problem.to_string())
}

fn quoting(problem: &ArgumentsProblem, text: &str) -> String {
    format!("{problem}; the arguments were: {}", quote(text))
}

fn quote(text: &str) -> String {
    shorten(text, QUOTE_BYTES_MAX)
}

/// Checks a result that a person vouches for, when the tool declares what results look like.
///
/// # Errors
/// What is wrong and where.
pub fn output(tool: &ToolSpec, text: &str) -> Result<(), String> {
    let Some(schema) = &tool.output_schema else { return Ok(()) };
    let value = read_strict(text.trim()).map_err(|problem| problem.to_string())?;
    check(schema.as_str(), &value)
}

/// The verdict on a call of the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// The arguments that count.
    pub(crate) arguments: String,
    /// What they were, when they were repaired.
    pub(crate) repaired: Option<Repaired>,
    /// What is wrong with them; `None` when the call can run.
    pub(crate) problem: Option<String>,
}

/// Judges a call as the model wrote it: strictly first, then with the repairs that are certain. What a
/// repair makes must fit the tool's schema like everything else. Calls of tools that the agent lacks
/// are judged by the core.
pub(crate) fn judge(agent: &Agent, tool: &str, raw: String, is_cut: bool) -> Judged {
    let Some(tool) = agent.tool(tool) else {
        return Judged { arguments: raw, repaired: None, problem: None };
    };
    let read = arguments::read(&raw, is_cut).map_err(|problem| quoting(&problem, &raw));
    let fits = read.and_then(|read| match check(tool.parameters.as_str(), &read.value) {
        Ok(()) => Ok(read),
        Err(problem) if read.repairs.is_empty() => Err(problem),
        Err(problem) => Err(format!("{problem}; the arguments were: {}", quote(&raw))),
    });
    match fits {
        Ok(Arguments { text, repairs, .. }) if repairs.is_empty() => {
            Judged { arguments: text, repaired: None, problem: None }
        }
        Ok(Arguments { text, repairs, .. }) => {
            let repaired = Repaired { raw: Text::from(raw), repairs };
            Judged { arguments: text, repaired: Some(repaired), problem: None }
        }
        Err(problem) => {
            let problem = format!("the arguments of `{}` cannot be used: {problem}", tool.name);
            Judged { arguments: or_empty_object(raw), repaired: None, problem: Some(problem) }
        }
    }
}

/// Some servers send nothing where `{}` is meant; it fits the schema, or is a problem.
fn or_empty_object(raw: String) -> String {
    if raw.trim().is_empty() { "{}".to_string() } else { raw }
}

/// What is wrong with a call that a person wrote in the model's place; `None` when it can run.
pub(crate) fn problem(agent: &Agent, tool: &str, text: &str) -> Option<String> {
    let tool = agent.tool(tool)?;
    let problem = arguments(tool, text).err()?;
    Some(format!("the arguments of `{}` cannot be used: {problem}", tool.name))
}

/// Checks a value against a JSON Schema.
pub(crate) fn check(schema: &str, value: &serde_json::Value) -> Result<(), String> {
    let validator = compiled(schema)?;
    let mut problems = validator.iter_errors(value).map(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the top level".to_string() } else { place };
        format!("at {place}: {}", shorten(&error.to_string(), QUOTE_BYTES_MAX))
    });
    let named: Vec<String> = problems.by_ref().take(PROBLEMS_MAX).collect();
    if named.is_empty() {
        return Ok(());
    }
    let more = if problems.next().is_some() { "; and more" } else { "" };
    Err(format!("{}{more}", named.join("; ")))
}

fn compiled(schema: &str) -> Result<Arc<Validator>, String> {
    let mut all = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(validator) = all.get(schema) {
        return Ok(validator.clone());
    }
    let value =
        read_strict(schema).map_err(|problem| format!("the schema is no JSON: {problem}"))?;
    let validator = jsonschema::validator_for(&value)
        .map_err(|error| format!("the schema is not a JSON Schema: {error}"))?;
    let validator = Arc::new(validator);
    if all.len() >= COMPILED_MAX {
        all.clear();
    }
    all.insert(schema.to_string(), validator.clone());
    Ok(validator)
}

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> ToolSpec {
        let mut tool = ToolSpec::sleep();
        tool.parameters = JsonText::parse(
            r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#,
        )
        .unwrap();
        tool
    }

    #[test]
    fn good_arguments_are_kept_digit_by_digit() {
        let kept = arguments(&tool(), r#"{"n": 2512292042121000001}"#).unwrap();
        assert_eq!(kept.as_str(), r#"{"n": 2512292042121000001}"#);
    }

    #[test]
    fn bad_arguments_are_named_with_their_place() {
        for (text, says) in [
            (r#"{"n":"#, "ends too early"),
            (r#"{"n":1,"n":2}"#, "stands twice"),
            ("[1]", "must be one JSON object"),
            (r#"{"n":"x"}"#, "at /n"),
            ("", "required"),
        ] {
            let problem = arguments(&tool(), text).unwrap_err();
            assert!(problem.contains(says), "{text}: {problem}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        assert!(schema(r#"{"type":"nonsense"}"#).is_err());
        assert!(schema("{").is_err());
        assert!(schema(r#"{"type":"object"}"#).is_ok());
    }
}
