//! The command line: every command, in both forms, its exit codes and its errors.

mod agents;
mod completion;
mod doctor;
mod errors;
mod mock_model;
mod sessions;
mod spans;
mod steering;
mod waiting;

use serde_json::Value;

/// A text of a JSON object; empty when there is none.
fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// A model that looks once and answers.
pub(crate) const LOOKER: &str = r#"
[[step]]
content = "I look."
[[step.tool_calls]]
name = "look"
arguments = { what = "sky" }

[[step]]
content = "It is blue."
"#;

/// A model that wants to pay and then answers.
pub(crate) const PAYER: &str = r#"
[[step]]
content = "I pay."
[[step.tool_calls]]
name = "pay"
arguments = { what = "rent" }

[[step]]
content = "It is paid."
"#;
