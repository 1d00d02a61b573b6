//! Which session or approval a person means: whole ids and short prefixes.

use stepwell_core::summary::{ApprovalRow, ApprovalStatus, SessionRow};
use stepwell_core::{ApprovalId, SessionId};
use stepwell_ports::store::PAGE_ROWS_MAX;
use stepwell_ports::{ApprovalFilter, SessionFilter, Store};
use tonic::Status;

use crate::convert::BadField;
use crate::status;

/// Characters of a session id.
const ID_CHARS: usize = 26;

/// Shortest prefix that names a session. Shorter ones would name another one tomorrow.
pub const PREFIX_CHARS_MIN: usize = 4;

/// Candidates that are listed when a prefix fits several.
const CANDIDATES_MAX: usize = 5;

/// The session with this id, or the only one whose id begins so. Any case.
///
/// # Errors
/// `INVALID_ARGUMENT` for what is no id or fits several sessions, `NOT_FOUND`, and the store's.
pub(crate) async fn session(store: &dyn Store, text: &str) -> Result<SessionId, Status> {
    let id = text.trim().to_uppercase();
    let bad = |problem: String| Status::from(BadField::new("session_id", problem));
    if id.is_empty() {
        return Err(bad("is empty: stepwell ls lists sessions".into()));
    }
    if id.len() > ID_CHARS || !id.chars().all(|it| it.is_ascii_alphanumeric()) {
        return Err(bad(format!(
            "{text:?} is no session id: it has {ID_CHARS} letters and digits"
        )));
    }
    if id.len() == ID_CHARS {
        let session_id: SessionId = id.parse().map_err(|error| bad(format!("{error}")))?;
        let found = store.session(session_id).await.map_err(|error| status::store(&error))?;
        return found.map(|_| session_id).ok_or_else(|| status::no_session(&id));
    }
    if id.len() < PREFIX_CHARS_MIN {
        let problem =
            format!("{text:?} is too short: give the first {PREFIX_CHARS_MIN} characters or more");
        return Err(bad(problem));
    }
    let filter = SessionFilter { id_prefix: Some(id.clone()), ..SessionFilter::default() };
    let page = store.sessions(&filter, None, CANDIDATES_MAX + 1).await;
    let rows = page.map_err(|error| status::store(&error))?.rows;
    match rows.as_slice() {
        [] => Err(status::no_session(&format!("whose id begins with {id}"))),
        [only] => Ok(only.session_id),
        several => Err(bad(ambiguous(&id, several))),
    }
}

fn ambiguous(prefix: &str, rows: &[SessionRow]) -> String {
    let candidate = |row: &SessionRow| {
        format!("\n  {}  {}  {}", row.session_id, row.status.as_str(), row.title)
    };
    let listed: String = rows.iter().take(CANDIDATES_MAX).map(candidate).collect();
    let more = if rows.len() > CANDIDATES_MAX { "\n  … and more" } else { "" };
    format!("{prefix} fits several sessions, give more characters:{listed}{more}")
}

/// The approval `SESSION.NUMBER`, or the only open one of a session. `SESSION` may be a prefix.
///
/// # Errors
/// As [`session`]; `FAILED_PRECONDITION` when the session has none or several open ones.
pub(crate) async fn approval(
    store: &dyn Store,
    text: &str,
) -> Result<(SessionId, ApprovalId), Status> {
    let text = text.trim();
    if text.is_empty() {
        let problem = "is empty: stepwell approvals lists the open ones";
        return Err(BadField::new("approval_id", problem).into());
    }
    if let Some((session, number)) = text.split_once('.') {
        let session_id = self::session(store, session).await?;
        let is_number = !number.is_empty() && number.chars().all(|it| it.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_number).ok_or_else(|| {
            BadField::new("approval_id", format!("{text:?} is none: it is SESSION.NUMBER"))
        })?;
        return Ok((session_id, ApprovalId(number)));
    }
    let session_id = self::session(store, text).await?;
    let open = approvals(store, session_id, vec![ApprovalStatus::Open]).await?;
    match open.as_slice() {
        [only] => Ok((session_id, only.approval_id)),
        [] => Err(none_open(store, session_id).await?),
        several => {
            let candidate =
                |row: &ApprovalRow| format!("\n  {session_id}.{}  {}", row.approval_id, row.tool);
            let listed: String = several.iter().take(CANDIDATES_MAX).map(candidate).collect();
            Err(Status::failed_precondition(format!(
                "session {session_id} has several open approvals, name one:{listed}"
            )))
        }
    }
}

/// Says so, and what became of the last approval: it is most likely the one that is meant.
async fn none_open(store: &dyn Store, session_id: SessionId) -> Result<Status, Status> {
    let closed = approvals(store, session_id, Vec::new()).await?;
    let last = match closed.first() {
        None => String::new(),
        Some(row) => format!(
            "; its last one, {session_id}.{} about `{}`, is {}{}",
            row.approval_id,
            row.tool,
            row.status.as_str(),
            if row.decided_by.is_empty() {
                String::new()
            } else {
                format!(" by {}", row.decided_by)
            }
        ),
    };
    Ok(Status::failed_precondition(format!("session {session_id} has no open approval{last}")))
}

/// The latest approvals of a session, newest first.
async fn approvals(
    store: &dyn Store,
    session_id: SessionId,
    statuses: Vec<ApprovalStatus>,
) -> Result<Vec<ApprovalRow>, Status> {
    let filter = ApprovalFilter { statuses, session_id: Some(session_id) };
    let page = store.approvals(&filter, None, PAGE_ROWS_MAX).await;
    Ok(page.map_err(|error| status::store(&error))?.rows)
}

/// One approval of a session, in whatever state. Walks the pages, newest first.
pub(crate) async fn approval_row(
    store: &dyn Store,
    session_id: SessionId,
    approval_id: ApprovalId,
) -> Result<Option<ApprovalRow>, Status> {
    let filter = ApprovalFilter { statuses: Vec::new(), session_id: Some(session_id) };
    let mut token: Option<String> = None;
    loop {
        let page = store.approvals(&filter, token.as_deref(), PAGE_ROWS_MAX).await;
        let page = page.map_err(|error| status::store(&error))?;
        if let Some(row) = page.rows.into_iter().find(|row| row.approval_id == approval_id) {
            return Ok(Some(row));
        }
        match page.next_page {
            Some(next) => token = Some(next),
            None => return Ok(None),
        }
    }
}
