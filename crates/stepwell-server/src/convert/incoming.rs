//! Requests about sessions and agents, checked.

use std::collections::HashMap;

use stepwell_core::event::{IMPORTER, Label};
use stepwell_core::{Actor, CallId, SessionId, Status, Text, TimestampMs};
use stepwell_ports::SessionFilter;
use stepwell_ports::store::PAGE_ROWS_MAX;
use stepwell_proto::v1;

use super::{
    BadField, CLIENT_KEY_BYTES_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX,
    NAME_BYTES_MAX, PAGE_ROWS_DEFAULT, REASON_BYTES_MAX, TEXT_BYTES_MAX, TITLE_BYTES_MAX, digest,
    expect_short, line,
};
use crate::agent_file::{AGENT_NAME_BYTES_MAX, DEFINITION_BYTES_MAX};

/// Who acted when the client does not say.
const NOBODY: &str = "unknown";

/// Length of a blob's address: BLAKE3 in hex.
const ADDRESS_CHARS: usize = 64;

/// A session that a client wants.
#[derive(Debug)]
pub(crate) struct Creation {
    pub(crate) task: Text,
    pub(crate) agent: AgentChoice,
    pub(crate) title: String,
    pub(crate) labels: Vec<Label>,
    pub(crate) workspace: String,
    pub(crate) client_key: Option<String>,
    pub(crate) request_digest: String,
    pub(crate) paused: bool,
    pub(crate) by: Actor,
}

/// Whose definition a new session gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AgentChoice {
    /// A stored one; the latest when no version is given.
    Stored { name: String, version: Option<u32> },
    /// One that came with the request.
    Given { definition: String },
}

impl TryFrom<v1::CreateSessionRequest> for Creation {
    type Error = BadField;

    fn try_from(request: v1::CreateSessionRequest) -> Result<Self, BadField> {
        let request_digest = digest::of_request(&request);
        if request.task.trim().is_empty() {
            return Err(BadField::new("task", "is empty: say what is to be done"));
        }
        expect_short("task", &request.task, TEXT_BYTES_MAX)?;
        let agent = agent_choice(request.agent, request.agent_version, request.agent_definition)?;
        Ok(Self {
            task: Text::from(request.task),
            agent,
            title: line("title", request.title, TITLE_BYTES_MAX)?,
            labels: labels(request.labels)?,
            workspace: workspace(request.workspace)?,
            client_key: client_key(request.client_key)?,
            request_digest,
            paused: request.paused,
            by: person("submitted_by", request.submitted_by)?,
        })
    }
}

/// A workspace is one folder below the workers' folder for workspaces: its name may lead nowhere else.
pub(super) fn workspace(name: String) -> Result<String, BadField> {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    if name.len() > NAME_BYTES_MAX || name.starts_with('.') || !name.chars().all(fits) {
        return Err(BadField::new(
            "workspace",
            "must be the name of one folder below the workers' folder for workspaces, not a path: \
             letters, digits, `-`, `_` and `.`, not `.` in front",
        ));
    }
    Ok(name)
}

pub(super) fn agent_choice(
    name: String,
    version: u32,
    definition: String,
) -> Result<AgentChoice, BadField> {
    match (name.is_empty(), definition.is_empty()) {
        (true, true) => Err(BadField::new(
            "agent",
            "is empty: name a stored agent (stepwell agents lists them) or give agent_definition",
        )),
        (false, false) => {
            Err(BadField::new("agent", "and agent_definition are both given: give one of them"))
        }
        (false, true) => {
            let name = line("agent", name, AGENT_NAME_BYTES_MAX)?;
            Ok(AgentChoice::Stored { name, version: (version > 0).then_some(version) })
        }
        (true, false) if version > 0 => {
            Err(BadField::new("agent_version", "goes with a stored agent only: leave it out"))
        }
        (true, false) => Ok(AgentChoice::Given { definition: self::definition(definition)? }),
    }
}

/// A definition that is not too large to be read.
pub(crate) fn definition(text: String) -> Result<String, BadField> {
    if text.trim().is_empty() {
        return Err(BadField::new("definition", "is empty: docs/agents.md describes the format"));
    }
    expect_short("definition", &text, DEFINITION_BYTES_MAX)?;
    Ok(text)
}

fn labels(labels: HashMap<String, String>) -> Result<Vec<Label>, BadField> {
    if labels.len() > LABELS_MAX {
        let problem = format!("are {}, at most {LABELS_MAX}", labels.len());
        return Err(BadField::new("labels", problem));
    }
    let mut checked = Vec::with_capacity(labels.len());
    for (key, value) in labels {
        let field = format!("labels[{key:?}]");
        if key.is_empty() {
            return Err(BadField::new(field, "has an empty name"));
        }
        let key = line(&field, key, LABEL_KEY_BYTES_MAX)?;
        let value = line(&field, value, LABEL_VALUE_BYTES_MAX)?;
        checked.push(Label { key, value });
    }
    // A map has no order, and the same request must give the same events.
    checked.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(checked)
}

pub(super) fn client_key(key: String) -> Result<Option<String>, BadField> {
    let key = line("client_key", key, CLIENT_KEY_BYTES_MAX)?;
    Ok((!key.is_empty()).then_some(key))
}

/// The name of a person or client program, which need not be given.
pub(super) fn person(field: &str, name: String) -> Result<Actor, BadField> {
    let name = line(field, name, NAME_BYTES_MAX)?;
    let name = name.trim();
    if name == IMPORTER {
        let problem = "stands for what imports do: take another name";
        return Err(BadField::new(field, problem));
    }
    Ok(Actor::Person(if name.is_empty() { NOBODY } else { name }.to_owned()))
}

/// Which page of which sessions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SessionQuery {
    pub(crate) filter: SessionFilter,
    pub(crate) page: Option<String>,
    pub(crate) rows: usize,
}

impl TryFrom<v1::ListSessionsRequest> for SessionQuery {
    type Error = BadField;

    fn try_from(request: v1::ListSessionsRequest) -> Result<Self, BadField> {
        let statuses = statuses(&request.statuses)?;
        let given = |text: String| (!text.is_empty()).then_some(text);
        let text = line("text", request.text, TITLE_BYTES_MAX)?;
        let prefix = line("id_prefix", request.id_prefix.trim().to_uppercase(), NAME_BYTES_MAX)?;
        let parent = line("parent_id", request.parent_id.trim().to_uppercase(), NAME_BYTES_MAX)?;
        let parent = given(parent).map(|it| it.parse::<SessionId>());
        let parent = parent
            .transpose()
            .map_err(|_| BadField::new("parent_id", "is no session id: give all 26 characters"))?;
        let filter = SessionFilter {
            parent,
            statuses,
            agent: given(request.agent),
            labels: labels(request.labels)?.into_iter().map(|it| (it.key, it.value)).collect(),
            id_prefix: given(prefix),
            text: given(text),
            updated_before: time_before(request.updated_before_ms)?,
        };
        let rows = page_rows(request.page_size, PAGE_ROWS_DEFAULT);
        Ok(Self { filter, page: given(request.page_token), rows })
    }
}

pub(super) fn statuses(numbers: &[i32]) -> Result<Vec<Status>, BadField> {
    let status = |(i, number): (usize, &i32)| {
        let known = v1::SessionStatus::try_from(*number).ok().and_then(status_from_wire);
        let unknown = || BadField::new(format!("statuses[{i}]"), "is no status that sessions have");
        known.ok_or_else(unknown)
    };
    numbers.iter().enumerate().map(status).collect()
}

/// A time before which something must be; 0 for none.
pub(super) fn time_before(time_ms: i64) -> Result<Option<TimestampMs>, BadField> {
    let negative = |_| BadField::new("updated_before_ms", "is before 1970: give a time since then");
    let time = u64::try_from(time_ms).map_err(negative)?;
    Ok((time > 0).then_some(TimestampMs(time)))
}

/// Rows of a page for what was asked: `default` when nothing was.
pub(crate) fn page_rows(asked: u32, default: usize) -> usize {
    match asked {
        0 => default,
        rows => (rows as usize).min(PAGE_ROWS_MAX),
    }
}

fn status_from_wire(status: v1::SessionStatus) -> Option<Status> {
    Some(match status {
        v1::SessionStatus::Unspecified => return None,
        v1::SessionStatus::Pending => Status::Pending,
        v1::SessionStatus::Thinking => Status::Thinking,
        v1::SessionStatus::ExecutingTools => Status::ExecutingTools,
        v1::SessionStatus::WaitingApproval => Status::WaitingApproval,
        v1::SessionStatus::WaitingInput => Status::WaitingInput,
        v1::SessionStatus::Sleeping => Status::Sleeping,
        v1::SessionStatus::Paused => Status::Paused,
        v1::SessionStatus::Completed => Status::Completed,
        v1::SessionStatus::Failed => Status::Failed,
        v1::SessionStatus::Cancelled => Status::Cancelled,
        v1::SessionStatus::LimitReached => Status::LimitReached,
        v1::SessionStatus::Quarantined => Status::Quarantined,
    })
}

/// Something that a person says to a session.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) session: String,
    pub(crate) content: Text,
    pub(crate) answers: Option<CallId>,
    pub(crate) client_key: Option<String>,
    pub(crate) by: Actor,
}

impl TryFrom<v1::SendMessageRequest> for Message {
    type Error = BadField;

    fn try_from(request: v1::SendMessageRequest) -> Result<Self, BadField> {
        if request.content.is_empty() {
            return Err(BadField::new("content", "is empty: say something"));
        }
        expect_short("content", &request.content, TEXT_BYTES_MAX)?;
        let answers = match request.answers_call_id.as_str() {
            "" => None,
            call_id => {
                let bad = |error: stepwell_core::ids::IdError| {
                    BadField::new("answers_call_id", error.to_string())
                };
                Some(call_id.parse().map_err(bad)?)
            }
        };
        Ok(Self {
            session: request.session_id,
            content: Text::from(request.content),
            answers,
            client_key: client_key(request.client_key)?,
            by: person("sent_by", request.sent_by)?,
        })
    }
}

/// A wish to cancel, hold or go on.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) session: String,
    pub(crate) reason: String,
    pub(crate) by: Actor,
}

impl Stop {
    fn new(session: String, reason: String, by: String) -> Result<Self, BadField> {
        expect_short("reason", &reason, REASON_BYTES_MAX)?;
        Ok(Self { session, reason, by: person("requested_by", by)? })
    }
}

impl TryFrom<v1::CancelSessionRequest> for Stop {
    type Error = BadField;

    fn try_from(request: v1::CancelSessionRequest) -> Result<Self, BadField> {
        Self::new(request.session_id, request.reason, request.requested_by)
    }
}

impl TryFrom<v1::PauseSessionRequest> for Stop {
    type Error = BadField;

    fn try_from(request: v1::PauseSessionRequest) -> Result<Self, BadField> {
        Self::new(request.session_id, request.reason, request.requested_by)
    }
}

impl TryFrom<v1::ResumeSessionRequest> for Stop {
    type Error = BadField;

    fn try_from(request: v1::ResumeSessionRequest) -> Result<Self, BadField> {
        Self::new(request.session_id, String::new(), request.requested_by)
    }
}

/// The address of a payload.
pub(crate) fn blob_address(text: &str) -> Result<String, BadField> {
    let address = text.trim().to_ascii_lowercase();
    if address.len() == ADDRESS_CHARS && address.chars().all(|it| it.is_ascii_hexdigit()) {
        return Ok(address);
    }
    Err(BadField::new(
        "blob",
        format!("must be {ADDRESS_CHARS} hex digits, as the `blob` of an event says"),
    ))
}
