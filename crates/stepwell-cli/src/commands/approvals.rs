//! `approvals`, `approve`, `deny`, `resolve`: a person decides about one exact action.

use std::io::{self, BufRead, Write};

use anyhow::bail;
use stepwell_proto::v1::{Approval, ApprovalDecision, DecideApprovalRequest, ListApprovalsRequest};

use super::{Context, actor, answer, expected, get_session, is_attended, text_or_file};
use crate::args::{ApprovalsArgs, ApproveArgs, DenyArgs, Fate, ResolveArgs};
use crate::client::Client;
use crate::exit::{Exit, UsageError};
use crate::out::{Paint, Tone};
use crate::view::session::Page;
use crate::{time, view};

/// Largest page that is asked for.
const PAGE_MAX: u32 = 1_000;

/// `approvals`.
pub(super) async fn list(context: &Context, args: ApprovalsArgs) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    let session_id = match &args.session {
        Some(id) => {
            let response = get_session(&client, id).await?;
            expected(response.session.as_ref(), "session")?.session_id.clone()
        }
        None => String::new(),
    };
    let shows_pages = !session_id.is_empty();
    let approvals = read(&client, &args, session_id).await?;
    let out = context.out;
    if out.is_json {
        for approval in &approvals {
            out.json(&view::json::Approval::from(approval))?;
        }
    } else if approvals.is_empty() {
        out.faint_remark("no approvals: nothing waits for a person");
    } else if shows_pages {
        let page = context.page();
        for (place, approval) in approvals.iter().enumerate() {
            if place > 0 {
                out.line("")?;
            }
            out.lines(&view::approval::page(approval, &page))?;
            if approval.status == "open" {
                let commands = view::approval::next_commands(approval);
                out.line(&format!("  {}", commands.join("\n  ")))?;
            }
        }
    } else {
        out.lines(&view::approval::table(&approvals, time::now_ms(), out.width, out.paint))?;
        if out.is_watched {
            out.faint_remark("see the whole action with: stepwell approvals SESSION");
        }
    }
    Ok(Exit::Ok)
}

async fn read(
    client: &Client,
    args: &ApprovalsArgs,
    session_id: String,
) -> anyhow::Result<Vec<Approval>> {
    let limit = if args.all { usize::MAX } else { args.limit as usize };
    let mut request = ListApprovalsRequest {
        statuses: args.statuses.clone(),
        session_id,
        ..ListApprovalsRequest::default()
    };
    let mut approvals = Vec::new();
    loop {
        request.page_size = PAGE_MAX.min((limit - approvals.len()) as u32);
        let page = answer(client, client.approvals().list_approvals(request.clone())).await?;
        approvals.extend(page.approvals);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() || approvals.len() >= limit {
            return Ok(approvals);
        }
    }
}

/// `approve`.
pub(super) async fn approve(context: &Context, args: ApproveArgs) -> anyhow::Result<Exit> {
    let arguments = args.arguments.as_deref().map(text_or_file).transpose()?.unwrap_or_default();
    check_arguments(&arguments)?;
    let decided_by = actor(&args.actor)?;
    let client = context.client().await?;
    let found = find(&client, &args.approval.id).await?;
    if let Some(approval) = &found.open {
        refuse_other_question(approval, false)?;
        show_action(context, approval);
        if !arguments.is_empty() {
            let changed =
                view::visible::block(&arguments, view::visible::Care::Exact, context.out.paint_err);
            context
                .out
                .remark(&format!("  it will run with these arguments instead:\n    {changed}"));
        }
        if !args.yes && is_attended() && !confirm(context, "Let it run?")? {
            context.out.remark("nothing was decided");
            return Ok(Exit::Error);
        }
    }
    let decision = if args.for_session {
        ApprovalDecision::ApproveForSession
    } else {
        ApprovalDecision::Approve
    };
    let request = DecideApprovalRequest {
        decision: decision.into(),
        arguments,
        decided_by,
        ..found.request()
    };
    decide(context, &client, request).await
}

/// `deny`.
pub(super) async fn deny(context: &Context, args: DenyArgs) -> anyhow::Result<Exit> {
    let decided_by = actor(&args.actor)?;
    let client = context.client().await?;
    let found = find(&client, &args.approval.id).await?;
    if let Some(approval) = &found.open {
        refuse_other_question(approval, false)?;
    }
    let request = DecideApprovalRequest {
        decision: ApprovalDecision::Deny.into(),
        reason: args.reason.unwrap_or_default(),
        decided_by,
        ..found.request()
    };
    decide(context, &client, request).await
}

/// `resolve`.
pub(super) async fn resolve(context: &Context, args: ResolveArgs) -> anyhow::Result<Exit> {
    let decision = match args.fate {
        Fate::Happened => ApprovalDecision::Happened,
        Fate::DidNotHappen => ApprovalDecision::DidNotHappen,
        Fate::Failed => ApprovalDecision::Failed,
    };
    if args.output.is_some() && args.fate != Fate::Happened {
        let problem = "--output is the result of an action that happened: leave it out, or say why with --reason";
        return Err(UsageError(problem.to_owned()).into());
    }
    let output = args.output.as_deref().map(text_or_file).transpose()?.unwrap_or_default();
    let decided_by = actor(&args.actor)?;
    let client = context.client().await?;
    let found = find(&client, &args.approval.id).await?;
    if let Some(approval) = &found.open {
        refuse_other_question(approval, true)?;
        show_action(context, approval);
    }
    let request = DecideApprovalRequest {
        decision: decision.into(),
        output,
        reason: args.reason.unwrap_or_default(),
        decided_by,
        ..found.request()
    };
    decide(context, &client, request).await
}

/// The approval that a person named.
struct Found {
    /// `SESSION_ID.NUMBER`, or what the person wrote when it is not open: the server knows what
    /// became of it.
    id: String,
    open: Option<Approval>,
}

impl Found {
    /// A decision about exactly the action that was shown.
    fn request(&self) -> DecideApprovalRequest {
        let (digest, tool) = match &self.open {
            Some(approval) => (approval.action_digest.clone(), approval.tool.clone()),
            None => (String::new(), String::new()),
        };
        DecideApprovalRequest {
            approval_id: self.id.clone(),
            action_digest: digest,
            tool,
            ..DecideApprovalRequest::default()
        }
    }
}

async fn find(client: &Client, id: &str) -> anyhow::Result<Found> {
    let (session_id, number) = match id.split_once('.') {
        Some((session_id, number)) => (session_id, Some(number)),
        None => (id, None),
    };
    let response = get_session(client, session_id).await?;
    let session_id = &expected(response.session.as_ref(), "session")?.session_id;
    let whole_id = |number: &str| format!("{session_id}.{number}");
    let mut open = response.open_approvals;
    let Some(number) = number else {
        return match open.len() {
            0 => Ok(Found { id: session_id.clone(), open: None }),
            1 => {
                let approval = open.pop();
                let id =
                    approval.as_ref().map_or_else(|| id.to_owned(), |it| it.approval_id.clone());
                Ok(Found { id, open: approval })
            }
            _ => bail!(several(session_id, &open)),
        };
    };
    let id = whole_id(number);
    let place = open.iter().position(|approval| approval.approval_id == id);
    Ok(Found { id, open: place.map(|place| open.swap_remove(place)) })
}

fn several(session_id: &str, open: &[Approval]) -> String {
    let mut text =
        format!("session {session_id} has {} open approvals; name one of them:", open.len());
    for approval in open {
        let tool = view::visible::brief(&approval.tool);
        let id = view::visible::brief(&approval.approval_id);
        text = format!("{text}\n  {id}  {tool}");
    }
    text
}

/// Approving is no answer to "what happened?", and the other way round.
fn refuse_other_question(approval: &Approval, resolves: bool) -> anyhow::Result<()> {
    if view::approval::asks_what_happened(approval) == resolves {
        return Ok(());
    }
    let question = if resolves {
        "asks whether an action may run, not what became of it"
    } else {
        "asks what became of an action that was started: its outcome is unknown"
    };
    let id = &approval.approval_id;
    let answers = view::approval::next_commands(approval).join("\n  ");
    bail!("approval {id} {question}; answer with one of:\n  {answers}")
}

/// On stderr, so that stdout stays the answer.
fn show_action(context: &Context, approval: &Approval) {
    let page = Page { paint: context.out.paint_err, ..context.page() };
    context.out.remark(&view::approval::page(approval, &page).join("\n"));
}

/// Asks the person at the keyboard.
pub(super) fn confirm(context: &Context, question: &str) -> anyhow::Result<bool> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{} [y/N] ", context.out.paint_err.tone(Tone::Attention, question))?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(is_yes(&line))
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Arguments must be a JSON object; the server checks the rest against the tool's schema.
fn check_arguments(arguments: &str) -> anyhow::Result<()> {
    if arguments.is_empty() {
        return Ok(());
    }
    match serde_json::from_str::<serde_json::Value>(arguments) {
        Ok(serde_json::Value::Object(_)) => Ok(()),
        Ok(_) => Err(UsageError("--arguments: it must be a JSON object".to_owned()).into()),
        Err(error) => {
            let message = error.to_string();
            let at = format!(" at line {} column {}", error.line(), error.column());
            let words = message.strip_suffix(&at).unwrap_or(&message);
            let problem = format!(
                "line {}, column {}: this is no JSON: {words}",
                error.line(),
                error.column()
            );
            let shown = view::source::annotate("--arguments", arguments, &problem, Paint::NONE);
            Err(UsageError(shown).into())
        }
    }
}

async fn decide(
    context: &Context,
    client: &Client,
    request: DecideApprovalRequest,
) -> anyhow::Result<Exit> {
    let decision = request.decision();
    let response = answer(client, client.approvals().decide_approval(request)).await?;
    let approval = expected(response.approval.as_ref(), "approval")?;
    let out = context.out;
    if out.is_json {
        out.json(&view::json::decided(approval, &response))?;
        return Ok(Exit::Ok);
    }
    let unchanged = if response.unchanged { " (as decided before)" } else { "" };
    out.line(&format!(
        "{}  {}{unchanged}",
        out.paint.strong(view::visible::brief(&approval.approval_id)),
        in_words(decision, approval)
    ))?;
    if let Some(session) = &response.session {
        out.line(&view::session::line(session, out.paint))?;
    }
    Ok(Exit::Ok)
}

/// What was decided, and what follows from it.
fn in_words(decision: ApprovalDecision, approval: &Approval) -> String {
    let call = view::visible::brief(&format!("{} (call {})", approval.tool, approval.call_id));
    match decision {
        ApprovalDecision::Unspecified => view::visible::brief(&approval.status),
        ApprovalDecision::Approve => format!("approved: {call} may run"),
        ApprovalDecision::ApproveForSession => {
            let tool = view::visible::brief(&approval.tool);
            format!("approved: {call} may run, and later calls of {tool} in this session")
        }
        ApprovalDecision::Deny => format!("denied: {call} does not run, the model is told why"),
        ApprovalDecision::Happened => {
            format!("it happened: {call} does not run again, the model is shown its result")
        }
        ApprovalDecision::DidNotHappen => format!("it did not happen: {call} runs now"),
        ApprovalDecision::Failed => {
            format!("it counts as failed: {call} does not run again, the model is told")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_told_with_what_follows() {
        let asked = Approval { call_id: "3.1".into(), ..approval("what_happened") };
        for (decision, words) in [
            (ApprovalDecision::Approve, "approved: shell (call 3.1) may run"),
            (ApprovalDecision::DidNotHappen, "it did not happen: shell (call 3.1) runs now"),
            (
                ApprovalDecision::Happened,
                "it happened: shell (call 3.1) does not run again, the model is shown its result",
            ),
        ] {
            assert_eq!(in_words(decision, &asked), words);
        }
    }

    fn approval(question: &str) -> Approval {
        Approval {
            approval_id: "01J.17".into(),
            question: question.into(),
            tool: "shell".into(),
            action_digest: "3fa9".into(),
            ..Approval::default()
        }
    }

    #[test]
    fn a_decision_is_bound_to_the_action_that_was_shown() {
        let found = Found { id: "01J.17".into(), open: Some(approval("may_run")) };
        let request = found.request();
        assert_eq!((request.action_digest.as_str(), request.tool.as_str()), ("3fa9", "shell"));
        let gone = Found { id: "01J.17".into(), open: None };
        assert_eq!(gone.request().action_digest, "");
    }

    #[test]
    fn the_wrong_verb_is_told_the_right_one() {
        let error = refuse_other_question(&approval("what_happened"), false).unwrap_err();
        assert!(error.to_string().contains("stepwell resolve 01J.17"), "{error}");
        let error = refuse_other_question(&approval("may_run"), true).unwrap_err();
        assert!(error.to_string().contains("stepwell approve 01J.17"), "{error}");
        assert!(refuse_other_question(&approval("may_run"), false).is_ok());
    }

    #[test]
    fn changed_arguments_must_be_an_object() {
        for (arguments, problem) in [
            ("[]", "must be a JSON object"),
            ("{\"a\": }", "--arguments:1:7: this is no JSON: expected value"),
        ] {
            let error = check_arguments(arguments).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(problem), "{error}");
        }
        assert!(check_arguments("{\"a\":1}").is_ok());
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for (line, yes) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("no\n", false), ("", false)]
        {
            assert_eq!(is_yes(line), yes, "{line:?}");
        }
    }

    #[test]
    fn several_open_approvals_are_listed() {
        let text = several("01J", &[approval("may_run"), approval("may_run")]);
        assert!(text.contains("2 open approvals") && text.contains("\n  01J.17  shell"), "{text}");
    }
}
