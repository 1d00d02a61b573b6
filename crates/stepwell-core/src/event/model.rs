//! Contents of the events about the model.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::arguments::Repair;
use crate::ids::CallId;
use crate::text::Text;

/// See [`EventBody::ModelRequested`](super::EventBody::ModelRequested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRequested {
    /// The step, from 1.
    pub step: u32,
    /// The attempt within the step, from 1.
    pub attempt: u32,
    /// BLAKE3 of the exact request body, 64 hex digits. The body is computed from the events.
    pub prompt_digest: String,
    /// Length of the request body in bytes.
    pub prompt_bytes: u64,
    /// The model that is asked in place of the agent's own, which failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// See [`EventBody::ModelReplied`](super::EventBody::ModelReplied).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReplied {
    /// The step that was asked.
    pub step: u32,
    /// The attempt that succeeded.
    pub attempt: u32,
    /// What the model said.
    #[serde(default, skip_serializing_if = "is_empty_text")]
    pub content: Text,
    /// What the model thought, for servers that send it apart.
    #[serde(default, skip_serializing_if = "is_empty_text")]
    pub reasoning: Text,
    /// The calls it asked for, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why the answer does not have the form that the agent asks for: what the model is told. `None`
    /// when it has it, or when there is no answer or no such form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_problem: Option<String>,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
    /// The server's own word for that, where it says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_word: Option<Box<str>>,
    /// Tokens as the server counted them.
    pub usage: Usage,
    /// Address that answered.
    pub endpoint: String,
    /// Time to the first token, in milliseconds.
    pub first_token_ms: u64,
    /// The whole call, in milliseconds.
    pub duration_ms: u64,
    /// Request and reply as tokens, where the agent asks for them and the server tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<ReplyTokens>>,
}

/// A request and the reply to it as token ids: decimal, a blank between two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyTokens {
    /// How many tokens the request begins with that the request before it and its reply begin with.
    pub kept: u64,
    /// The other tokens of the request.
    pub prompt: Text,
    /// What the model generated, with the token that ends its turn.
    pub generated: Text,
    /// Where the request leaves what the server had; `None` when it begins with all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke: Option<PrefixBreak>,
    /// What the model generated as text, byte for byte: the history has it in place of content and
    /// calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
}

/// The first token of a request that is another one than the server had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixBreak {
    /// Its place in the request, from 0.
    pub at: u64,
    /// How many tokens were known: the request before and its reply.
    pub known: u64,
    /// It stands in what the model generated, not in the request before.
    pub in_reply: bool,
    /// The token that was there.
    pub expected: u32,
    /// The token that is there now; `None` when the request ends before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<u32>,
    /// The tokens that were there, from that place on, in words; empty when the server does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected_text: String,
    /// The tokens that are there now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub found_text: String,
}

fn is_empty_text(text: &Text) -> bool {
    text.bytes() == 0
}

/// One call that the model asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our name for it.
    pub call_id: CallId,
    /// The server's id for it, sent back as it came; ours when the server gave none of use.
    pub wire_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them, byte for byte, or what they were repaired to.
    pub arguments: Text,
    /// What was repaired; `None` when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Repaired>,
    /// Why the arguments cannot be used: what the model is told. `None` when they were read
    /// strictly and fit the tool's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Arguments that were no JSON and whose meaning is certain all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaired {
    /// The arguments as the model wrote them, byte for byte.
    pub raw: Text,
    /// What was done to them, in this order.
    pub repairs: Vec<Repair>,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It asked for tools.
    ToolCalls,
    /// The output limit cut it off.
    Length,
    /// A filter stopped it.
    ContentFilter,
}

/// Tokens of one model call, or a sum of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt_tokens: u64,
    /// Of these, taken from the server's prefix cache.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Tokens of the reply.
    pub completion_tokens: u64,
    /// Of the prompt's, those that were read and put into the cache, where the server says so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub created_tokens: u64,
    /// Of the reply's, those of reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// Prompt and completion.
    pub fn total(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Prompt tokens that the server had to read.
    pub fn uncached_tokens(&self) -> u64 {
        self.prompt_tokens.saturating_sub(self.cached_tokens)
    }

    /// The three sums that lists keep.
    #[must_use]
    pub fn listed(&self) -> Self {
        Self { created_tokens: 0, reasoning_tokens: 0, ..*self }
    }

    /// Adds another call's tokens.
    pub fn add(&mut self, other: &Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.created_tokens = self.created_tokens.saturating_add(other.created_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}

/// See [`EventBody::ModelFailed`](super::EventBody::ModelFailed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// The step that was asked.
    pub step: u32,
    /// The attempt that failed.
    pub attempt: u32,
    /// Address that was asked.
    pub endpoint: String,
    /// What kind of failure.
    pub error: ModelErrorKind,
    /// What the server or the transport said.
    pub message: String,
    /// HTTP status, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// How long the server asked us to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Which limit passed, for [`ModelErrorKind::Timeout`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<TimeLimit>,
    /// What did not fit, for [`ModelErrorKind::ContextTooLong`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextSize>,
    /// It is this replica that refuses or has no quota left; another one of the same model may take
    /// the request now.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub elsewhere: bool,
}

impl ModelFailed {
    /// Whether the same request to the same model can only fail again.
    pub fn is_refusal(&self) -> bool {
        !self.error.is_transient() && !self.elsewhere
    }

    /// Whether nobody takes the request before a quota is filled again.
    pub fn waits_for_quota(&self) -> bool {
        self.error == ModelErrorKind::QuotaExhausted && !self.elsewhere
    }
}

/// The time limits of a model call, as in [`crate::agent::ModelTimeouts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    /// Until the connection stands.
    Connect,
    /// Until the first token.
    FirstToken,
    /// Until the next token.
    BetweenTokens,
    /// Until the end.
    Total,
}

/// A prompt that does not fit, in tokens, as far as the server said it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSize {
    /// What the model can take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// What the prompt has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
}

/// Kinds of failed model calls. The kind decides what happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// No connection, or it broke before an answer.
    Transport,
    /// The server has too much to do (503 and its kin).
    Overloaded,
    /// 429, or the server asks to come back later.
    RateLimited,
    /// The account's quota or credit is used up: it is filled again by time or by a person.
    QuotaExhausted,
    /// The prompt does not fit the model's context.
    ContextTooLong,
    /// The server does not accept the request.
    BadRequest,
    /// The key is missing or wrong.
    Unauthorized,
    /// A filter of the server refuses the prompt.
    ContentFilter,
    /// The server failed (5xx).
    ServerError,
    /// The stream broke off or carried an error.
    StreamBroken,
    /// A time limit passed; the message says which.
    Timeout,
    /// The answer is not what the protocol says.
    BadResponse,
}

impl ModelErrorKind {
    /// Whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Transport
            | Self::Overloaded
            | Self::RateLimited
            | Self::QuotaExhausted
            | Self::ServerError
            | Self::StreamBroken
            | Self::Timeout
            | Self::BadResponse => true,
            Self::ContextTooLong | Self::BadRequest | Self::Unauthorized | Self::ContentFilter => {
                false
            }
        }
    }

    /// The stored name, for example `rate_limited`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Overloaded => "overloaded",
            Self::RateLimited => "rate_limited",
            Self::QuotaExhausted => "quota_exhausted",
            Self::ContextTooLong => "context_too_long",
            Self::BadRequest => "bad_request",
            Self::Unauthorized => "unauthorized",
            Self::ContentFilter => "content_filter",
            Self::ServerError => "server_error",
            Self::StreamBroken => "stream_broken",
            Self::Timeout => "timeout",
            Self::BadResponse => "bad_response",
        }
    }
}
