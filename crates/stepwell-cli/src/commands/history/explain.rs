//! `explain`: why a session is where it is, and what would move it.

use serde::Serialize;

use crate::commands::{Context, expected, get_session};
use crate::exit::Exit;
use crate::time;
use crate::view;
use crate::view::session::{Question, questions};
use crate::view::visible::brief;

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
    let client = context.client().await?;
    let response = get_session(&client, id).await?;
    let session = expected(response.session.as_ref(), "session")?;
    let next = view::session::next_commands(session, &response);
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
    out.line(&format!("{}  {}", brief(&session.explain), out.paint.faint(since)))?;
    for question in &questions {
        out.lines(&question.lines(out.paint))?;
    }
    next.iter().try_for_each(|command| out.line(&format!("  {command}")))?;
    Ok(Exit::Ok)
}
