//! The tools that one worker offers, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::tool::{Tool, ToolDescription};

/// The longest tool name that OpenAI-compatible endpoints take.
const NAME_BYTES_MAX: usize = 64;

/// A set of tools with distinct names. Cheap to read, filled once at start.
#[derive(Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Registered>,
}

struct Registered {
    description: ToolDescription,
    tool: Arc<dyn Tool>,
}

/// Why a tool was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// The name is taken.
    #[error("a tool named `{0}` is there already; give one of the two another name")]
    DuplicateName(String),
    /// The name is one that model endpoints refuse.
    #[error("`{0}` is no tool name; use 1 to {NAME_BYTES_MAX} of a-z A-Z 0-9 _ -")]
    InvalidName(String),
    /// A schema is not what it must be.
    #[error("tool `{name}`: its {which} schema is not usable: {reason}")]
    InvalidSchema {
        /// The tool.
        name: String,
        /// Which of its schemas.
        which: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A limit is zero, so the tool could never run.
    #[error("tool `{name}`: {limit} is zero; give it at least 1")]
    ZeroLimit {
        /// The tool.
        name: String,
        /// Which of its limits.
        limit: &'static str,
    },
}

impl Toolbox {
    /// An empty toolbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// Every [`ToolboxError`]; the toolbox is then as before.
    pub fn add(&mut self, tool: impl Tool) -> Result<(), ToolboxError> {
        let description = tool.describe();
        check(&description)?;
        if self.tools.contains_key(&description.name) {
            return Err(ToolboxError::DuplicateName(description.name));
        }
        let name = description.name.clone();
        self.tools.insert(name, Registered { description, tool: Arc::new(tool) });
        Ok(())
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|registered| &registered.tool)
    }

    /// What the tool of this name was registered with.
    pub fn description(&self, name: &str) -> Option<&ToolDescription> {
        self.tools.get(name).map(|registered| &registered.description)
    }

    /// All descriptions, by name.
    pub fn descriptions(&self) -> impl Iterator<Item = &ToolDescription> {
        self.tools.values().map(|registered| &registered.description)
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.tools.keys()).finish()
    }
}

fn check(description: &ToolDescription) -> Result<(), ToolboxError> {
    let ToolDescription { name, parameters, output_schema, timeout, concurrency, .. } = description;
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_name_byte) {
        return Err(ToolboxError::InvalidName(name.clone()));
    }
    let invalid = |which, reason| ToolboxError::InvalidSchema { name: name.clone(), which, reason };
    check_object(parameters, true).map_err(|reason| invalid("parameters", reason))?;
    if let Some(schema) = output_schema {
        check_object(schema, false).map_err(|reason| invalid("output", reason))?;
    }
    let zero = |limit| Err(ToolboxError::ZeroLimit { name: name.clone(), limit });
    if timeout.is_zero() {
        return zero("timeout");
    }
    if *concurrency == 0 {
        return zero("concurrency");
    }
    Ok(())
}

/// Only the outside is looked at: the server checks the schema itself with the validator it uses.
fn check_object(schema: &str, takes_object: bool) -> Result<(), String> {
    let value: serde_json::Value =
        serde_json::from_str(schema).map_err(|error| error.to_string())?;
    let object = value.as_object().ok_or("it is no JSON object")?;
    let kind = object.get("type").and_then(serde_json::Value::as_str);
    if takes_object && kind != Some("object") {
        return Err("its type must be \"object\"".to_owned());
    }
    Ok(())
}
