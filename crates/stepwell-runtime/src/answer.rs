//! A model's answer against the form that its agent asks for.
//!
//! Like the verdict on arguments, the one on an answer is recorded with the reply.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;
use stepwell_core::json::read_strict;
use stepwell_core::output::AnswerForm;
use stepwell_core::text::shorten;

use crate::validate;

/// Compiled expressions that are kept. When there are more, all are dropped and compiled again.
const COMPILED_MAX: usize = 256;

/// Largest program of a compiled expression, in bytes.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// How much of the form stands in what the model is told, in bytes.
const FORM_BYTES_MAX: usize = 8 * 1024;

static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);

/// Checks that an expression can be used: without looking around and back references, which neither
/// grammar engines nor this check know.
///
/// # Errors
/// What is wrong with it, in words.
pub fn regex(text: &str) -> Result<(), String> {
    compiled(text).map(drop)
}

/// What the model is told of an answer that does not have the form; `None` when it has.
pub(crate) fn problem(form: &AnswerForm, content: &str) -> Option<String> {
    let (wrong, must_be) = match form {
        AnswerForm::Schema { schema, .. } => {
            let must_be =
                format!("JSON that fits this schema, and nothing else: {}", schema.as_str());
            (fits_schema(schema.as_str(), content).err()?, must_be)
        }
        AnswerForm::Regex(regex) => {
            let matches = compiled(regex).is_ok_and(|it| it.is_match(content));
            let wrong = (!matches).then(|| "it does not match".to_owned())?;
            (wrong, format!("text that matches this regular expression from begin to end: {regex}"))
        }
        AnswerForm::Choice(choices) => {
            let is_one = choices.iter().any(|choice| choice == content);
            let wrong = (!is_one).then(|| "it is none of them".to_owned())?;
            (wrong, format!("exactly one of these, and nothing else: {}", choices.join(" | ")))
        }
        // The notation is the server's, and so is the check.
        AnswerForm::Grammar(_) => return None,
    };
    let must_be = shorten(&must_be, FORM_BYTES_MAX);
    Some(format!("The answer cannot be used: {wrong}. Answer again. It must be {must_be}"))
}

fn fits_schema(schema: &str, content: &str) -> Result<(), String> {
    let value = read_strict(content.trim()).map_err(|problem| problem.to_string())?;
    validate::check(schema, &value)
}

fn compiled(text: &str) -> Result<Regex, String> {
    let mut all = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = all.get(text) {
        return Ok(regex.clone());
    }
    let regex = regex::RegexBuilder::new(&format!("^(?:{text})$"))
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| format!("it cannot be used: {error}"))?;
    if all.len() >= COMPILED_MAX {
        all.clear();
    }
    all.insert(text.to_owned(), regex.clone());
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use stepwell_core::JsonText;

    use super::*;

    #[track_caller]
    fn check(form: &AnswerForm, fits: &[&str], fits_not: &[(&str, &str)]) {
        for content in fits {
            assert_eq!(problem(form, content), None, "{content}");
        }
        for (content, says) in fits_not {
            let problem = problem(form, content).unwrap();
            assert!(problem.contains(says), "{content}: {problem}");
        }
    }

    #[test]
    fn an_answer_fits_its_schema_or_is_told_why_and_what_it_must_be() {
        let schema =
            r#"{"type":"object","properties":{"passed":{"type":"boolean"}},"required":["passed"]}"#;
        let form = AnswerForm::Schema { schema: JsonText::parse(schema).unwrap(), relaxed: None };
        check(
            &form,
            &[r#"{"passed":true}"#, "\n{\"passed\": false}\n"],
            &[
                (r#"{"passed":"true"}"#, "at /passed"),
                ("yes", "invalid JSON"),
                (r#"{"passed":true,"passed":false}"#, "stands twice"),
                (r#"{"passed":"#, schema),
            ],
        );
    }

    #[test]
    fn an_expression_is_for_the_whole_answer() {
        let form = AnswerForm::Regex(r"a|(\d{1,3}\.){3}\d{1,3}".into());
        check(&form, &["192.168.1.1", "a"], &[("ab", "begin to end"), ("192.168.1.1\n", "match")]);
        assert!(regex("(?=a)b").is_err() && regex("([").is_err() && regex("a+").is_ok());
    }

    #[test]
    fn a_choice_is_exact() {
        let form = AnswerForm::Choice(vec!["yes".into(), "no".into()]);
        check(&form, &["yes", "no"], &[("Yes", "yes | no"), ("", "one of these")]);
    }
}
