//! What a tool is handed with each call besides its arguments.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The call's surroundings.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The session that called.
    pub session_id: String,
    /// The call, unique in its session.
    pub call_id: String,
    /// Which try of this call this is, from 1.
    pub attempt: u32,
    /// `session/call`: the same for every attempt, to hand on to systems that know such keys.
    pub idempotency_key: String,
    /// The folder that the session's tools work in.
    pub workspace: PathBuf,
    /// Fires when the call is to stop.
    pub cancel: CancellationToken,
    /// When the call must be over.
    pub deadline: Instant,
    /// Where text goes that a person watching may see before the call is over.
    pub output: OutputSink,
}

impl ToolContext {
    /// The time left until the deadline.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Takes live text. It never waits and never fails: when nobody keeps up, text is dropped, because
/// the call's result holds the output anyway.
#[derive(Debug, Clone, Default)]
pub struct OutputSink {
    sender: Option<mpsc::Sender<String>>,
}

impl OutputSink {
    /// A sink and the end that receives; `capacity` chunks wait at most (at least 1).
    pub fn channel(capacity: usize) -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self { sender: Some(sender) }, receiver)
    }

    /// A sink that drops everything.
    pub fn discard() -> Self {
        Self { sender: None }
    }

    /// Hands a chunk on if there is room. Empty text is not sent.
    pub fn send(&self, text: impl Into<String>) {
        let text = text.into();
        if let Some(sender) = self.sender.as_ref().filter(|_| !text.is_empty()) {
            // A full or closed channel is no trouble of the tool's; see the type's doc.
            drop(sender.try_send(text));
        }
    }

    /// Whether a chunk sent now would be taken. Lets a tool skip the work of making one.
    pub fn has_room(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_closed() && sender.capacity() > 0)
    }
}
