//! A script that was read: stories, and which step fits a request.

use std::borrow::Cow;
use std::time::Duration;

use super::faults::Fault;
use super::request::ChatRequest;
use super::source;
use super::template::Template;

/// Characters of a task that are shown in an error.
const TASK_CHARS_MAX: usize = 60;

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub(crate) struct ScriptError {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
    /// What is wrong, in words.
    pub(crate) message: String,
}

/// A script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    pub(super) model: String,
    /// Tokens that a prompt may have.
    pub(super) max_model_len: u64,
    /// Size of the prefix cache that all sessions share.
    pub(super) cache_tokens: Option<u64>,
    /// Those for certain tasks first, in the order of the file; then the one for all tasks.
    pub(super) stories: Vec<Story>,
}

/// The steps for certain tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Story {
    /// What the task must contain.
    pub(super) when: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// What is said in a step, or in several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) first: u32,
    /// `None`: all from the first.
    pub(super) last: Option<u32>,
    /// What the last message must contain.
    pub(super) when_last: Option<String>,
    pub(super) content: Template,
    pub(super) reasoning: Template,
    pub(super) tool_calls: Vec<SaidCall>,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Counts,
    pub(super) pace: Pace,
    pub(super) faults: Vec<Fault>,
}

/// A tool call in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SaidCall {
    /// `None`: one is made.
    pub(super) id: Option<Template>,
    pub(super) name: String,
    pub(super) arguments: Template,
}

/// Tokens; what is `None` is estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) prompt: Option<u64>,
    pub(super) cached: Option<u64>,
    pub(super) completion: Option<u64>,
}

/// How fast it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// Bytes of text in one event; 0 for all in one.
    pub(super) chunk_bytes: usize,
    /// Before the first byte.
    pub(super) delay: Duration,
    /// Before each later event.
    pub(super) chunk_delay: Duration,
}

impl Step {
    /// Whether this is step `number`, whatever the last message says.
    pub(super) fn covers(&self, number: u32) -> bool {
        self.first <= number && self.last.is_none_or(|last| number <= last)
    }
}

impl Script {
    /// Reads a script from its TOML.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn parse(text: &str) -> Result<Self, ScriptError> {
        source::read(text)
    }

    /// The step that answers a request.
    ///
    /// # Errors
    /// In words, which step is missing.
    pub(super) fn find(&self, request: &ChatRequest<'_>) -> Result<&Step, String> {
        let number = request.step;
        let fits = |story: &&Story| {
            story.when.as_ref().is_none_or(|when| request.task.contains(when.as_str()))
        };
        let Some(story) = self.stories.iter().find(fits) else {
            let task = shortened(&request.task);
            return Err(format!("the script has no story for the task {task:?}, and none for all"));
        };
        let mut last: Option<Cow<'_, str>> = None;
        let mut fits_last =
            |when: &String| last.get_or_insert_with(|| request.last()).contains(when.as_str());
        let mut steps = story.steps.iter().filter(|step| step.covers(number));
        let step = steps.find(|step| step.when_last.as_ref().is_none_or(&mut fits_last));
        step.ok_or_else(|| missing(story, request))
    }
}

fn missing(story: &Story, request: &ChatRequest<'_>) -> String {
    let number = request.step;
    let name = match &story.when {
        Some(when) => format!("the story when = {when:?}"),
        None => "the story for all tasks".to_owned(),
    };
    if story.steps.iter().any(|step| step.covers(number)) {
        let last = request.last();
        let last = shortened(&last);
        return format!(
            "the script has no step {number} in {name} that fits the last message {last:?}"
        );
    }
    let end = story.steps.iter().filter_map(|step| step.last).max().unwrap_or_default();
    format!("the script has no step {number} in {name}, its last is {end}: add a [[step]]")
}

fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(TASK_CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}
