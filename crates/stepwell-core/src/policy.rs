//! Approval rules: may a call run, must a person be asked, is it forbidden?

use alloc::format;
use alloc::string::{String, ToString};

use serde_json::Value;

use crate::agent::{Agent, ApprovalRule, Effect, ToolSpec, Verdict};
use crate::json::canonical;
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
            return Ruling { verdict: rule.verdict, rule: describe(i + 1, rule) };
        }
    }
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
        && rule.arguments.iter().all(|condition| {
            arguments.get(&condition.name).is_some_and(|value| {
                let text = as_text(value);
                // `docs/*` must not allow `docs/../secrets`.
                let climbs = rule.verdict == Verdict::Allow && climbs(&text);
                matches_pattern(&condition.pattern, &text) && !(climbs && text != condition.pattern)
            })
        })
        && (rule.commands.is_empty() || fits_command(rule, arguments))
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
