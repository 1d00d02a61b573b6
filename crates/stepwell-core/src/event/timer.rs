//! Timers and the contents of their events.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ids::{ApprovalId, CallId, IdError, TimestampMs};

/// What a timer is for. At most one of each is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Ask the model again.
    ModelRetry,
    /// Start a lost tool call again.
    ToolRetry(CallId),
    /// The `sleep` call is over.
    Sleep(CallId),
    /// The approval lapses.
    ApprovalExpiry(ApprovalId),
    /// The session's time is up.
    Deadline,
    /// Tools had their time to stop after a cancel.
    CancelGrace,
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModelRetry => f.write_str("model_retry"),
            Self::ToolRetry(call_id) => write!(f, "tool_retry:{call_id}"),
            Self::Sleep(call_id) => write!(f, "sleep:{call_id}"),
            Self::ApprovalExpiry(approval_id) => write!(f, "approval_expiry:{approval_id}"),
            Self::Deadline => f.write_str("deadline"),
            Self::CancelGrace => f.write_str("cancel_grace"),
        }
    }
}

impl FromStr for Timer {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let timer = match text.split_once(':') {
            None if text == "model_retry" => Some(Self::ModelRetry),
            None if text == "deadline" => Some(Self::Deadline),
            None if text == "cancel_grace" => Some(Self::CancelGrace),
            Some(("tool_retry", id)) => id.parse().ok().map(Self::ToolRetry),
            Some(("sleep", id)) => id.parse().ok().map(Self::Sleep),
            Some(("approval_expiry", id)) => {
                id.parse().ok().map(|id| Self::ApprovalExpiry(ApprovalId(id)))
            }
            None | Some(_) => None,
        };
        timer.ok_or_else(|| IdError {
            what: "timer",
            text: text.into(),
            expected: "for example model_retry or sleep:3.1",
        })
    }
}

impl Serialize for Timer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <alloc::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// See [`EventBody::TimerStarted`](super::EventBody::TimerStarted).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerStarted {
    /// What it is for.
    pub timer: Timer,
    /// When it is due, in wall time: a clock that jumps forward makes it fire at once.
    pub due_at: TimestampMs,
}

/// See [`EventBody::TimerFired`](super::EventBody::TimerFired).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerFired {
    /// Which timer.
    pub timer: Timer,
    /// When it was due; the event's time says when it was noticed.
    pub due_at: TimestampMs,
}
