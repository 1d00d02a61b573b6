//! Requests to fork, checked.

use stepwell_core::event::ToolOutcome;
use stepwell_core::{Actor, CallId, Seq, Text};
use stepwell_proto::v1;
use stepwell_runtime::Change;

use crate::agent_file::check_url;

use super::incoming::{AgentChoice, agent_choice, client_key, person, workspace};
use super::{
    BadField, NAME_BYTES_MAX, TEXT_BYTES_MAX, TITLE_BYTES_MAX, digest, expect_short, line,
};

/// Changes of one fork.
const CHANGES_MAX: usize = 100;

/// A fork that a client wants.
#[derive(Debug)]
pub(crate) struct Forking {
    pub(crate) session: String,
    pub(crate) at: Option<Seq>,
    pub(crate) changes: Vec<Change>,
    /// Another definition as a whole.
    pub(crate) agent: Option<AgentChoice>,
    /// Single things of it.
    pub(crate) model: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) workspace: String,
    pub(crate) paused: bool,
    pub(crate) dry_run: bool,
    pub(crate) client_key: Option<String>,
    pub(crate) request_digest: String,
    pub(crate) by: Actor,
}

impl TryFrom<v1::ForkSessionRequest> for Forking {
    type Error = BadField;

    fn try_from(request: v1::ForkSessionRequest) -> Result<Self, BadField> {
        let request_digest = digest::of_fork(&request);
        let names_agent = !request.agent.is_empty() || !request.agent_definition.is_empty();
        let agent = if names_agent {
            let version = request.agent_version;
            Some(agent_choice(request.agent, version, request.agent_definition)?)
        } else {
            None
        };
        if request.changes.len() > CHANGES_MAX {
            let problem = format!("are {}, at most {CHANGES_MAX}", request.changes.len());
            return Err(BadField::new("changes", problem));
        }
        let changes: Result<Vec<_>, _> =
            request.changes.into_iter().enumerate().map(|(i, it)| change(i, it)).collect();
        expect_short("instructions", &request.instructions, TEXT_BYTES_MAX)?;
        let given = |text: String| (!text.is_empty()).then_some(text);
        let model = given(line("model", request.model, NAME_BYTES_MAX)?);
        let instructions = given(request.instructions);
        expect_words("model", model.as_deref())?;
        expect_words("instructions", instructions.as_deref())?;
        let base_url = given(line("base_url", request.base_url, NAME_BYTES_MAX)?);
        Ok(Self {
            session: request.session_id,
            at: (request.at_seq > 0).then_some(Seq(request.at_seq)),
            changes: changes?,
            agent,
            model,
            base_url: base_url.as_deref().map(address).transpose()?,
            instructions,
            title: given(line("title", request.title, TITLE_BYTES_MAX)?),
            workspace: workspace(request.workspace)?,
            paused: request.paused,
            dry_run: request.dry_run,
            client_key: client_key(request.client_key)?,
            request_digest,
            by: person("forked_by", request.forked_by)?,
        })
    }
}

/// As in an agent file, where an empty text is a mistake.
fn expect_words(field: &str, text: Option<&str>) -> Result<(), BadField> {
    match text {
        Some(text) if text.trim().is_empty() => Err(BadField::new(field, "is empty")),
        Some(_) | None => Ok(()),
    }
}

/// As in an agent file.
fn address(text: &str) -> Result<String, BadField> {
    let checked = check_url(text).map_err(|problem| BadField::new("base_url", problem))?;
    Ok(checked.to_owned())
}

fn change(index: usize, change: v1::Change) -> Result<Change, BadField> {
    use v1::change::Change as Wire;
    let field = |name: &str| format!("changes[{index}].{name}");
    let text = |name: &str, text: String| {
        expect_short(&field(name), &text, TEXT_BYTES_MAX)?;
        Ok::<_, BadField>(text)
    };
    let call_id = |text: &str| -> Result<CallId, BadField> {
        text.parse().map_err(|error: stepwell_core::ids::IdError| {
            BadField::new(field("call_id"), error.to_string())
        })
    };
    Ok(match change.change {
        None => return Err(BadField::new(field("change"), "is missing")),
        Some(Wire::ToolResult(it)) => Change::Result {
            call_id: call_id(&it.call_id)?,
            outcome: if it.is_error { ToolOutcome::Error } else { ToolOutcome::Ok },
            output: Text::from(text("output", it.output)?),
        },
        Some(Wire::ModelReply(it)) => {
            let mut calls = Vec::with_capacity(it.calls.len());
            for call in it.calls {
                let tool = line(&field("calls.tool"), call.tool, NAME_BYTES_MAX)?;
                calls.push((tool, text("calls.arguments", call.arguments)?));
            }
            Change::Reply {
                step: it.step,
                content: Text::from(text("content", it.content)?),
                calls,
            }
        }
        Some(Wire::Arguments(it)) => Change::Arguments {
            call_id: call_id(&it.call_id)?,
            arguments: text("arguments", it.arguments)?,
        },
        Some(Wire::Message(it)) if it.is_empty() => {
            return Err(BadField::new(field("message"), "is empty: say something"));
        }
        Some(Wire::Message(it)) => Change::Message { content: Text::from(text("message", it)?) },
    })
}
