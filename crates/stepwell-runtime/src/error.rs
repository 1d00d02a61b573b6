//! Errors of the engine, by what the caller can do about them.

use stepwell_core::{Reject, Seq, SessionId};
use stepwell_ports::{AppendError, StoreError};

/// Why a request to the engine was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No such session.
    #[error("there is no session {session_id}")]
    NotFound {
        /// The session.
        session_id: SessionId,
    },
    /// The session has no such event yet.
    #[error("session {session_id} has no event {seq}: its last is {head}")]
    NoSuchEvent {
        /// The session.
        session_id: SessionId,
        /// The event that was asked for.
        seq: Seq,
        /// The last one.
        head: Seq,
    },
    /// The client's key was used for another request.
    #[error("the key was used before for another request, which became session {session_id}")]
    KeyTaken {
        /// The session of then.
        session_id: SessionId,
    },
    /// The client's key was used before for the same request, and its session was deleted since.
    #[error("the key was used before for this request, and its session {session_id} was deleted")]
    KeyOfDeleted {
        /// The session of then.
        session_id: SessionId,
    },
    /// The session does not accept it now.
    #[error(transparent)]
    Rejected(#[from] Reject),
    /// Arguments or a result do not fit the tool's schema.
    #[error("{what} {problem}")]
    Invalid {
        /// `the arguments` or `the result`.
        what: &'static str,
        /// What is wrong, with the place in the JSON.
        problem: String,
    },
    /// The session's log cannot be used.
    #[error("session {session_id} cannot be used, its history is damaged: {reason}")]
    Quarantined {
        /// The session.
        session_id: SessionId,
        /// Why.
        reason: String,
    },
    /// Another node owns the session; ask there, or again.
    #[error("session {session_id} changed hands: try again")]
    Moved {
        /// The session.
        session_id: SessionId,
    },
    /// The store cannot write or read now. Nothing was acknowledged; the outcome may be unknown.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine is going down; ask again when it is back.
    #[error("the server is shutting down: try again when it is back")]
    ShuttingDown,
    /// Too many requests wait for this session.
    #[error("session {session_id} has too many requests waiting: try again")]
    Busy {
        /// The session.
        session_id: SessionId,
    },
}

impl From<AppendError> for EngineError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::NotFound { session_id } => Self::NotFound { session_id },
            AppendError::Conflict { session_id, .. } | AppendError::Fenced { session_id, .. } => {
                Self::Moved { session_id }
            }
            AppendError::Malformed { reason, .. } => {
                Self::Store(StoreError::Failed { operation: "append", reason })
            }
            AppendError::Unavailable(error) => Self::Store(error),
        }
    }
}
