//! Arguments and results against the JSON Schemas of tools.
//!
//! The verdict on a model's arguments is part of the recorded reply, so a replay depends on no
//! version of the schema library.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use stepwell_core::json::read_strict;
use stepwell_core::text::shorten;
use stepwell_core::{Agent, JsonText, ToolSpec};

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

/// Checks arguments for `tool`: one JSON object that fits its schema. Kept byte for byte; an empty
/// text means `{}`.
///
/// # Errors
/// What is wrong and where, in words for the model.
pub fn arguments(tool: &ToolSpec, text: &str) -> Result<JsonText, String> {
    let text = or_empty_object(text);
    check_arguments(tool, text)?;
    JsonText::parse(text).map_err(|problem| problem.to_string())
}

fn or_empty_object(text: &str) -> &str {
    if text.trim().is_empty() { "{}" } else { text }
}

fn check_arguments(tool: &ToolSpec, text: &str) -> Result<(), String> {
    let quoted = |problem: String| {
        format!("{problem}; the arguments were: {}", shorten(text, QUOTE_BYTES_MAX))
    };
    let value = read_strict(text.trim()).map_err(|problem| quoted(problem.to_string()))?;
    if !value.is_object() {
        return Err(quoted("the arguments must be one JSON object".to_string()));
    }
    check(tool.parameters.as_str(), &value)
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

/// What is wrong with a call as the model wrote it; `None` when it can run. Calls of tools that the
/// agent lacks are judged by the core.
pub(crate) fn problem(agent: &Agent, tool: &str, text: &str) -> Option<String> {
    let tool = agent.tool(tool)?;
    let problem = check_arguments(tool, or_empty_object(text)).err()?;
    Some(format!("the arguments of `{}` cannot be used: {problem}", tool.name))
}

fn check(schema: &str, value: &serde_json::Value) -> Result<(), String> {
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
