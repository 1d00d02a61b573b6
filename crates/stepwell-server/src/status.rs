//! Errors as callers see them: a gRPC code, and words that say what, where and what to do next.

use stepwell_core::{Reject, SessionId};
use stepwell_ports::StoreError;
use stepwell_runtime::EngineError;
use tonic::Status;

use crate::agent_file::AgentFileError;
use crate::convert::BadField;

impl From<BadField> for Status {
    fn from(bad: BadField) -> Self {
        Self::invalid_argument(bad.to_string())
    }
}

/// A definition that cannot be used; `field` is where it came from.
pub(crate) fn agent_file(field: &str, error: &AgentFileError) -> Status {
    Status::invalid_argument(format!("{field}: {error}"))
}

/// No session has that name.
pub(crate) fn no_session(what: &str) -> Status {
    Status::not_found(format!("there is no session {what}: stepwell ls lists them"))
}

/// An error of the store.
pub(crate) fn store(error: &StoreError) -> Status {
    let text = error.to_string();
    match error {
        StoreError::DiskFull { .. } | StoreError::ReadOnly { .. } | StoreError::Failed { .. } => {
            Status::unavailable(text)
        }
        StoreError::Corrupt { .. } => {
            Status::data_loss(format!("{text}; stepwell doctor says what is left"))
        }
        StoreError::BadPageToken { .. } => Status::invalid_argument(format!("page_token: {text}")),
    }
}

/// An error of the engine about that session.
pub(crate) fn engine(session_id: SessionId, error: EngineError) -> Status {
    match error {
        EngineError::NotFound { session_id } => no_session(&session_id.to_string()),
        EngineError::KeyTaken { .. } => {
            Status::already_exists(format!("client_key: {error}; take a new key for a new request"))
        }
        EngineError::NoSuchEvent { .. } => Status::out_of_range(error.to_string()),
        EngineError::KeyOfDeleted { .. } => Status::failed_precondition(format!(
            "client_key: {error}; take a new key to run the task again"
        )),
        EngineError::Rejected(reject) => rejected(session_id, &reject),
        EngineError::Invalid { .. } => Status::invalid_argument(error.to_string()),
        EngineError::Quarantined { .. } => Status::failed_precondition(format!(
            "{error}; what is readable of it: stepwell events {session_id}"
        )),
        EngineError::Moved { .. } | EngineError::Busy { .. } | EngineError::ShuttingDown => {
            Status::unavailable(error.to_string())
        }
        EngineError::Store(error) => store(&error),
    }
}

/// The session does not accept it now.
fn rejected(session_id: SessionId, reject: &Reject) -> Status {
    let with = |advice: String| format!("session {session_id}: {reject}{advice}");
    match reject {
        Reject::NotFound => no_session(&session_id.to_string()),
        Reject::UnknownApproval { .. } => {
            Status::not_found(with(": stepwell approvals lists the open ones".into()))
        }
        Reject::Finished { .. } => Status::failed_precondition(with(
            ": nothing moves it any more; stepwell submit starts a new one".into(),
        )),
        Reject::AlreadyDecided { .. } | Reject::ApprovalExpired { .. } => {
            Status::failed_precondition(with(format!(
                ": what followed from it, stepwell events {session_id}"
            )))
        }
        Reject::NoQuestion { .. } => Status::failed_precondition(with(
            ": leave the call out to send a plain message, or name an open question".into(),
        )),
        Reject::AlreadyExists
        | Reject::NotAsked { .. }
        | Reject::NotRunning { .. }
        | Reject::OtherWorker { .. }
        | Reject::MayNotStart { .. }
        | Reject::WrongAnswer { .. }
        | Reject::CannotFork { .. }
        | Reject::NotPaused
        | Reject::NothingToStep { .. }
        | Reject::ActionChanged { .. }
        | Reject::Forbidden { .. } => Status::failed_precondition(with(String::new())),
        Reject::Internal(_) | Reject::Endless => {
            Status::internal(with(": this is a bug of Stepwell, please report it".into()))
        }
    }
}
