//! `tools` and `[[tool]]`: what the agent may use.

use std::collections::{BTreeMap, BTreeSet};

use stepwell_core::agent::{ASK_USER, SLEEP};
use stepwell_core::{Effect, JsonText, ToolKind, ToolSpec};
use stepwell_ports::ToolRecord;
use stepwell_runtime::validate;

use super::place::meant_and_all;
use super::reader::{Placed, Section};

/// How long one attempt of a tool may run when nothing is said.
const TIMEOUT_MS_DEFAULT: u64 = 60_000;

/// Longest tool name; model servers refuse longer ones.
const NAME_BYTES_MAX: usize = 64;

/// The tools that an agent can choose from.
#[derive(Debug, Clone)]
pub struct Catalogue {
    tools: BTreeMap<String, ToolSpec>,
}

impl Catalogue {
    /// The engine's own tools and `registered` ones. A registered tool cannot take the name of one
    /// of the engine's.
    pub fn new(registered: impl IntoIterator<Item = ToolSpec>) -> Self {
        let own = [ToolSpec::ask_user(), ToolSpec::sleep()];
        let all = registered.into_iter().chain(own);
        Self { tools: all.map(|tool| (tool.name.clone(), tool)).collect() }
    }

    /// The engine's own tools and those that workers registered. A record that cannot be read is
    /// left out and logged: the worker's next registration mends it.
    pub fn from_records(records: &[ToolRecord]) -> Self {
        Self::new(records.iter().filter_map(|record| {
            serde_json::from_str(&record.spec)
                .inspect_err(|error| {
                    tracing::warn!(tool = record.name, %error, "a registered tool cannot be read");
                })
                .ok()
        }))
    }

    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.get(name)
    }

    /// Every tool, by name.
    pub fn tools(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values()
    }
}

/// Reads the agent's tools, in the order in which the model sees them: those that `tools` names,
/// then definitions of the file that it does not name.
pub(super) fn read(document: &mut Section<'_>, catalogue: &Catalogue) -> Vec<ToolSpec> {
    let names = document.strings("tools").unwrap_or_default();
    let mut defined: BTreeMap<String, ToolSpec> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for section in document.sections("tool") {
        let at = section.at;
        let reader = section.reader();
        let Some(tool) = definition(section) else { continue };
        if defined.contains_key(&tool.name) {
            reader.problem(at, format!("the tool `{}` is defined twice", tool.name));
        }
        order.push(tool.name.clone());
        defined.insert(tool.name.clone(), tool);
    }
    let mut tools = Vec::new();
    let mut seen = BTreeSet::new();
    for name in &names {
        if !seen.insert(name.value.clone()) {
            document.reader().problem(name.at, format!("`{}` stands twice in `tools`", name.value));
            continue;
        }
        match defined.get(&name.value).or_else(|| catalogue.tool(&name.value)) {
            Some(tool) => tools.push(tool.clone()),
            None => document.reader().problem(name.at, unknown(name, &defined, catalogue)),
        }
    }
    let unnamed = order.iter().filter(|name| seen.insert((*name).clone()));
    tools.extend(unnamed.filter_map(|name| defined.get(name).cloned()));
    tools
}

fn unknown(
    name: &Placed<String>,
    defined: &BTreeMap<String, ToolSpec>,
    catalogue: &Catalogue,
) -> String {
    let known: Vec<&str> = defined
        .keys()
        .map(String::as_str)
        .chain(catalogue.tools.keys().map(String::as_str))
        .collect();
    format!(
        "no worker has registered a tool `{}`: {} Start a worker that offers it (stepwell worker), \
         or describe it here with [[tool]]",
        name.value,
        meant_and_all(&name.value, &known)
    )
}

/// Reads one `[[tool]]`: a tool that a worker will offer, described ahead of it.
fn definition(mut section: Section<'_>) -> Option<ToolSpec> {
    let name = name(&mut section);
    let description = section.text("description").map(|it| it.value);
    if description.is_none() && !section.has("description") {
        section.missing("description", "the model chooses tools by it");
    }
    let parameters = schema(&mut section, "parameters", true);
    let output_schema = schema(&mut section, "output_schema", false);
    let effect = effect(&mut section);
    let timeout_ms = section.duration_ms("timeout").unwrap_or(TIMEOUT_MS_DEFAULT);
    section.finish(|key| match key {
        "arguments" | "schema" | "input_schema" => Some("did you mean `parameters`?"),
        _ => None,
    });
    let parameters = parameters.unwrap_or_else(|| {
        let none = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
        JsonText::parse(none).unwrap_or_else(|_| JsonText::empty_object())
    });
    Some(ToolSpec {
        name: name?,
        description: description?,
        parameters,
        output_schema,
        effect,
        timeout_ms,
        kind: ToolKind::Worker,
    })
}

fn name(section: &mut Section<'_>) -> Option<String> {
    let Some(name) = section.text("name") else {
        if !section.has("name") {
            section.missing("name", "what the model calls it by");
        }
        return None;
    };
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if name.value.len() > NAME_BYTES_MAX || !name.value.chars().all(fits) {
        let problem = format!(
            "`{}` is no tool name: use letters, digits, `_` and `-`, at most {NAME_BYTES_MAX}",
            name.value
        );
        section.reader().problem(name.at, problem);
        return None;
    }
    if name.value == ASK_USER || name.value == SLEEP {
        let problem = format!(
            "`{}` is a tool of Stepwell itself: name it in `tools`, and choose another name here",
            name.value
        );
        section.reader().problem(name.at, problem);
        return None;
    }
    Some(name.value)
}

/// Reads a JSON Schema; one for arguments must describe an object.
fn schema(section: &mut Section<'_>, key: &'static str, of_arguments: bool) -> Option<JsonText> {
    let text = section.json(key)?;
    if let Err(problem) = validate::schema(text.value.as_str()) {
        section.reader().problem(text.at, format!("`{key}`: {problem}"));
        return None;
    }
    let value = text.value.to_value();
    if of_arguments && value.get("type").and_then(|it| it.as_str()) != Some("object") {
        let problem = format!("`{key}` must describe an object: give it type = \"object\"");
        section.reader().problem(text.at, problem);
        return None;
    }
    Some(text.value)
}

/// What nobody declared is a write tool: the only safe guess.
fn effect(section: &mut Section<'_>) -> Effect {
    let Some(text) = section.string("effect") else { return Effect::Write };
    match text.value.as_str() {
        "read" => Effect::Read,
        "idempotent" => Effect::Idempotent,
        "write" => Effect::Write,
        other => {
            let problem = format!("`effect` must be read, idempotent or write, not `{other}`");
            section.reader().problem(text.at, problem);
            Effect::Write
        }
    }
}
