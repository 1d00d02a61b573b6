//! `step`: one thing, and then it is held again.

use stepwell_proto::v1::{ResumeSessionRequest, Session, SessionStatus};

use crate::args::ResumeArgs;
use crate::commands::events::look_back;
use crate::commands::follow::{End, Follow, News, Then, follow};
use crate::commands::submit::{Watcher, interrupted};
use crate::commands::{Context, actor, answer, expected, get_session, refuse_file};
use crate::exit::Exit;
use crate::view;

pub(in crate::commands) async fn run(context: &Context, args: ResumeArgs) -> anyhow::Result<Exit> {
    refuse_file(&args.session.id)?;
    let client = context.client().await?;
    let before = get_session(&client, &args.session.id).await?;
    let before = expected(before.session.as_ref(), "session")?;
    let id = before.session_id.as_str();
    let requested_by = actor(&args.actor)?;
    let request = ResumeSessionRequest { session_id: id.to_owned(), requested_by, once: true };
    answer(&client, client.sessions().resume_session(request)).await?;
    let mut watcher = Watcher::new(context, false);
    look_back(&client, id, before.head_seq, watcher.narrator()).await?;
    let mut take = |news: News<'_>| match news {
        News::Quiet(response) if is_at_rest(response.session.as_ref().map(Session::status)) => {
            Ok(Then::Stop)
        }
        news => watcher.take(&news),
    };
    let after_seq = before.head_seq;
    let what = Follow { client: &client, session_id: id, after_seq, events_only: true };
    let end = follow(what, &mut take).await?;
    watcher.end()?;
    if let End::Interrupted = end {
        return Ok(interrupted(context, id));
    }
    let response = get_session(&client, id).await?;
    let session = expected(response.session.as_ref(), "session")?;
    if !context.out.is_json {
        context.out.line(&view::session::line(session, context.out.paint))?;
        for command in view::session::next_commands(session, &response) {
            context.out.faint_remark(&format!("  {command}"));
        }
    }
    Ok(Exit::Ok)
}

/// Whether what was let through has come to its end.
fn is_at_rest(status: Option<SessionStatus>) -> bool {
    match status {
        Some(SessionStatus::Thinking | SessionStatus::ExecutingTools) => false,
        Some(_) | None => true,
    }
}
