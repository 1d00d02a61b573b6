//! `show --at`: a session as it was right after an event.

use stepwell_proto::v1::{GetSessionResponse, GetStateRequest, GetStateResponse};

use crate::args::ShowArgs;
use crate::commands::{Context, answer, expected};
use crate::exit::Exit;
use crate::view;
use crate::view::session::Page;
use crate::view::visible::{Care, block};

/// Most messages of one request.
const MESSAGES_MAX: u32 = 1_000;

pub(in crate::commands) async fn run(context: &Context, args: &ShowArgs) -> anyhow::Result<Exit> {
    let opened = context.open(&args.session.id).await?;
    let client = &opened.client;
    let wanted = args.messages.unwrap_or_default().min(MESSAGES_MAX);
    let request = GetStateRequest {
        session_id: opened.id.clone(),
        at_seq: args.at.unwrap_or_default(),
        messages_from: -i64::from(wanted),
        messages_limit: wanted,
    };
    let state: GetStateResponse = answer(client, client.history().get_state(request)).await?;
    let session = expected(state.session.as_ref(), "session")?;
    let out = context.out;
    if out.is_json {
        out.json(&view::json_history::state(session, &state))?;
        return Ok(Exit::Ok);
    }
    let is_past = opened.is_file || state.head_seq != session.head_seq;
    let at = match (opened.is_file, is_past) {
        (true, _) => args.session.id.as_str(),
        (false, true) => "then",
        (false, false) => "now",
    };
    out.faint_remark(&format!("event {} of {} ({at})", session.head_seq, state.head_seq));
    // What is known of the past is a part of what is known of the present.
    let shown = GetSessionResponse {
        open_calls: state.open_calls.clone(),
        open_approvals: state.open_approvals.clone(),
        answer: state.answer.clone(),
        ..GetSessionResponse::default()
    };
    let page = Page { is_past, ..context.page() };
    out.lines(&view::session::page(session, &shown, &page))?;
    let limits = state.limits.unwrap_or_default();
    out.line(&format!("steps {} of {}", limits.steps, limits.steps_max))?;
    for timer in &state.timers {
        let due = view::session::both(timer.due_at_ms, &context.page());
        out.line(&format!("timer {} {due}", timer.name))?;
    }
    for (message, number) in state.messages_json.iter().zip(state.messages_from..) {
        out.line(&format!("\n{}", out.paint.faint(format!("message {number}"))))?;
        out.line(&block(message, Care::Exact, out.paint))?;
    }
    Ok(Exit::Ok)
}
