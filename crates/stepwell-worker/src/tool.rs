//! What every tool is: a description that the model and the server see, and a call.

use std::time::Duration;

use async_trait::async_trait;

use crate::context::ToolContext;

/// What a call can do to the world. It decides what happens when a call was started and its
/// outcome is unknown, and whether a person is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Effect {
    /// Changes nothing; may run any number of times.
    Read,
    /// The same call with the same idempotency key changes the world at most once.
    Idempotent,
    /// Changes the world; is never started twice blindly. What nobody declared is this.
    #[default]
    Write,
}

impl Effect {
    /// The name in logs and on the command line: `read`, `idempotent` or `write`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Write => "write",
        }
    }
}

/// What a worker registers a tool with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDescription {
    /// The name that the model calls: 1 to 64 of `a-z A-Z 0-9 _ -`.
    pub name: String,
    /// What the tool does and when to use it, for the model.
    pub description: String,
    /// JSON Schema text of the arguments; its type is `object`.
    pub parameters: String,
    /// JSON Schema text of the output, if the output is JSON with a known shape.
    pub output_schema: Option<String>,
    /// What a call can do to the world.
    pub effect: Effect,
    /// How long one call may take.
    pub timeout: Duration,
    /// How many calls one worker runs side by side; at least 1.
    pub concurrency: u32,
}

impl ToolDescription {
    /// How long a call may take where the tool says nothing: long enough for a web request with
    /// retries, short enough that a stuck tool is noticed.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
    /// How many calls run side by side where the tool says nothing: a model rarely asks for more
    /// in one step.
    pub const CONCURRENCY_DEFAULT: u32 = 8;
    /// How long after the deadline a host still waits for a tool that is ending by itself, so that
    /// the output so far is not lost.
    pub const DEADLINE_GRACE: Duration = Duration::from_secs(8);
}

/// What a call that went well gives back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput {
    /// What the model sees.
    pub text: String,
    /// The whole output as bytes, where `text` was shortened or could not show every byte.
    pub full: Option<Vec<u8>>,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self { text, full: None }
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

/// Why a call did not go well. The model sees each of them; see [`ToolError::into_output`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The tool could not do it; the text says why and what to do instead.
    #[error("{0}")]
    Failed(String),
    /// The call was told to stop and did.
    #[error("cancelled")]
    Cancelled {
        /// What the call had produced until then.
        partial: Option<ToolOutput>,
    },
    /// The call ran out of time and was stopped.
    #[error("timed out after {} s", after.as_secs())]
    TimedOut {
        /// How long the call ran.
        after: Duration,
        /// What the call had produced until then.
        partial: Option<ToolOutput>,
    },
}

impl ToolError {
    /// A failure with this message.
    pub fn failed(message: impl std::fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// What the model is shown: the output so far, if there is some (it names the reason itself),
    /// else the reason.
    pub fn into_output(self) -> ToolOutput {
        let reason = self.to_string();
        match self {
            Self::Failed(_) => reason.into(),
            Self::Cancelled { partial } | Self::TimedOut { partial, .. } => {
                partial.unwrap_or_else(|| reason.into())
            }
        }
    }
}

/// The outcome of a call.
pub type ToolResult = Result<ToolOutput, ToolError>;

/// A tool that a worker offers.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What the tool is registered with. Called once, when it is added to a toolbox.
    fn describe(&self) -> ToolDescription;

    /// Runs one call. `arguments` is JSON text; the server has checked it against the schema, and
    /// a tool never trusts that. The future may be dropped at any await: whatever it started must
    /// then end by itself.
    async fn call(&self, context: ToolContext, arguments: &str) -> ToolResult;
}
