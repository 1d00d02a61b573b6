//! Checks what a worker says about itself before anything of it is believed.
//!
//! Invariant: pure. What passes here can be stored, shown to a model and dispatched to.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use stepwell_core::agent::{ASK_USER, SLEEP};
use stepwell_core::json::read_strict;
use stepwell_core::{CallId, Effect, JsonText, SessionId, ToolKind, ToolSpec};
use stepwell_proto::v1::{HeldCall, Hello, ToolOffer};
use tonic::Status;

use super::options::{
    CONCURRENCY_MAX, DESCRIPTION_BYTES_MAX, EMBEDDED_NAME, HELD_MAX, INSTANCE_BYTES_MAX,
    NAME_BYTES_MAX, SCHEMA_BYTES_MAX, TIMEOUT_MS_MAX, TOOL_NAME_BYTES_MAX, TOOLS_MAX,
};

/// One attempt of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CallKey {
    pub(super) session_id: SessionId,
    pub(super) call_id: CallId,
    pub(super) attempt: u32,
}

impl CallKey {
    /// Reads the key as it stands in a message.
    pub(super) fn parse(session_id: &str, call_id: &str, attempt: u32) -> Option<Self> {
        Some(Self { session_id: session_id.parse().ok()?, call_id: call_id.parse().ok()?, attempt })
    }
}

/// A worker that may join.
#[derive(Debug, Clone)]
pub(super) struct Registration {
    pub(super) name: String,
    pub(super) instance: String,
    pub(super) tools: Vec<Offered>,
    pub(super) capacity: u32,
    /// Calls that it brings back, with the fence that it knows.
    pub(super) held: HashMap<CallKey, u64>,
}

/// A tool that a worker offers.
#[derive(Debug, Clone)]
pub(super) struct Offered {
    pub(super) spec: ToolSpec,
    /// Calls of this tool at the same time; 0 for no limit of its own.
    pub(super) concurrency: u32,
}

/// Why a worker is not let in. The text goes to the worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum HelloProblem {
    #[error("{shown:?} is no worker name: use 1 to {NAME_BYTES_MAX} letters, digits, - _ .")]
    Name { shown: String },
    #[error("the name {EMBEDDED_NAME:?} belongs to the worker inside the server: choose another")]
    NameOfEmbedded,
    #[error("{shown:?} is no instance: use 1 to {INSTANCE_BYTES_MAX} letters, digits, - _ .")]
    Instance { shown: String },
    #[error("concurrency is {given}: it must be from 1 to {CONCURRENCY_MAX}")]
    Concurrency { given: u32 },
    #[error("{given} {what} are more than the {most} that one worker may have")]
    TooMany { what: &'static str, given: usize, most: usize },
    #[error("held call {at}: {shown:?} names no session, call and attempt")]
    Held { at: usize, shown: String },
    #[error("tool {tool:?}: {problem}")]
    Tool { tool: String, problem: ToolProblem },
}

/// What is wrong with a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ToolProblem {
    #[error("no model API takes this name: use 1 to {TOOL_NAME_BYTES_MAX} letters, digits, - _")]
    Name,
    #[error("the engine itself has a tool of this name: choose another")]
    NameOfEngine,
    #[error("the name is there twice")]
    Twice,
    #[error("its {what} has {given} bytes, more than {most}")]
    TooLong { what: &'static str, given: usize, most: usize },
    #[error("its {which} schema is no JSON Schema: {problem}")]
    Schema { which: &'static str, problem: String },
    #[error("its effect is {shown:?}: write \"read\", \"idempotent\" or \"write\"")]
    Effect { shown: String },
    #[error("its time limit is {given} ms: it must be from 1 to {TIMEOUT_MS_MAX}")]
    Timeout { given: u64 },
}

impl From<HelloProblem> for Status {
    fn from(problem: HelloProblem) -> Self {
        Self::invalid_argument(problem.to_string())
    }
}

/// Text of a stranger in an error: enough to recognise it.
fn shown(text: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let mut short: String = text.chars().take(SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Checks a whole hello. Cost: each schema is compiled once.
///
/// # Errors
/// The first [`HelloProblem`].
pub(super) fn check(
    hello: Hello,
    embedded_instance: Option<&str>,
) -> Result<Registration, HelloProblem> {
    let Hello { name, instance, tools, concurrency, held } = hello;
    if !is_label(&name, NAME_BYTES_MAX) {
        return Err(HelloProblem::Name { shown: shown(&name) });
    }
    if !is_label(&instance, INSTANCE_BYTES_MAX) {
        return Err(HelloProblem::Instance { shown: shown(&instance) });
    }
    if name == EMBEDDED_NAME && embedded_instance != Some(instance.as_str()) {
        return Err(HelloProblem::NameOfEmbedded);
    }
    if !(1..=CONCURRENCY_MAX).contains(&concurrency) {
        return Err(HelloProblem::Concurrency { given: concurrency });
    }
    at_most("tools", tools.len(), TOOLS_MAX)?;
    at_most("held calls", held.len(), HELD_MAX)?;
    Ok(Registration {
        name,
        instance,
        tools: check_tools(tools)?,
        capacity: concurrency,
        held: check_held(&held)?,
    })
}

fn at_most(what: &'static str, given: usize, most: usize) -> Result<(), HelloProblem> {
    if given > most { Err(HelloProblem::TooMany { what, given, most }) } else { Ok(()) }
}

fn is_label(text: &str, bytes_max: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= bytes_max && text.bytes().all(fits)
}

fn check_held(held: &[HeldCall]) -> Result<HashMap<CallKey, u64>, HelloProblem> {
    let mut calls = HashMap::with_capacity(held.len());
    for (at, call) in held.iter().enumerate() {
        let HeldCall { session_id, call_id, attempt, fence } = call;
        let key = CallKey::parse(session_id, call_id, *attempt).ok_or_else(|| {
            HelloProblem::Held { at, shown: shown(&format!("{session_id}/{call_id}/{attempt}")) }
        })?;
        calls.insert(key, *fence);
    }
    Ok(calls)
}

fn check_tools(tools: Vec<ToolOffer>) -> Result<Vec<Offered>, HelloProblem> {
    let mut names = BTreeSet::new();
    let mut offered = Vec::with_capacity(tools.len());
    for tool in tools {
        let name = tool.name.clone();
        let checked =
            if names.insert(name.clone()) { check_tool(tool) } else { Err(ToolProblem::Twice) };
        offered
            .push(checked.map_err(|problem| HelloProblem::Tool { tool: shown(&name), problem })?);
    }
    Ok(offered)
}

fn check_tool(tool: ToolOffer) -> Result<Offered, ToolProblem> {
    let ToolOffer { name, description, parameters, output_schema, effect, timeout_ms, concurrency } =
        tool;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || name.len() > TOOL_NAME_BYTES_MAX || !name.bytes().all(fits) {
        return Err(ToolProblem::Name);
    }
    if name == ASK_USER || name == SLEEP {
        return Err(ToolProblem::NameOfEngine);
    }
    if description.len() > DESCRIPTION_BYTES_MAX {
        let (given, most) = (description.len(), DESCRIPTION_BYTES_MAX);
        return Err(ToolProblem::TooLong { what: "description", given, most });
    }
    if !(1..=TIMEOUT_MS_MAX).contains(&timeout_ms) {
        return Err(ToolProblem::Timeout { given: timeout_ms });
    }
    let effect = parse_effect(&effect)?;
    let parameters = check_schema("parameters", &parameters, true)?;
    let output_schema = if output_schema.is_empty() {
        None
    } else {
        Some(check_schema("output", &output_schema, false)?)
    };
    let kind = ToolKind::Worker;
    let spec = ToolSpec { name, description, parameters, output_schema, effect, timeout_ms, kind };
    Ok(Offered { spec, concurrency })
}

fn parse_effect(text: &str) -> Result<Effect, ToolProblem> {
    match text {
        "read" => Ok(Effect::Read),
        "idempotent" => Ok(Effect::Idempotent),
        // What nobody declared may do anything.
        "write" | "" => Ok(Effect::Write),
        _ => Err(ToolProblem::Effect { shown: shown(text) }),
    }
}

fn check_schema(
    which: &'static str,
    text: &str,
    takes_object: bool,
) -> Result<JsonText, ToolProblem> {
    let refuse = |problem: String| ToolProblem::Schema { which, problem: shown_long(&problem) };
    if text.len() > SCHEMA_BYTES_MAX {
        let (given, most) = (text.len(), SCHEMA_BYTES_MAX);
        return Err(ToolProblem::TooLong { what: "schema", given, most });
    }
    let value = read_strict(text).map_err(|problem| refuse(problem.to_string()))?;
    let Some(members) = value.as_object() else {
        return Err(refuse("it must be a JSON object".to_owned()));
    };
    if takes_object && members.get("type").and_then(Value::as_str) != Some("object") {
        return Err(refuse("its \"type\" must be \"object\"".to_owned()));
    }
    // The validator checks the schema against its meta-schema, compiles it, and follows no link out
    // of it: the features that fetch are not compiled in.
    jsonschema::validator_for(&value).map_err(|problem| {
        let place = problem.instance_path().to_string();
        let place = if place.is_empty() { "the top".to_owned() } else { place };
        refuse(format!("at {place}: {problem}"))
    })?;
    JsonText::parse(text).map_err(|problem| refuse(problem.to_string()))
}

/// A schema's problem quotes the schema, which can be large.
fn shown_long(text: &str) -> String {
    const SHOWN_CHARS: usize = 500;
    text.chars().take(SHOWN_CHARS).collect()
}
