//! The model: one request, its answer or its failure, tokens on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use stepwell_core::SessionId;
use stepwell_core::account::Measured;
use stepwell_core::agent::ModelSpec;
use stepwell_core::event::{
    ContextSize, FinishReason, ModelErrorKind, ReplyTokens, TimeLimit, Usage,
};
use stepwell_core::prompt::Prompt;
use stepwell_core::tokens::Tokens;
use tokio_util::sync::CancellationToken;

/// One request to the model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The session that asks.
    pub session_id: SessionId,
    /// The step that asks, from 1.
    pub step: u32,
    /// The attempt within the step, from 1.
    pub attempt: u32,
    /// Which model, where, how long.
    pub model: ModelSpec,
    /// Which replica it should go to.
    pub affinity: Affinity,
    /// The session's last prompt that this model counted, which this one begins with.
    pub measured: Option<Measured>,
    /// The last request and the reply to it as this model's tokens, where they are known.
    pub tokens: Tokens,
    /// The exact request body, in segments ([`Prompt::body_segments`]).
    pub prompt: Prompt,
}

/// What ties a session to a replica: its prefix lies there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Affinity {
    /// The same for a session and all its forks.
    pub key: String,
    /// The address that answered last, as [`ModelAnswer::endpoint`] named it.
    pub holder: Option<String>,
    /// Addresses that failed to answer this request before, and how often.
    pub failed: BTreeMap<String, u32>,
}

impl Affinity {
    /// How often `endpoint` failed to answer this request before.
    pub fn failures_at(&self, endpoint: &str) -> u32 {
        self.failed.get(endpoint).copied().unwrap_or_default()
    }
}

/// A piece of an answer on its way to watchers. Never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChunk {
    /// Text of the answer.
    Content(String),
    /// Text of the reasoning.
    Reasoning(String),
}

/// Takes pieces of an answer. Must not block: a slow watcher loses pieces, not the session its time.
pub trait ModelSink: Send + Sync {
    /// One piece.
    fn chunk(&self, chunk: ModelChunk);
}

/// A whole answer, as the server gave it. Nothing is repaired or checked against schemas here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAnswer {
    /// What the model said.
    pub content: String,
    /// What the model thought.
    pub reasoning: String,
    /// The calls it asked for, in its order.
    pub tool_calls: Vec<WireToolCall>,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// The server's own word for that, where it says more.
    pub finish_word: Option<String>,
    /// Tokens as the server counted them; zeros when it did not say.
    pub usage: Usage,
    /// Address that answered.
    pub endpoint: String,
    /// Time to the first token, in milliseconds.
    pub first_token_ms: u64,
    /// The whole call, in milliseconds.
    pub duration_ms: u64,
    /// Request and reply as tokens, where they were asked for and the server told them.
    pub tokens: Option<Box<ReplyTokens>>,
}

/// A tool call as the server sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireToolCall {
    /// The server's id; empty when it gave none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The argument text, byte for byte.
    pub arguments: String,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{endpoint}: {message}")]
pub struct ModelFailure {
    /// Address that was asked.
    pub endpoint: String,
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// What the server or the transport said; never contains a key.
    pub message: String,
    /// HTTP status, when there was one.
    pub http_status: Option<u16>,
    /// How long the server asked us to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Which limit passed, for a timeout.
    pub time_limit: Option<TimeLimit>,
    /// What did not fit, for a prompt that is too long.
    pub context: Option<ContextSize>,
    /// It is this replica that refuses or has no quota left; another one of the same model may take
    /// the request now.
    pub elsewhere: bool,
}

impl ModelFailure {
    /// A failure of which no more is known.
    pub fn new(endpoint: String, kind: ModelErrorKind, message: String) -> Self {
        Self {
            endpoint,
            kind,
            message,
            http_status: None,
            retry_after_ms: None,
            time_limit: None,
            context: None,
            elsewhere: false,
        }
    }
}

/// A model behind an API.
#[async_trait]
pub trait ModelPort: Send + Sync + 'static {
    /// Makes one attempt; never repeats by itself.
    ///
    /// Cancelling `cancel` closes the connection at once; the result is then ignored. Dropping the
    /// future does the same.
    ///
    /// # Errors
    /// [`ModelFailure`], always with the address and the cause.
    async fn ask(
        &self,
        request: ModelRequest,
        sink: Arc<dyn ModelSink>,
        cancel: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure>;
}
