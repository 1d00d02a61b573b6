//! Content of the event with which a fork begins.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::event::{ModelReplied, ToolOutcome};
use crate::ids::{CallId, Seq, SessionId};
use crate::json::JsonText;
use crate::text::Text;

/// See [`EventBody::OverrideApplied`](super::EventBody::OverrideApplied).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverrideApplied {
    /// The session whose first events this one begins with.
    pub parent: SessionId,
    /// How many of them: the seq of the last one.
    pub parent_seq: Seq,
    /// Bytes that make this session's derived values (jitter) its own; the session id.
    pub seed: String,
    /// Name for lists; the parent's when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The definition that holds from here on, whole; the parent's when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<Agent>>,
    /// Folder of the workspace, below the workers' folder for workspaces.
    pub workspace: String,
    /// What is otherwise than in the parent, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// The fork begins held.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub paused: bool,
    /// What the parent's calls were let do is not let here, and what became of those on their way is
    /// asked. Forks of schema 2 and before went on by the parent's leave.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub asks_anew: bool,
}

/// One thing that is otherwise in a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// An open call came to this end; it does not run.
    ToolResult {
        /// The call.
        call_id: CallId,
        /// Whether it did its work.
        outcome: ToolOutcome,
        /// Its result, or its error in words.
        output: Text,
    },
    /// The model said this.
    ModelReply(Box<ModelReplied>),
    /// An open call that did not start has these arguments.
    Arguments {
        /// The call.
        call_id: CallId,
        /// They fit the tool's schema.
        arguments: JsonText,
    },
    /// Somebody says this.
    Message {
        /// The text.
        content: Text,
    },
}

impl Edit {
    /// In words, for lists and reports.
    pub fn in_words(&self) -> String {
        match self {
            Self::ToolResult { call_id, .. } => alloc::format!("another result of call {call_id}"),
            Self::ModelReply(reply) => alloc::format!("another reply in step {}", reply.step),
            Self::Arguments { call_id, .. } => {
                alloc::format!("other arguments of call {call_id}")
            }
            Self::Message { .. } => "a message".into(),
        }
    }
}
