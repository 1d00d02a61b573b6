//! `explain`: why a session is where it is, and what would move it.

use serde::Serialize;
use stepwell_proto::v1::{GetSessionResponse, GetStateRequest};

use crate::commands::source::Opened;
use crate::commands::{Context, answer, expected, get_session};
use crate::exit::Exit;
use crate::time;
use crate::view;
use crate::view::session::{Question, questions};

pub(in crate::commands) async fn run(context: &Context, id: &str) -> anyhow::Result<Exit> {
    #[derive(Serialize)]
    struct Explained<'a> {
        session_id: &'a str,
        status: String,
        explain: &'a str,
        since_ms: i64,
        ownership: &'a str,
        questions: Vec<Question>,
        next: Vec<String>,
    }
    let opened = context.open(id).await?;
    let response = where_it_is(&opened).await?;
    let session = expected(response.session.as_ref(), "session")?;
    // What lies in a file is moved by nothing.
    let commands = || view::session::next_commands(session, &response);
    let next = if opened.is_file { Vec::new() } else { commands() };
    let questions = questions(&response);
    let out = context.out;
    if out.is_json {
        out.json(&Explained {
            session_id: &session.session_id,
            status: view::json::status_name(session.status()),
            explain: &session.explain,
            since_ms: session.updated_at_ms,
            ownership: &response.ownership,
            questions,
            next,
        })?;
        return Ok(Exit::Ok);
    }
    let since = view::when::relative(session.updated_at_ms, time::now_ms());
    out.line(&format!("{}  {}", view::session::why(session), out.paint.faint(since)))?;
    for question in &questions {
        out.lines(&question.lines(out.paint))?;
    }
    next.iter().try_for_each(|command| out.line(&format!("  {command}")))?;
    Ok(Exit::Ok)
}

/// Of a file only what its history says: what a server would add (no worker offers the tool) is not
/// known of the one where it ran.
async fn where_it_is(opened: &Opened) -> anyhow::Result<GetSessionResponse> {
    let Opened { client, id, is_file, .. } = opened;
    if !is_file {
        return get_session(client, id).await;
    }
    let request = GetStateRequest { session_id: id.clone(), ..GetStateRequest::default() };
    let state = answer(client, client.history().get_state(request)).await?;
    Ok(GetSessionResponse {
        session: state.session,
        open_calls: state.open_calls,
        open_approvals: state.open_approvals,
        ..GetSessionResponse::default()
    })
}
