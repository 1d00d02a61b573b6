//! The texts of each event: what may be removed. Everything else is structure.

use std::sync::Arc;

use stepwell_core::agent::Agent;
use stepwell_core::event::{Edit, ModelReplied, OverrideApplied, SessionCreated};
use stepwell_core::output::{AnswerForm, OutputPolicy, RelaxedSchema};
use stepwell_core::{EventBody, EventKind, JsonText, Text};

/// The whole output beside a shortened one. It lies beside the event and is handled apart.
pub(super) const FULL_OUTPUT: &str = "/full_output";

/// The title of a session, or of a fork.
pub(super) const TITLE: &str = "/title";

/// Fields of an event with an agent's definition in it: those of the definition, and its own.
macro_rules! with_definition {
    ($($own:literal),* $(,)?) => {
        &[
            "/agent/instructions",
            "/agent/model/base_url",
            "/agent/model/replicas/*",
            "/agent/model/fallbacks/*/base_url",
            "/agent/model/fallbacks/*/replicas/*",
            "/agent/model/parameters",
            "/agent/tools/*/description",
            "/agent/tools/*/parameters",
            "/agent/tools/*/output_schema",
            "/agent/approval_rules/*/arguments/*/pattern",
            "/agent/approval_rules/*/commands/*",
            "/agent/output/relaxed/*/schema",
            "/agent/output/relaxed/*/dropped/*",
            "/agent/output/answer/schema/schema",
            "/agent/output/answer/schema/relaxed/schema",
            "/agent/output/answer/schema/relaxed/dropped/*",
            "/agent/output/answer/regex",
            "/agent/output/answer/choice/*",
            "/agent/output/answer/grammar",
            $($own,)*
        ]
    };
}

/// Fields that rules can name, as JSON pointers into the body; `*` stands for every place of a list.
pub const FIELDS: &[(EventKind, &[&str])] = &[
    (
        EventKind::SessionCreated,
        with_definition!["/task", "/title", "/labels/*/key", "/labels/*/value"],
    ),
    (
        EventKind::ModelReplied,
        &[
            "/content",
            "/reasoning",
            "/tool_calls/*/arguments",
            "/tool_calls/*/repaired/raw",
            "/answer_problem",
            "/tool_calls/*/problem",
            "/endpoint",
            "/tokens/text",
        ],
    ),
    (EventKind::ModelFailed, &["/message", "/endpoint"]),
    (EventKind::ToolDispatched, &[]),
    (EventKind::ToolFinished, &["/output", FULL_OUTPUT]),
    (EventKind::ToolLost, &["/reason"]),
    (EventKind::ApprovalDecided, &["/reason", "/arguments", "/output"]),
    (EventKind::MessageReceived, &["/content"]),
    (EventKind::TimerFired, &[]),
    (EventKind::CancelRequested, &["/reason"]),
    (EventKind::PauseRequested, &["/reason"]),
    (EventKind::ResumeRequested, &[]),
    (
        EventKind::OverrideApplied,
        with_definition![
            "/title",
            "/edits/*/tool_result/output",
            "/edits/*/model_reply/content",
            "/edits/*/model_reply/reasoning",
            "/edits/*/model_reply/tool_calls/*/arguments",
            "/edits/*/model_reply/tool_calls/*/repaired/raw",
            "/edits/*/model_reply/answer_problem",
            "/edits/*/model_reply/tokens/text",
            "/edits/*/model_reply/tool_calls/*/problem",
            "/edits/*/model_reply/endpoint",
            "/edits/*/arguments/arguments",
            "/edits/*/message/content",
        ],
    ),
    (EventKind::ModelRequested, &[]),
    (EventKind::ToolScheduled, &[]),
    (EventKind::ToolRefused, &["/message"]),
    (EventKind::ApprovalRequested, &["/rule"]),
    (EventKind::TimerStarted, &[]),
    (EventKind::SessionFinished, &["/reason"]),
];

/// A text of an event.
pub(super) enum Field<'a> {
    /// One that may be large.
    Text(&'a mut Text),
    /// A short one.
    Plain(&'a mut String),
    /// The name of a tool as a model wrote it. No rule for fields reaches it: the refusal says it again.
    Tool(&'a mut String),
    /// JSON as a model wrote it, perhaps badly.
    Arguments(&'a mut Text),
    /// JSON that was checked.
    Json(&'a mut JsonText),
}

impl Field<'_> {
    /// A text that the engine may say again.
    pub(super) fn short_text(&self) -> Option<&str> {
        match self {
            Self::Plain(text) => Some(text),
            Self::Text(_) | Self::Tool(_) | Self::Arguments(_) | Self::Json(_) => None,
        }
    }
}

/// Visits every text of an event with its pointer.
pub(super) fn for_each_field(body: &mut EventBody, visit: &mut dyn FnMut(&str, Field<'_>)) {
    match body {
        EventBody::SessionCreated(it) => created(it, visit),
        EventBody::ModelReplied(it) => replied("", it, visit),
        EventBody::OverrideApplied(it) => forked(it, visit),
        EventBody::ModelFailed(it) => {
            visit("/message", Field::Plain(&mut it.message));
            visit("/endpoint", Field::Plain(&mut it.endpoint));
        }
        EventBody::ToolFinished(it) => visit("/output", Field::Text(&mut it.output)),
        EventBody::ToolLost(it) => visit("/reason", Field::Plain(&mut it.reason)),
        EventBody::ToolRefused(it) => visit("/message", Field::Plain(&mut it.message)),
        EventBody::ApprovalRequested(it) => visit("/rule", Field::Plain(&mut it.rule)),
        EventBody::ApprovalDecided(it) => {
            visit("/reason", Field::Plain(&mut it.reason));
            if let Some(arguments) = &mut it.arguments {
                visit("/arguments", Field::Json(arguments));
            }
            if let Some(output) = &mut it.output {
                visit("/output", Field::Text(output));
            }
        }
        EventBody::MessageReceived(it) => visit("/content", Field::Text(&mut it.content)),
        EventBody::CancelRequested(it) => visit("/reason", Field::Plain(&mut it.reason)),
        EventBody::PauseRequested(it) => visit("/reason", Field::Plain(&mut it.reason)),
        EventBody::SessionFinished(it) => visit("/reason", Field::Plain(&mut it.reason)),
        EventBody::ToolDispatched(_)
        | EventBody::TimerFired(_)
        | EventBody::ResumeRequested(_)
        | EventBody::ModelRequested(_)
        | EventBody::ToolScheduled(_)
        | EventBody::TimerStarted(_) => {}
    }
}

fn created(it: &mut SessionCreated, visit: &mut dyn FnMut(&str, Field<'_>)) {
    visit("/task", Field::Text(&mut it.task));
    visit("/title", Field::Plain(&mut it.title));
    for (i, label) in it.labels.iter_mut().enumerate() {
        visit(&format!("/labels/{i}/key"), Field::Plain(&mut label.key));
        visit(&format!("/labels/{i}/value"), Field::Plain(&mut label.value));
    }
    defined(Arc::make_mut(&mut it.agent), visit);
}

fn replied(at: &str, it: &mut ModelReplied, visit: &mut dyn FnMut(&str, Field<'_>)) {
    visit(&format!("{at}/content"), Field::Text(&mut it.content));
    visit(&format!("{at}/reasoning"), Field::Text(&mut it.reasoning));
    for (i, call) in it.tool_calls.iter_mut().enumerate() {
        visit(&format!("{at}/tool_calls/{i}/name"), Field::Tool(&mut call.name));
        let arguments = format!("{at}/tool_calls/{i}/arguments");
        visit(&arguments, Field::Arguments(&mut call.arguments));
        if let Some(repaired) = &mut call.repaired {
            visit(&format!("{at}/tool_calls/{i}/repaired/raw"), Field::Text(&mut repaired.raw));
        }
        if let Some(problem) = &mut call.problem {
            visit(&format!("{at}/tool_calls/{i}/problem"), Field::Plain(problem));
        }
    }
    if let Some(problem) = &mut it.answer_problem {
        visit(&format!("{at}/answer_problem"), Field::Plain(problem));
    }
    visit(&format!("{at}/endpoint"), Field::Plain(&mut it.endpoint));
    if let Some(text) = it.tokens.as_mut().and_then(|tokens| tokens.text.as_mut()) {
        visit(&format!("{at}/tokens/text"), Field::Text(text));
    }
}

fn forked(it: &mut OverrideApplied, visit: &mut dyn FnMut(&str, Field<'_>)) {
    if let Some(title) = &mut it.title {
        visit("/title", Field::Plain(title));
    }
    if let Some(agent) = &mut it.agent {
        defined(Arc::make_mut(agent), visit);
    }
    for (i, edit) in it.edits.iter_mut().enumerate() {
        let at = |name: &str| format!("/edits/{i}/{name}");
        match edit {
            Edit::ToolResult { output, .. } => {
                visit(&at("tool_result/output"), Field::Text(output));
            }
            Edit::ModelReply(reply) => replied(&at("model_reply"), reply, visit),
            Edit::Arguments { arguments, .. } => {
                visit(&at("arguments/arguments"), Field::Json(arguments));
            }
            Edit::Message { content } => visit(&at("message/content"), Field::Text(content)),
        }
    }
}

fn defined(agent: &mut Agent, visit: &mut dyn FnMut(&str, Field<'_>)) {
    visit("/agent/instructions", Field::Plain(&mut agent.instructions));
    addresses("/agent/model", &mut agent.model.base_url, &mut agent.model.replicas, visit);
    for (i, model) in agent.model.fallbacks.iter_mut().enumerate() {
        let at = format!("/agent/model/fallbacks/{i}");
        addresses(&at, &mut model.base_url, &mut model.replicas, visit);
    }
    visit("/agent/model/parameters", Field::Json(&mut agent.model.parameters));
    for (i, tool) in agent.tools.iter_mut().enumerate() {
        let at = |name: &str| format!("/agent/tools/{i}/{name}");
        visit(&at("description"), Field::Plain(&mut tool.description));
        visit(&at("parameters"), Field::Json(&mut tool.parameters));
        if let Some(schema) = &mut tool.output_schema {
            visit(&at("output_schema"), Field::Json(schema));
        }
    }
    for (i, rule) in agent.approval_rules.iter_mut().enumerate() {
        let at = format!("/agent/approval_rules/{i}");
        for (k, condition) in rule.arguments.iter_mut().enumerate() {
            visit(&format!("{at}/arguments/{k}/pattern"), Field::Plain(&mut condition.pattern));
        }
        for (k, command) in rule.commands.iter_mut().enumerate() {
            visit(&format!("{at}/commands/{k}"), Field::Plain(command));
        }
    }
    bound(&mut agent.output, visit);
}

fn bound(output: &mut OutputPolicy, visit: &mut dyn FnMut(&str, Field<'_>)) {
    for (tool, it) in &mut output.relaxed {
        relaxed(&format!("/agent/output/relaxed/{tool}"), it, visit);
    }
    let at = "/agent/output/answer";
    match &mut output.answer {
        Some(AnswerForm::Schema { schema, relaxed: it }) => {
            visit(&format!("{at}/schema/schema"), Field::Json(schema));
            if let Some(it) = it {
                relaxed(&format!("{at}/schema/relaxed"), it, visit);
            }
        }
        Some(AnswerForm::Regex(regex)) => visit(&format!("{at}/regex"), Field::Plain(regex)),
        Some(AnswerForm::Choice(choices)) => {
            for (i, choice) in choices.iter_mut().enumerate() {
                visit(&format!("{at}/choice/{i}"), Field::Plain(choice));
            }
        }
        Some(AnswerForm::Grammar(grammar)) => {
            visit(&format!("{at}/grammar"), Field::Plain(grammar));
        }
        None => {}
    }
}

fn relaxed(at: &str, it: &mut RelaxedSchema, visit: &mut dyn FnMut(&str, Field<'_>)) {
    visit(&format!("{at}/schema"), Field::Json(&mut it.schema));
    for (i, pointer) in it.dropped.iter_mut().enumerate() {
        visit(&format!("{at}/dropped/{i}"), Field::Plain(pointer));
    }
}

fn addresses(
    at: &str,
    base_url: &mut String,
    replicas: &mut [String],
    visit: &mut dyn FnMut(&str, Field<'_>),
) {
    visit(&format!("{at}/base_url"), Field::Plain(base_url));
    for (i, url) in replicas.iter_mut().enumerate() {
        visit(&format!("{at}/replicas/{i}"), Field::Plain(url));
    }
}

/// Whether a concrete pointer fits one with `*`.
pub(super) fn fits(pattern: &str, pointer: &str) -> bool {
    let (pattern, pointer) = (pattern.split('/'), pointer.split('/'));
    pattern.clone().count() == pointer.clone().count()
        && pattern.zip(pointer).all(|(wanted, found)| wanted == "*" || wanted == found)
}

/// Whether two pointers with `*` may name the same text.
pub(super) fn may_meet(a: &str, b: &str) -> bool {
    let (a, b) = (a.split('/'), b.split('/'));
    a.clone().count() == b.clone().count() && a.zip(b).all(|(a, b)| a == "*" || b == "*" || a == b)
}
