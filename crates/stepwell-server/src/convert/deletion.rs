//! `DeleteSessions`, checked, and its answer.

use stepwell_core::{SessionId, Status};
use stepwell_ports::{DeleteOnly, Deleted, SessionSize};
use stepwell_proto::v1;

use super::BadField;
use super::incoming::{statuses, time_before};

/// Sessions of one request.
pub const DELETE_MAX: usize = 100;

/// Sessions that a client wants to be gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// Ids or prefixes.
    pub(crate) sessions: Vec<String>,
    pub(crate) only: DeleteOnly,
    pub(crate) is_dry_run: bool,
}

impl TryFrom<v1::DeleteSessionsRequest> for Deletion {
    type Error = BadField;

    fn try_from(request: v1::DeleteSessionsRequest) -> Result<Self, BadField> {
        let count = request.session_ids.len();
        if !(1..=DELETE_MAX).contains(&count) {
            let problem = format!("holds {count} ids: give 1 to {DELETE_MAX} in one request");
            return Err(BadField::new("session_ids", problem));
        }
        let asked = statuses(&request.statuses)?;
        let statuses = if request.force { asked } else { over(&asked)? };
        let updated_before = time_before(request.updated_before_ms)?;
        Ok(Self {
            sessions: request.session_ids,
            only: DeleteOnly { statuses, updated_before },
            is_dry_run: request.dry_run,
        })
    }
}

/// Those that are over; all of these when nothing is asked for.
fn over(asked: &[Status]) -> Result<Vec<Status>, BadField> {
    if asked.is_empty() {
        return Ok(Status::ALL.into_iter().filter(|it| it.is_final()).collect());
    }
    match asked.iter().position(|it| !it.is_final()) {
        None => Ok(asked.to_vec()),
        Some(i) => {
            let problem = "is one of sessions that are not over: cancel them first, or set force";
            Err(BadField::new(format!("statuses[{i}]"), problem))
        }
    }
}

/// What became of a session, and what it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) session_id: SessionId,
    pub(crate) deleted: Deleted,
    pub(crate) size: SessionSize,
}

/// The answer about one session.
pub(crate) fn deleted(outcome: Outcome, asked: &Deletion) -> v1::DeletedSession {
    let Outcome { session_id, deleted, size } = outcome;
    let Deletion { only, is_dry_run, .. } = asked;
    let (word, reason) = match deleted {
        Deleted::Yes if *is_dry_run => ("would_delete", String::new()),
        Deleted::Yes => ("deleted", String::new()),
        Deleted::NotFound => ("not_found", format!("there is no session {session_id}")),
        Deleted::Kept { status, .. } => ("kept", why_kept(session_id, status, only)),
    };
    v1::DeletedSession {
        session_id: session_id.to_string(),
        outcome: word.to_owned(),
        reason,
        events: size.events,
        bytes: size.bytes,
    }
}

fn why_kept(session_id: SessionId, status: Status, only: &DeleteOnly) -> String {
    let name = status.as_str();
    let may_have_status = only.statuses.is_empty() || only.statuses.contains(&status);
    if may_have_status {
        "its last update is not old enough".to_owned()
    } else if status.is_final() {
        format!("it is {name}, which was not asked for")
    } else {
        format!(
            "it is {name}: cancel it first (stepwell cancel {session_id}), or delete it with --force"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(ids: usize) -> v1::DeleteSessionsRequest {
        let session_ids = vec!["01J".to_owned(); ids];
        v1::DeleteSessionsRequest { session_ids, ..v1::DeleteSessionsRequest::default() }
    }

    #[test]
    fn only_what_is_over_may_be_deleted_without_force() {
        let deletion = Deletion::try_from(request(1)).unwrap();
        assert_eq!(deletion.only.statuses.len(), 5);
        assert!(deletion.only.statuses.iter().all(|it| it.is_final()));
        let thinking = v1::DeleteSessionsRequest {
            statuses: vec![v1::SessionStatus::Thinking.into()],
            ..request(1)
        };
        let error = Deletion::try_from(thinking.clone()).unwrap_err().to_string();
        assert!(error.starts_with("statuses[0]: ") && error.contains("cancel"), "{error}");
        let forced = v1::DeleteSessionsRequest { force: true, ..thinking };
        assert_eq!(Deletion::try_from(forced).unwrap().only.statuses, [Status::Thinking]);
    }

    #[test]
    fn a_request_is_bounded_and_its_time_is_one() {
        for ids in [0, DELETE_MAX + 1] {
            let error = Deletion::try_from(request(ids)).unwrap_err().to_string();
            assert!(error.starts_with("session_ids: "), "{error}");
        }
        let before = v1::DeleteSessionsRequest { updated_before_ms: -1, ..request(1) };
        let error = Deletion::try_from(before).unwrap_err().to_string();
        assert!(error.starts_with("updated_before_ms: "), "{error}");
    }

    #[test]
    fn what_is_kept_says_why() {
        let session_id = SessionId::from_random([1; 16]);
        let only = DeleteOnly { statuses: vec![Status::Completed], updated_before: None };
        for (status, words) in [
            (Status::Thinking, "stepwell cancel"),
            (Status::Failed, "not asked for"),
            (Status::Completed, "not old enough"),
        ] {
            let reason = why_kept(session_id, status, &only);
            assert!(reason.contains(words), "{reason}");
        }
    }
}
