//! The agent: a versioned definition that is copied whole into each session it starts.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::json::JsonText;
use crate::output::OutputPolicy;

/// What an agent is. A session keeps its own copy, so an edit never changes a running or recorded
/// session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Name under which the definition is stored.
    pub name: String,
    /// Version of the definition, from 1; 0 for one that was handed in with the task.
    pub version: u32,
    /// The system prompt.
    pub instructions: String,
    /// Which model, where, and with which request parameters.
    pub model: ModelSpec,
    /// The tools in the order in which the model sees them.
    pub tools: Vec<ToolSpec>,
    /// When the session must end.
    pub limits: Limits,
    /// Who must be asked before what. The first rule that fits decides.
    pub approval_rules: Vec<ApprovalRule>,
    /// How long an approval stays open, in milliseconds; `None` waits for ever.
    pub approval_expires_after_ms: Option<u64>,
    /// After an answer without tool calls: wait for the next message instead of finishing.
    pub interactive: bool,
    /// How failed model calls are repeated.
    pub retry: RetryPolicy,
    /// How the model's output is bound.
    #[serde(default, skip_serializing_if = "OutputPolicy::is_default")]
    pub output: OutputPolicy,
}

impl Agent {
    /// An agent without tools and rules, with the default of all else, that was handed in with a task.
    pub fn new(name: &str, instructions: &str, model: ModelSpec) -> Self {
        Self {
            name: name.into(),
            version: 0,
            instructions: instructions.into(),
            model,
            tools: Vec::new(),
            limits: Limits::default(),
            approval_rules: Vec::new(),
            approval_expires_after_ms: None,
            interactive: false,
            retry: RetryPolicy::default(),
            output: OutputPolicy::default(),
        }
    }
}

/// The model of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Name in the server's API.
    pub name: String,
    /// Base address of an OpenAI-compatible API, for example `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// Base addresses of further servers of the same model. A session stays with the one that holds
    /// its prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<String>,
    /// Name of the environment variable that holds the key. The key itself is never stored.
    pub api_key_env: Option<String>,
    /// A JSON object that is merged into each request: `temperature`, `max_tokens`, `seed` …
    pub parameters: JsonText,
    /// How long each part of a call may take.
    pub timeouts: ModelTimeouts,
    /// Models that are asked when this one does not answer, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<FallbackModel>,
    /// When their turn comes.
    #[serde(default, skip_serializing_if = "FallbackRule::is_default")]
    pub fallback_rule: FallbackRule,
    /// In which form the model's own replies are sent back to it.
    #[serde(default, skip_serializing_if = "History::is_default")]
    pub history: History,
    /// The server is asked for token ids, to find out where a prefix broke.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub token_ids: bool,
}

/// In which form the model's own replies are sent back to it. Its server renders a request's messages
/// to tokens; only what comes out as the model generated it is found in the prefix cache.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// As text and calls, which the server's template renders anew.
    #[default]
    Calls,
    /// As the text that the model generated, calls and all, where the server tells it.
    Text,
    /// As the very tokens, through vLLM's endpoints for tokens.
    Tokens,
}

impl History {
    /// Whether it is as it was before there was a choice.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When the turn of a fallback comes. A session keeps the rule that it began with, so that a replay
/// comes to the same.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackRule {
    /// By the number of the attempt alone, as it was before there was a choice.
    #[default]
    ByAttempt,
    /// After its number of failed attempts, and at once when the model in turn refuses the request, has
    /// no quota left, or asks for a wait longer than [`RetryPolicy::cap_ms`].
    ByNeed,
}

impl FallbackRule {
    /// Whether it is as it was before there was a choice.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A model in place of another one. Parameters and timeouts are those of the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackModel {
    /// How many attempts of a step the models before it are given, from the last change on.
    pub after_attempts: u32,
    /// See [`ModelSpec::name`].
    pub name: String,
    /// See [`ModelSpec::base_url`].
    pub base_url: String,
    /// See [`ModelSpec::replicas`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<String>,
    /// See [`ModelSpec::api_key_env`].
    pub api_key_env: Option<String>,
}

impl ModelSpec {
    /// A model of one server that wants no key, with the default of all else.
    pub fn new(name: &str, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            base_url: base_url.into(),
            replicas: Vec::new(),
            api_key_env: None,
            parameters: JsonText::empty_object(),
            timeouts: ModelTimeouts::default(),
            fallbacks: Vec::new(),
            fallback_rule: FallbackRule::default(),
            history: History::default(),
            token_ids: false,
        }
    }

    /// Whether the server is asked for token ids.
    pub fn asks_token_ids(&self) -> bool {
        self.token_ids || !self.history.is_default()
    }

    /// The place of the model that the given attempt of a step asks under
    /// [`FallbackRule::ByAttempt`]: 0 is this one, then its fallbacks.
    pub(crate) fn place_at(&self, attempt: u32) -> usize {
        let mut first = 1_u32;
        let begun = self.fallbacks.iter().take_while(|it| {
            first = first.saturating_add(it.after_attempts);
            attempt >= first
        });
        begun.count()
    }

    /// The fallback at a place; `None` for this model itself.
    pub(crate) fn fallback(&self, place: usize) -> Option<&FallbackModel> {
        place.checked_sub(1).and_then(|at| self.fallbacks.get(at))
    }

    /// The model at a place, as it is asked.
    #[must_use]
    pub(crate) fn at_place(&self, place: usize) -> Self {
        let mut model = self.clone();
        if let Some(fallback) = self.fallback(place).cloned() {
            let FallbackModel { after_attempts: _, name, base_url, replicas, api_key_env } =
                fallback;
            model.name = name;
            model.base_url = base_url;
            model.replicas = replicas;
            model.api_key_env = api_key_env;
            // Another server: it is asked in the way that all understand.
            model.history = History::default();
        }
        model
    }

    /// How the model at a place is called where there are several.
    pub(crate) fn words_for(&self, place: usize) -> String {
        match self.fallback(place) {
            Some(fallback) => alloc::format!("fallback `{}`", fallback.name),
            None => alloc::format!("`{}`", self.name),
        }
    }
}

/// Time limits of one model call, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTimeouts {
    /// Until the connection stands.
    pub connect_ms: u64,
    /// From the request to the first token.
    pub first_token_ms: u64,
    /// Between two tokens.
    pub between_tokens_ms: u64,
    /// The whole call.
    pub total_ms: u64,
}

impl Default for ModelTimeouts {
    fn default() -> Self {
        Self {
            connect_ms: 10_000,
            first_token_ms: 300_000,
            between_tokens_ms: 60_000,
            total_ms: 1_800_000,
        }
    }
}

/// What a tool does to the world. Follows the hints of MCP's tool annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing (`readOnlyHint`). Repeated freely.
    Read,
    /// Doing it twice is doing it once (`idempotentHint`). Repeated with the same idempotency key.
    Idempotent,
    /// Everything else, and the default. Never started twice without a person's word.
    Write,
}

impl Effect {
    /// Whether a call may be started again when its outcome is unknown.
    pub fn may_repeat(self) -> bool {
        match self {
            Self::Read | Self::Idempotent => true,
            Self::Write => false,
        }
    }
}

/// Who carries out a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// A worker that registered the tool.
    Worker,
    /// The engine itself: asks a person and waits for the answer ([`ASK_USER`]).
    AskUser,
    /// The engine itself: waits for a time ([`SLEEP`]).
    Sleep,
}

/// Name of the engine's tool that asks a person.
pub const ASK_USER: &str = "ask_user";
/// Name of the engine's tool that waits.
pub const SLEEP: &str = "sleep";

/// A tool as the model sees it and as the engine treats it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name, unique within the agent.
    pub name: String,
    /// What the model is told.
    pub description: String,
    /// JSON Schema of the arguments, an object schema.
    pub parameters: JsonText,
    /// JSON Schema of the result, when the tool declares one.
    pub output_schema: Option<JsonText>,
    /// What it does to the world.
    pub effect: Effect,
    /// How long one attempt may run, in milliseconds.
    pub timeout_ms: u64,
    /// Who carries it out.
    pub kind: ToolKind,
}

/// When a session must end. Each limit ends it as `limit_reached`, with which one and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Model decisions.
    pub steps_max: u32,
    /// Wall time from creation, in milliseconds.
    pub deadline_ms: Option<u64>,
    /// Prompt and completion tokens of all model calls together.
    pub tokens_max: Option<u64>,
    /// How many of the last actions are looked at for repetition; 0 switches the check off.
    pub repeat_window: u32,
    /// How often one action may stand in that window before the session ends.
    pub repeat_count: u32,
    /// How often a tool that may be repeated is started for one call.
    pub tool_attempts_max: u32,
    /// How many replies in a row may be unusable (no call that can run, no answer that fits) before
    /// the session ends; 0 switches the check off, as it was before there was one.
    #[serde(default)]
    pub unusable_replies_max: u32,
    /// How much of one tool result the model is shown, in bytes. The whole stays in the log.
    pub observation_bytes_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps_max: 100,
            deadline_ms: None,
            tokens_max: None,
            repeat_window: 8,
            repeat_count: 3,
            tool_attempts_max: 3,
            unusable_replies_max: 5,
            observation_bytes_max: 48 * 1024,
        }
    }
}

/// Backoff of failed model calls: `base × 2^(attempt-1)`, at most `cap`, plus up to a quarter of
/// jitter that is derived from session, step and attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Attempts of one model call before the session fails.
    pub attempts_max: u32,
    /// First wait, in milliseconds.
    pub base_ms: u64,
    /// Longest wait, in milliseconds. A server's `Retry-After` may ask for more, up to
    /// [`RETRY_AFTER_MS_MAX`].
    pub cap_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts_max: 12, base_ms: 500, cap_ms: 60_000 }
    }
}

impl RetryPolicy {
    /// The wait after so many doublings of the first one, without jitter.
    pub fn wait_ms(&self, doublings: u32) -> u64 {
        self.base_ms.saturating_mul(1 << doublings.min(40)).min(self.cap_ms)
    }

    /// The wait that a server asked for, within bounds.
    pub fn granted_ms(&self, asked_ms: u64) -> u64 {
        asked_ms.clamp(self.base_ms, RETRY_AFTER_MS_MAX.max(self.base_ms))
    }
}

/// Longest wait that a server's `Retry-After` is granted: one day.
pub const RETRY_AFTER_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// What a rule says about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Ask a person first.
    Ask,
    /// Refuse it; the model is told.
    Deny,
}

/// One approval rule. All its conditions must fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRule {
    /// Tool name; `*` stands for any run of characters.
    pub tool: String,
    /// Patterns on top-level arguments: name and pattern, `*` stands for any run of characters.
    pub arguments: Vec<ArgumentPattern>,
    /// Shell commands, for tools with a `command` argument: `git status` fits `git status --short`
    /// and not `git statusx`. To *allow*, every part of a compound command must fit one of them and
    /// nothing may be written or substituted; to *ask* or *deny*, one part that fits is enough.
    pub commands: Vec<String>,
    /// What to do when the rule fits.
    pub verdict: Verdict,
}

/// A condition on one argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentPattern {
    /// Name of a top-level argument.
    pub name: String,
    /// Pattern for its text (strings as they are, everything else in canonical JSON).
    pub pattern: String,
}

impl ToolSpec {
    /// The engine's tool that asks a person and waits for the answer, for days if need be.
    pub fn ask_user() -> Self {
        Self::engine(
            ASK_USER,
            "Ask the user a question and wait for the answer. Use it when you need a decision or \
             a fact that only a person can give.",
            r#"{"type":"object","properties":{"question":{"type":"string","minLength":1}},"required":["question"],"additionalProperties":false}"#,
            ToolKind::AskUser,
        )
    }

    /// The engine's tool that waits without using anything.
    pub fn sleep() -> Self {
        Self::engine(
            SLEEP,
            "Wait for a number of seconds before going on.",
            r#"{"type":"object","properties":{"seconds":{"type":"number","minimum":0}},"required":["seconds"],"additionalProperties":false}"#,
            ToolKind::Sleep,
        )
    }

    fn engine(name: &str, description: &str, parameters: &str, kind: ToolKind) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: JsonText::parse(parameters).unwrap_or_else(|_| JsonText::empty_object()),
            output_schema: None,
            effect: Effect::Read,
            timeout_ms: u64::MAX,
            kind,
        }
    }
}

impl Agent {
    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}
