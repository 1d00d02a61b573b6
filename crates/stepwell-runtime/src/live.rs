//! What watchers are told: that a session's head moved, and pieces of things that are not finished.
//!
//! Invariant: nothing here is the truth. A watcher that misses a notice reads the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stepwell_core::{CallId, Seq, SessionId};
use tokio::sync::{broadcast, watch};

/// Pieces that a watcher may be behind before it loses some.
const CHUNKS_BEHIND_MAX: usize = 256;

/// A piece of something that is not finished. Never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChunk {
    /// What it is a piece of.
    pub kind: LiveChunkKind,
    /// The text.
    pub text: String,
    /// The step.
    pub step: u32,
    /// The attempt of the model call or tool call.
    pub attempt: u32,
    /// The tool call, for output.
    pub call_id: Option<CallId>,
}

/// What a live piece is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveChunkKind {
    /// The model's answer.
    Content,
    /// The model's reasoning.
    Reasoning,
    /// A tool's output.
    Output,
    /// Earlier pieces of this attempt are void.
    Reset,
}

impl LiveChunkKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Reasoning => "reasoning",
            Self::Output => "output",
            Self::Reset => "reset",
        }
    }
}

/// What only the live engine knows about a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveInfo {
    /// It is in memory.
    pub in_memory: bool,
    /// What it waits for that is not in its log: no room on the disk, no worker that offers a tool.
    pub blocked: Option<String>,
    /// It is out of memory until a worker offers this tool.
    pub absent_tool: Option<String>,
}

/// A watcher's end: notices of new heads and live pieces of one session.
pub struct Subscription {
    /// Changes whenever the session's head moved. The value is the last head that was announced, 0
    /// when none was since the first watcher came.
    pub head: watch::Receiver<Seq>,
    /// Live pieces. `Lagged` means that some were lost, which the finished event makes good.
    pub chunks: broadcast::Receiver<LiveChunk>,
    channel: Arc<Channel>,
    session_id: SessionId,
    live: Arc<Live>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.live.forget_if_unwatched(self.session_id, &self.channel);
    }
}

struct Channel {
    head: watch::Sender<Seq>,
    chunks: broadcast::Sender<LiveChunk>,
}

/// The watched sessions.
#[derive(Default)]
pub(crate) struct Live {
    channels: Mutex<HashMap<SessionId, Arc<Channel>>>,
}

impl Live {
    /// Begins to watch. From here on no notice is missed.
    pub(crate) fn subscribe(self: &Arc<Self>, session_id: SessionId) -> Subscription {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channels.entry(session_id).or_insert_with(|| {
            let (head, _) = watch::channel(Seq(0));
            let (chunks, _) = broadcast::channel(CHUNKS_BEHIND_MAX);
            Arc::new(Channel { head, chunks })
        });
        Subscription {
            head: channel.head.subscribe(),
            chunks: channel.chunks.subscribe(),
            channel: channel.clone(),
            session_id,
            live: self.clone(),
        }
    }

    /// Tells the watchers of a session that its head moved.
    pub(crate) fn announce(&self, session_id: SessionId, head: Seq) {
        if let Some(channel) = self.channel(session_id) {
            channel.head.send_replace(head);
        }
    }

    /// Gives the watchers of a session a piece.
    pub(crate) fn chunk(&self, session_id: SessionId, chunk: LiveChunk) {
        if let Some(channel) = self.channel(session_id) {
            // Nobody listening is no error.
            let _ = channel.chunks.send(chunk);
        }
    }

    /// Whether anybody watches, so that nobody makes pieces for no one.
    pub(crate) fn is_watched(&self, session_id: SessionId) -> bool {
        self.channel(session_id).is_some()
    }

    fn channel(&self, session_id: SessionId) -> Option<Arc<Channel>> {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.get(&session_id).cloned()
    }

    fn forget_if_unwatched(&self, session_id: SessionId, channel: &Arc<Channel>) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        // The receiver of the caller still counts.
        if channel.head.receiver_count() <= 1 {
            channels.remove(&session_id);
        }
    }
}
