//! How the model's output is bound: strict tools, whether it must call one, the form of its answer.
//!
//! What a server is asked for here it may not be able to do, and some ignore it without a word. So all
//! of it is checked here as well, and a server that does not hold to it is noticed at its first answer.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::json::{JsonText, write_string};
use crate::state::SessionState;

/// How an agent's model is bound. The default binds nothing, as it was before there was a choice.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPolicy {
    /// Tools are sent with `strict`: the server's grammar engine binds their arguments.
    #[serde(default)]
    pub strict_tools: bool,
    /// Schemas of tools that grammar engines do not accept as they are, by tool.
    #[serde(default)]
    pub relaxed: BTreeMap<String, RelaxedSchema>,
    /// Whether the model must call a tool.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The form of an answer without calls.
    #[serde(default)]
    pub answer: Option<AnswerForm>,
    /// What follows when the server does not hold to it.
    #[serde(default)]
    pub when_ignored: WhenIgnored,
}

impl OutputPolicy {
    /// Whether nothing is bound.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A schema as grammar engines accept it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelaxedSchema {
    /// What is sent in the place of the true one, which is checked here.
    pub schema: JsonText,
    /// What it lacks, as JSON pointers into the true one.
    pub dropped: Vec<String>,
}

/// Whether the model must call a tool. What must be called is asked for until the model has called
/// something since the last word of a person; then it may answer.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It must call one.
    Required,
    /// It may not.
    None,
    /// It must call this one.
    Tool(String),
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// JSON that fits a schema.
    Schema {
        /// The schema.
        schema: JsonText,
        /// What is sent in its place, when grammar engines do not accept it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        relaxed: Option<RelaxedSchema>,
    },
    /// Text that matches a regular expression from its begin to its end.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Text of a grammar, in the server's notation. Only the server can check it.
    Grammar(String),
}

/// What follows when the server does not hold to what it was asked for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenIgnored {
    /// The model is told what is wrong and asked again.
    #[default]
    GoOn,
    /// The session fails.
    Fail,
}

/// What the next request, or the one that runs, asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding<'a> {
    policy: &'a OutputPolicy,
    has_tools: bool,
    /// The model must call a tool.
    pub(crate) must_call: bool,
    /// The server is asked for the form of the answer. Beside tools that is done only after an answer
    /// that did not fit, because it binds calls as well.
    pub(crate) binds_answer: bool,
}

/// What a session asks for now.
pub(crate) fn binding<'a>(state: &SessionState, agent: &'a Agent) -> Binding<'a> {
    let policy = &agent.output;
    let may_call = !agent.tools.is_empty() && policy.tool_choice != ToolChoice::None;
    let is_required = match policy.tool_choice {
        ToolChoice::Auto | ToolChoice::None => false,
        ToolChoice::Required | ToolChoice::Tool(_) => true,
    };
    Binding {
        policy,
        has_tools: !agent.tools.is_empty(),
        must_call: may_call && is_required && !state.called_since_message,
        binds_answer: policy.answer.is_some() && (!may_call || state.answer_did_not_fit),
    }
}

/// Stands before the reason in what the model is told of a call that `tool_choice` does not allow.
pub(crate) const NOT_ASKED: &str = "this call was not run, because ";

impl Binding<'_> {
    /// What the model is told of a call of `tool` that was not asked for and must not run.
    pub(crate) fn forbids(&self, tool: &str) -> Option<String> {
        match &self.policy.tool_choice {
            ToolChoice::None => {
                Some(format!("{NOT_ASKED}no tool may be called here; answer without one"))
            }
            ToolChoice::Tool(name) if self.must_call && name != tool => {
                Some(format!("{NOT_ASKED}`{name}` must be called first"))
            }
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::Tool(_) => None,
        }
    }

    /// The policy's `tool_choice`, as the agent file has it.
    pub(crate) fn choice(&self) -> &str {
        match &self.policy.tool_choice {
            ToolChoice::Auto => "auto",
            ToolChoice::Required => "required",
            ToolChoice::None => "none",
            ToolChoice::Tool(name) => name,
        }
    }

    /// Whether answers have a form.
    pub(crate) fn has_form(&self) -> bool {
        self.policy.answer.is_some()
    }

    /// The members of the request that ask for it, each with a comma in front. They stand behind the
    /// messages, so that a change of theirs leaves the prefix as it is.
    pub(crate) fn members(&self) -> String {
        let mut members = String::new();
        if let Some(choice) = self.tool_choice() {
            members.push_str(",\"tool_choice\":");
            members.push_str(&choice);
        }
        if let Some(form) = self.policy.answer.as_ref().filter(|_| self.binds_answer) {
            write_form(form, &mut members);
        }
        members
    }

    fn tool_choice(&self) -> Option<String> {
        if !self.has_tools {
            // Servers refuse a choice among nothing.
            return None;
        }
        match &self.policy.tool_choice {
            ToolChoice::Required if self.must_call => Some("\"required\"".to_string()),
            ToolChoice::Tool(name) if self.must_call => {
                let mut choice = String::from("{\"type\":\"function\",\"function\":{\"name\":");
                write_string(name, &mut choice);
                choice.push_str("}}");
                Some(choice)
            }
            ToolChoice::None => Some("\"none\"".to_string()),
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::Tool(_) => {
                self.binds_answer.then(|| "\"none\"".to_string())
            }
        }
    }
}

/// `response_format` is what all servers know for a schema; the rest is vLLM's `structured_outputs`.
fn write_form(form: &AnswerForm, out: &mut String) {
    let text = |member: &str, text: &str| {
        let mut value = format!(",\"structured_outputs\":{{\"{member}\":");
        write_string(text, &mut value);
        value.push('}');
        value
    };
    match form {
        AnswerForm::Schema { schema, relaxed } => {
            let sent = relaxed.as_ref().map_or(schema, |it| &it.schema);
            out.push_str(
                ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"strict\":true,\"schema\":",
            );
            out.push_str(sent.as_str());
            out.push_str("}}");
        }
        AnswerForm::Regex(regex) => out.push_str(&text("regex", regex)),
        AnswerForm::Grammar(grammar) => out.push_str(&text("grammar", grammar)),
        AnswerForm::Choice(choices) => {
            out.push_str(",\"structured_outputs\":{\"choice\":[");
            for (i, choice) in choices.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(choice, out);
            }
            out.push_str("]}");
        }
    }
}
