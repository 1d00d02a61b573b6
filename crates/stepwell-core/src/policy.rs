//! Approval rules: may a call run, must a person be asked, is it forbidden?

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use crate::agent::{Agent, ApprovalRule, ArgumentPattern, Effect, ToolSpec, Verdict};
use crate::json::canonical;
use crate::marker::{ALL_REDACTED, holds_marker};
use crate::shell;

/// Name of the argument that holds a shell command.
const COMMAND_ARGUMENT: &str = "command";

/// What the rules say about a call, and which rule says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What to do.
    pub verdict: Verdict,
    /// The rule in words, for the person who is asked and for the model that is refused.
    pub rule: String,
}

/// Applies the agent's rules to a call. The first rule that fits decides; without one, write tools
/// ask and all others run.
pub fn rule_on(agent: &Agent, tool: &ToolSpec, arguments: &Value) -> Ruling {
    for (i, rule) in agent.approval_rules.iter().enumerate() {
        if fits(rule, tool, arguments) {
            return by_rule(i, rule);
        }
    }
    by_effect(tool)
}

/// Every ruling that the rules may come to where a marker stands in the arguments or in a rule, for a
/// text that nobody knows any more. One without markers.
pub(crate) fn rulings(agent: &Agent, tool: &ToolSpec, arguments: &Value) -> Vec<Ruling> {
    let mut found = Vec::new();
    for (i, rule) in agent.approval_rules.iter().enumerate() {
        let is_hidden = may_fit(rule, tool, arguments);
        if is_hidden || fits(rule, tool, arguments) {
            found.push(by_rule(i, rule));
            if !is_hidden {
                return found;
            }
        }
    }
    found.push(by_effect(tool));
    found
}

fn by_rule(index: usize, rule: &ApprovalRule) -> Ruling {
    Ruling { verdict: rule.verdict, rule: describe(index + 1, rule) }
}

fn by_effect(tool: &ToolSpec) -> Ruling {
    match tool.effect {
        Effect::Write => Ruling {
            verdict: Verdict::Ask,
            rule: format!("no rule covers the write tool `{}`, so a person is asked", tool.name),
        },
        Effect::Read | Effect::Idempotent => {
            Ruling { verdict: Verdict::Allow, rule: format!("`{}` is no write tool", tool.name) }
        }
    }
}

fn fits(rule: &ApprovalRule, tool: &ToolSpec, arguments: &Value) -> bool {
    matches_pattern(&rule.tool, &tool.name)
        && rule.arguments.iter().all(|condition| fits_condition(rule, condition, arguments))
        && (rule.commands.is_empty() || fits_command(rule, arguments))
}

fn fits_condition(rule: &ApprovalRule, condition: &ArgumentPattern, arguments: &Value) -> bool {
    arguments.get(&condition.name).is_some_and(|value| {
        let text = as_text(value);
        // `docs/*` must not allow `docs/../secrets`.
        let climbs = rule.verdict == Verdict::Allow && climbs(&text);
        matches_pattern(&condition.pattern, &text) && !(climbs && text != condition.pattern)
    })
}

/// Whether a rule fits or not by what a marker hides: every condition that none hides fits.
fn may_fit(rule: &ApprovalRule, tool: &ToolSpec, arguments: &Value) -> bool {
    let hides = |condition: &&ArgumentPattern| {
        holds_marker(&condition.pattern) || hides_argument(arguments, &condition.name)
    };
    let (hidden, known): (Vec<_>, Vec<_>) = rule.arguments.iter().partition(hides);
    let hides_command = !rule.commands.is_empty()
        && (rule.commands.iter().any(|it| holds_marker(it))
            || hides_argument(arguments, COMMAND_ARGUMENT));
    matches_pattern(&rule.tool, &tool.name)
        && (!hidden.is_empty() || hides_command)
        && known.iter().all(|condition| fits_condition(rule, condition, arguments))
        && (rule.commands.is_empty() || hides_command || fits_command(rule, arguments))
}

/// Whether a marker stands for an argument, for a part of it, or for all arguments together.
pub(crate) fn hides_argument(arguments: &Value, name: &str) -> bool {
    let is_marked = |it: &Value| holds_marker(&as_text(it));
    match (arguments.get(name), arguments) {
        (Some(value), _) => is_marked(value),
        (None, Value::Object(members)) => {
            members.len() == 1 && members.get(ALL_REDACTED).is_some_and(is_marked)
        }
        (None, other) => is_marked(other),
    }
}

/// Whether a text, read as a path, leads out of the folders that it names.
fn climbs(text: &str) -> bool {
    text.split(['/', '\\']).any(|part| part == "..")
}

fn fits_command(rule: &ApprovalRule, arguments: &Value) -> bool {
    let Some(Value::String(command)) = arguments.get(COMMAND_ARGUMENT) else {
        return false;
    };
    match rule.verdict {
        Verdict::Allow => shell::is_allowed(command, &rule.commands),
        Verdict::Ask | Verdict::Deny => shell::mentions(command, &rule.commands),
    }
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            canonical(value)
        }
    }
}

fn describe(number: usize, rule: &ApprovalRule) -> String {
    let mut text = format!("rule {number}: {} `{}`", verb(rule.verdict), rule.tool);
    for condition in &rule.arguments {
        text.push_str(" with ");
        text.push_str(&condition.name);
        text.push_str(" = `");
        text.push_str(&condition.pattern);
        text.push('`');
    }
    if !rule.commands.is_empty() {
        text.push_str(" for `");
        text.push_str(&rule.commands.join("`, `"));
        text.push('`');
    }
    text
}

fn verb(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask for",
        Verdict::Deny => "deny",
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any run of characters and everything else
/// for itself. O(pattern × text) at worst.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut rest = rest;
    let mut last: Option<&str> = None;
    for part in parts {
        if let Some(middle) = last {
            match rest.split_once(middle) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        last = Some(part);
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

/// The digest's input for a call whose arguments are no JSON: the text itself.
pub fn arguments_value(text: &str) -> Value {
    crate::json::read_strict(text).unwrap_or_else(|_| Value::String(text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, text, fits) in [
            ("shell", "shell", true),
            ("shell", "shells", false),
            ("*", "", true),
            ("src/*.rs", "src/a/b.rs", true),
            ("src/*.rs", "src/.r", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*bc*c", "a-bc", false),
            ("*ab", "aab", true),
            ("", "x", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), fits, "{pattern} on {text}");
        }
    }
}
