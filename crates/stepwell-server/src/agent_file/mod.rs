//! Agent definitions: TOML text to [`stepwell_core::Agent`]. `docs/agents.md` describes the format.
//!
//! Invariant: a definition is read the same way whoever hands it in, and what cannot be meant is
//! refused with line, column and what to do; nothing in it is ignored.

mod duration;
mod json;
mod model;
mod output;
#[cfg(test)]
mod output_tests;
mod place;
mod reader;
mod rules;
#[cfg(test)]
mod tests;
mod tools;

use stepwell_core::agent::{Limits, ModelSpec, RetryPolicy};
use stepwell_core::{Agent, ToolSpec};
use toml::de::DeTable;

pub use duration::{DURATION_MS_MAX, read as read_duration_ms};
pub use model::check_url;
pub use output::notes;
pub use place::{AgentFileError, Problem};
pub use tools::Catalogue;

pub(crate) use place::meant_and_all;

use reader::{Placed, Reader, Section};
use rules::Approval;

/// Largest definition, in bytes: it is copied into each of its sessions.
pub const DEFINITION_BYTES_MAX: usize = 1024 * 1024;

/// Longest name of an agent, in bytes: it stands in lists and addresses.
pub const AGENT_NAME_BYTES_MAX: usize = 128;

/// Least of a tool result that the model is shown, in bytes: below that no error message fits.
const OBSERVATION_BYTES_MIN: u32 = 256;

/// An action that is repeated once is no loop yet.
const REPEAT_COUNT_MIN: u32 = 2;

/// What the server adds to definitions that do not name a model or its address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelDefaults {
    /// Name of the model (`STEPWELL_MODEL`).
    pub name: Option<String>,
    /// Address of its server (`STEPWELL_MODEL_URL`).
    pub base_url: Option<String>,
    /// Addresses of further servers of the same model.
    pub replicas: Vec<String>,
    /// Name of the environment variable with the key for that address.
    pub api_key_env: Option<String>,
}

/// Reads a definition. The agent's version is 0; whoever stores it gives it one.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(
    text: &str,
    catalogue: &Catalogue,
    defaults: &ModelDefaults,
) -> Result<Agent, AgentFileError> {
    let reader = Reader::new(text);
    if text.len() > DEFINITION_BYTES_MAX {
        let problem = format!("it has {} bytes, at most {DEFINITION_BYTES_MAX}", text.len());
        reader.problem(0, problem);
        return reader.finish(None);
    }
    let table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            reader.problem(at, format!("this is no TOML: {}", error.message().replace('\n', ", ")));
            return reader.finish(None);
        }
    };
    let agent = read_agent(Section::document(&reader, &table), catalogue, defaults);
    reader.finish(agent)
}

/// The name that a definition gives its agent, when it gives one at all. For messages and lists.
pub fn name_of(text: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    table.get_ref().get("name").and_then(|it| it.get_ref().as_str()).map(str::to_owned)
}

fn read_agent(
    mut document: Section<'_>,
    catalogue: &Catalogue,
    defaults: &ModelDefaults,
) -> Option<Agent> {
    let name = name(&mut document);
    let instructions = document.text("instructions").map(|it| it.value);
    if instructions.is_none() && !document.has("instructions") {
        document.missing("instructions", "what the agent is and how it works (the system prompt)");
    }
    let interactive = document.flag("interactive").unwrap_or(false);
    let tools: Vec<ToolSpec> = tools::read(&mut document, catalogue);
    let (model, written) = model::read(&mut document, defaults);
    let output = output::read(&mut document, written, &tools);
    if let Some(model) = &model {
        output::check_parameters(&document, &output, &model.parameters);
    }
    let limits = limits(&mut document);
    let Approval { rules, expires_after_ms } = rules::read(&mut document, &tools);
    let retry = retry(&mut document);
    if let Some(model) = &model {
        check_fallbacks(&document, model, &retry);
    }
    document.finish(|key| match key {
        "system" | "system_prompt" | "prompt" => Some("did you mean `instructions`?"),
        "approvals" => Some("did you mean [approval]?"),
        "timeouts" => Some("did you mean [model.timeouts]?"),
        "response_format" | "structured_outputs" => Some("did you mean [answer]?"),
        "parameters" | "base_url" | "tool_choice" => Some("it belongs into [model]"),
        _ => None,
    });
    Some(Agent {
        name: name?,
        version: 0,
        instructions: instructions?,
        model: model?,
        tools,
        limits,
        approval_rules: rules,
        approval_expires_after_ms: expires_after_ms,
        interactive,
        retry,
        output,
    })
}

fn name(document: &mut Section<'_>) -> Option<String> {
    let Some(Placed { value, at }) = document.text("name") else {
        if !document.has("name") {
            document.missing("name", "what the agent is called, for example \"fixer\"");
        }
        return None;
    };
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.');
    if value.len() > AGENT_NAME_BYTES_MAX || !value.chars().all(fits) {
        let problem = format!(
            "`name` must be letters, digits, `_`, `-` and `.`, at most {AGENT_NAME_BYTES_MAX}"
        );
        document.reader().problem(at, problem);
        return None;
    }
    Some(value)
}

fn limits(document: &mut Section<'_>) -> Limits {
    let default = Limits::default();
    let mut section = document.section("limits");
    let limits = Limits {
        steps_max: section.small_number("steps", 1).unwrap_or(default.steps_max),
        deadline_ms: section.duration_ms("deadline").or(default.deadline_ms),
        tokens_max: section.number("tokens", 1..=u64::MAX).or(default.tokens_max),
        repeat_window: section.small_number("repeat_window", 0).unwrap_or(default.repeat_window),
        repeat_count: section
            .small_number("repeat_count", REPEAT_COUNT_MIN)
            .unwrap_or(default.repeat_count),
        tool_attempts_max: section
            .small_number("tool_attempts", 1)
            .unwrap_or(default.tool_attempts_max),
        unusable_replies_max: section
            .small_number("unusable_replies", 0)
            .unwrap_or(default.unusable_replies_max),
        observation_bytes_max: section
            .small_number("observation_bytes", OBSERVATION_BYTES_MIN)
            .unwrap_or(default.observation_bytes_max),
    };
    if limits.repeat_window > 0 && limits.repeat_count > limits.repeat_window {
        let is_written = section.has("repeat_count");
        let key = if is_written { "repeat_count" } else { "repeat_window" };
        let problem = format!(
            "an action cannot stand {} times among the last {}: make `repeat_window` larger, or 0 \
             to switch the check off",
            limits.repeat_count, limits.repeat_window
        );
        section.reader().problem(section.place_of(key), problem);
    }
    section.finish(|key| match key {
        "timeout" => Some("did you mean `deadline`?"),
        _ => None,
    });
    limits
}

/// A fallback whose turn never comes would be thought to be there.
fn check_fallbacks(document: &Section<'_>, model: &ModelSpec, retry: &RetryPolicy) {
    let before: u64 = model.fallbacks.iter().map(|it| u64::from(it.after_attempts)).sum();
    if before >= u64::from(retry.attempts_max) {
        let problem = format!(
            "the last [[model.fallback]] is asked after {before} attempts, and [retry] ends after \
             {}: make `attempts` of [retry] larger or `after` smaller",
            retry.attempts_max
        );
        document.reader().problem(document.place_of("model"), problem);
    }
}

fn retry(document: &mut Section<'_>) -> RetryPolicy {
    let default = RetryPolicy::default();
    let mut section = document.section("retry");
    let attempts_max = section.small_number("attempts", 1).unwrap_or(default.attempts_max);
    let base_ms = section.duration_ms("base");
    let cap_ms = section.duration_ms("cap");
    if let (Some(base_ms), Some(cap_ms)) = (base_ms, cap_ms)
        && base_ms > cap_ms
    {
        section.reader().problem(section.place_of("cap"), "`cap` is shorter than `base`");
    }
    section.finish(|_| None);
    let base_ms = base_ms.unwrap_or(default.base_ms);
    // A longer first wait alone means: never wait less.
    let cap_ms = cap_ms.unwrap_or(default.cap_ms.max(base_ms));
    RetryPolicy { attempts_max, base_ms: base_ms.min(cap_ms), cap_ms }
}
