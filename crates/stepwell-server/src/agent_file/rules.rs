//! `[approval]`: who must be asked before what.
//!
//! A rule that can never fit is refused: in a rule that denies, a typo is a hole.

use serde_json::Value;
use stepwell_core::ToolSpec;
use stepwell_core::agent::{ApprovalRule, ArgumentPattern, Verdict};
use stepwell_core::policy::matches_pattern;

use super::place::meant;
use super::reader::{Placed, Section};

/// The argument that holds a shell command.
const COMMAND: &str = "command";

/// What `[approval]` says.
#[derive(Debug, Default)]
pub(super) struct Approval {
    /// The rules, in order.
    pub(super) rules: Vec<ApprovalRule>,
    /// How long a question stays open.
    pub(super) expires_after_ms: Option<u64>,
}

/// Reads `[approval]` of an agent with these tools.
pub(super) fn read(document: &mut Section<'_>, tools: &[ToolSpec]) -> Approval {
    let mut section = document.section("approval");
    let expires_after_ms = section.duration_ms("expires_after");
    let rules = section.sections("rules");
    section.finish(|key| match key {
        "rule" => Some("write [[approval.rules]]"),
        _ => None,
    });
    let rules = rules.into_iter().filter_map(|rule| read_rule(rule, tools)).collect();
    Approval { rules, expires_after_ms }
}

fn read_rule(mut section: Section<'_>, tools: &[ToolSpec]) -> Option<ApprovalRule> {
    let tool = section.text("tool");
    let arguments = arguments(&mut section);
    let commands = commands(&mut section);
    let verdict = verdict(&mut section);
    if tool.is_none() && !section.has("tool") {
        section.missing("tool", "a tool's name; `*` stands for any run of characters");
    }
    let covered = tool.as_ref().map(|tool| covered(&section, tool, tools));
    if let Some(covered) = covered.filter(|it| !it.is_empty()) {
        for (pattern, at) in arguments.iter().flatten() {
            expect_argument(&section, &covered, &pattern.name, *at);
        }
        if commands.as_ref().is_some_and(|it| !it.is_empty()) {
            expect_argument(&section, &covered, COMMAND, section.place_of("commands"));
        }
    }
    section.finish(|key| match key {
        "action" | "decision" | "effect" => Some("did you mean `verdict`?"),
        "command" => Some("did you mean `commands`?"),
        "args" => Some("did you mean `arguments`?"),
        _ => None,
    });
    Some(ApprovalRule {
        tool: tool?.value,
        arguments: arguments?.into_iter().map(|(pattern, _)| pattern).collect(),
        commands: commands?,
        verdict: verdict?,
    })
}

/// The agent's tools that the rule is about.
fn covered<'t>(
    section: &Section<'_>,
    pattern: &Placed<String>,
    tools: &'t [ToolSpec],
) -> Vec<&'t ToolSpec> {
    let covered: Vec<&ToolSpec> =
        tools.iter().filter(|tool| matches_pattern(&pattern.value, &tool.name)).collect();
    if covered.is_empty() {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let problem = format!(
            "this rule never fits, the agent has no tool `{}`: {}",
            pattern.value,
            meant(&pattern.value, &names)
        );
        section.reader().problem(pattern.at, problem);
    }
    covered
}

/// Refuses a condition on an argument that none of the tools can have.
fn expect_argument(section: &Section<'_>, tools: &[&ToolSpec], name: &str, at: usize) {
    let mut known = Vec::new();
    for tool in tools {
        let schema = tool.parameters.to_value();
        // Only a schema that lists its properties and closes the list rules a name out.
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        if properties.contains_key(name) || !is_closed {
            return;
        }
        known.extend(properties.keys().cloned());
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let advice = meant(name, &known);
    let problem = format!("this rule never fits, no such tool has an argument `{name}`: {advice}");
    section.reader().problem(at, problem);
}

/// Patterns and their places.
fn arguments(section: &mut Section<'_>) -> Option<Vec<(ArgumentPattern, usize)>> {
    let Some(entries) = section.entries("arguments") else {
        // What is there and no table was noted as a problem.
        return Some(Vec::new());
    };
    let mut patterns = Vec::new();
    let mut is_good = true;
    for (name, value) in entries {
        if let Some(pattern) = value.get_ref().as_str() {
            let (name, pattern) = (name.value.to_owned(), pattern.to_owned());
            patterns.push((ArgumentPattern { name, pattern }, value.span().start));
        } else {
            is_good = false;
            let problem = format!(
                "the pattern for `{}` must be a string; `*` stands for any run of characters, \
                 numbers and such are written as in JSON",
                name.value
            );
            section.reader().problem(value.span().start, problem);
        }
    }
    is_good.then_some(patterns)
}

fn commands(section: &mut Section<'_>) -> Option<Vec<String>> {
    let Some(commands) = section.strings("commands") else { return Some(Vec::new()) };
    if commands.is_empty() {
        let at = section.place_of("commands");
        section.reader().problem(at, "`commands` names none: leave it out to fit every command");
        return None;
    }
    if let Some(empty) = commands.iter().find(|it| it.value.trim().is_empty()) {
        section.reader().problem(empty.at, "an empty command fits nothing: leave it out");
        return None;
    }
    Some(commands.into_iter().map(|it| it.value).collect())
}

fn verdict(section: &mut Section<'_>) -> Option<Verdict> {
    let Some(text) = section.string("verdict") else {
        if !section.has("verdict") {
            section.missing("verdict", "\"allow\", \"ask\" or \"deny\"");
        }
        return None;
    };
    match text.value.as_str() {
        "allow" => Some(Verdict::Allow),
        "ask" => Some(Verdict::Ask),
        "deny" => Some(Verdict::Deny),
        other => {
            let problem = format!("`verdict` must be allow, ask or deny, not `{other}`");
            section.reader().problem(text.at, problem);
            None
        }
    }
}
