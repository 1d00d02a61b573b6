//! What a server's sessions need of a person: the damaged ones, the questions, the approvals.

use stepwell_proto::v1::{ListApprovalsRequest, ListSessionsRequest, Session, SessionStatus};

use super::Finding;
use crate::client::{Client, Refusal};
use crate::view::when::counted;

/// So many of each are counted.
const COUNTED_MAX: u32 = 1_000;
/// So many are named.
const NAMED_MAX: usize = 3;
/// How an approval asks what became of a call.
const WHAT_HAPPENED: &str = "what_happened";

/// Looks at the sessions of a server that answers.
pub(super) async fn look(client: &Client) -> Vec<Finding> {
    let found = async {
        Ok::<_, Refusal>(vec![
            damaged(&sessions(client, SessionStatus::Quarantined).await?),
            questions(&sessions(client, SessionStatus::WaitingInput).await?),
            held(&sessions(client, SessionStatus::Paused).await?),
            approvals(client).await?,
        ])
    };
    found.await.unwrap_or_else(|refusal| {
        vec![Finding::fail("sessions", refusal.message, "look at the server's log")]
    })
}

async fn sessions(client: &Client, status: SessionStatus) -> Result<Vec<Session>, Refusal> {
    let request = ListSessionsRequest {
        statuses: vec![status.into()],
        page_size: COUNTED_MAX,
        ..ListSessionsRequest::default()
    };
    let response = client.sessions().list_sessions(request).await;
    Ok(response.map_err(|status| client.refusal(&status))?.into_inner().sessions)
}

async fn approvals(client: &Client) -> Result<Finding, Refusal> {
    let request =
        ListApprovalsRequest { page_size: COUNTED_MAX, ..ListApprovalsRequest::default() };
    let response = client.approvals().list_approvals(request).await;
    let open = response.map_err(|status| client.refusal(&status))?.into_inner().approvals;
    let lost = open.iter().filter(|it| it.question == WHAT_HAPPENED).count();
    Ok(open_approvals(open.len(), lost))
}

fn damaged(sessions: &[Session]) -> Finding {
    let Some(first) = sessions.first() else {
        return Finding::ok("sessions", "none is quarantined");
    };
    let message = format!("{} quarantined: {}", number(sessions.len(), "session"), named(sessions));
    let next = format!(
        "see why with: stepwell explain {}; restore a backup, or delete it",
        first.session_id
    );
    Finding::fail("sessions", message, next)
}

fn questions(sessions: &[Session]) -> Finding {
    let Some(first) = sessions.first() else {
        return Finding::ok("waiting", "no session waits for an answer");
    };
    let verb = if sessions.len() == 1 { "waits" } else { "wait" };
    let (count, names) = (number(sessions.len(), "session"), named(sessions));
    let message = format!("{count} {verb} for an answer: {names}");
    Finding::warn("waiting", message, format!("read it with: stepwell show {}", first.session_id))
}

fn held(sessions: &[Session]) -> Finding {
    let Some(first) = sessions.first() else {
        return Finding::ok("held", "no session is paused");
    };
    let verb = if sessions.len() == 1 { "is" } else { "are" };
    let (count, names) = (number(sessions.len(), "session"), named(sessions));
    let message = format!("{count} {verb} paused, or held since the import: {names}");
    Finding::warn(
        "held",
        message,
        format!("let it go on with: stepwell resume {}", first.session_id),
    )
}

fn open_approvals(open: usize, lost: usize) -> Finding {
    if open == 0 {
        return Finding::ok("approval", "none waits");
    }
    let verb = if open == 1 { "waits" } else { "wait" };
    let mut message = format!("{} {verb} for a person", number(open, "action"));
    if lost > 0 {
        message = format!("{message}, the outcome of {lost} is unknown");
    }
    Finding::warn("approval", message, "see them with: stepwell approvals")
}

/// A full page may have more behind it.
fn number(count: usize, what: &str) -> String {
    let at_least = if count == COUNTED_MAX as usize { "at least " } else { "" };
    format!("{at_least}{}", counted(count, what))
}

fn named(sessions: &[Session]) -> String {
    let mut names: Vec<&str> =
        sessions.iter().take(NAMED_MAX).map(|it| it.session_id.as_str()).collect();
    if sessions.len() > NAMED_MAX {
        names.push("…");
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    fn sessions_of(count: usize) -> Vec<Session> {
        let session = |n| Session { session_id: format!("01J{n}"), ..Session::default() };
        (0..count).map(session).collect()
    }

    #[test]
    fn a_quarantined_session_is_a_failure_with_the_next_command() {
        let finding = damaged(&sessions_of(4));
        assert_eq!(finding.status, Health::Fail);
        assert_eq!(finding.message, "4 sessions quarantined: 01J0, 01J1, 01J2, …");
        assert!(finding.next.contains("stepwell explain 01J0"), "{finding:?}");
        assert_eq!(damaged(&[]).status, Health::Ok);
    }

    #[test]
    fn what_waits_for_a_person_is_counted() {
        for (open, lost, message) in [
            (0, 0, "none waits"),
            (1, 0, "1 action waits for a person"),
            (3, 1, "3 actions wait for a person, the outcome of 1 is unknown"),
            (1_000, 0, "at least 1,000 actions wait for a person"),
        ] {
            let finding = open_approvals(open, lost);
            let status = if open == 0 { Health::Ok } else { Health::Warn };
            assert_eq!((finding.message.as_str(), finding.status), (message, status));
        }
        assert_eq!(questions(&sessions_of(1)).message, "1 session waits for an answer: 01J0");
        let finding = held(&sessions_of(2));
        assert_eq!(finding.message, "2 sessions are paused, or held since the import: 01J0, 01J1");
        assert_eq!(finding.next, "let it go on with: stepwell resume 01J0");
        assert_eq!(held(&[]).status, Health::Ok);
    }
}
