//! `ls`, `show`, `tools`, `workers`: what there is.

use stepwell_proto::v1::{
    ListSessionsRequest, ListToolsRequest, ListWorkersRequest, Session, SessionStatus,
};

use super::{Context, answer, expected, get_session};
use crate::args::LsArgs;
use crate::args::parse::status_of;
use crate::client::Client;
use crate::exit::Exit;
use crate::view::session::needs_person;
use crate::{time, view};

/// Largest page that the server gives.
const PAGE_MAX: u32 = 1_000;

/// `ls`.
pub(super) async fn ls(context: &Context, args: LsArgs) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    let limit = if args.all { u32::MAX } else { args.limit };
    let is_filtered = is_filtered(&args);
    let request = ListSessionsRequest {
        statuses: statuses(&args),
        agent: args.agent.unwrap_or_default(),
        labels: args.labels.into_iter().collect(),
        text: args.text.unwrap_or_default(),
        ..ListSessionsRequest::default()
    };
    let out = context.out;
    if out.is_json {
        // Page by page, so that a hundred thousand need no memory.
        let mut pages = Pages::new(&client, request, limit);
        while let Some(page) = pages.next().await? {
            for session in &page {
                out.json(&view::json::Session::from(session))?;
            }
        }
        return Ok(Exit::Ok);
    }
    let mut sessions = Vec::new();
    let mut pages = Pages::new(&client, request, limit);
    while let Some(page) = pages.next().await? {
        sessions.extend(page);
    }
    let has_more = pages.has_more();
    if sessions.is_empty() {
        context.out.faint_remark(nothing_listed(is_filtered));
        return Ok(Exit::Ok);
    }
    show_sessions(context, &sessions, has_more)
}

fn is_filtered(args: &LsArgs) -> bool {
    let LsArgs { statuses, needs_person, agent, labels, text, limit: _, all: _ } = args;
    let is_named = !statuses.is_empty() || !labels.is_empty();
    is_named || *needs_person || agent.is_some() || text.is_some()
}

fn nothing_listed(is_filtered: bool) -> &'static str {
    if is_filtered {
        "no session fits the filters; all of them: stepwell ls --all"
    } else {
        "no sessions; start one with: stepwell submit \"…\""
    }
}

fn show_sessions(context: &Context, sessions: &[Session], has_more: bool) -> anyhow::Result<Exit> {
    let out = context.out;
    out.lines(&view::session::table(sessions, time::now_ms(), out.width, out.paint))?;
    let waiting = sessions.iter().filter(|it| needs_person(it.status())).count();
    if out.is_watched && waiting > 0 {
        let (sessions, verb) =
            (view::when::counted(waiting, "session"), if waiting == 1 { "waits" } else { "wait" });
        out.remark(&format!("{sessions} {verb} for a person: stepwell ls --needs-person"));
    }
    if out.is_watched && has_more {
        out.faint_remark("there are more: --limit N or --all");
    }
    Ok(Exit::Ok)
}

fn statuses(args: &LsArgs) -> Vec<i32> {
    if args.needs_person {
        let all = (1..).map_while(|number| SessionStatus::try_from(number).ok());
        return all.filter(|it| needs_person(*it)).map(i32::from).collect();
    }
    args.statuses.iter().filter_map(|name| status_of(name)).map(i32::from).collect()
}

/// Reads a list page by page, up to a limit.
pub(super) struct Pages<'a> {
    client: &'a Client,
    request: ListSessionsRequest,
    left: u32,
    is_first: bool,
}

impl<'a> Pages<'a> {
    /// Begins at the first page.
    pub(super) fn new(client: &'a Client, request: ListSessionsRequest, limit: u32) -> Self {
        Self { client, request, left: limit, is_first: true }
    }

    pub(super) fn has_more(&self) -> bool {
        !self.request.page_token.is_empty()
    }

    /// The next page; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<Session>>> {
        if self.left == 0 || (!self.is_first && !self.has_more()) {
            return Ok(None);
        }
        self.is_first = false;
        self.request.page_size = self.left.min(PAGE_MAX);
        let response =
            answer(self.client, self.client.sessions().list_sessions(self.request.clone())).await?;
        self.left = self.left.saturating_sub(response.sessions.len() as u32);
        self.request.page_token = response.next_page_token;
        Ok(Some(response.sessions))
    }
}

/// `show`.
pub(super) async fn show(context: &Context, id: &str) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    let response = get_session(&client, id).await?;
    let session = expected(response.session.as_ref(), "session")?;
    if context.out.is_json {
        context.out.json(&view::json::shown(session, &response))?;
    } else {
        context.out.lines(&view::session::page(session, &response, &context.page()))?;
    }
    Ok(Exit::Ok)
}

/// `tools`.
pub(super) async fn tools(context: &Context) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    let tools = answer(&client, client.agents().list_tools(ListToolsRequest {})).await?.tools;
    let out = context.out;
    if out.is_json {
        for tool in &tools {
            out.json(&view::json::Tool::from(tool))?;
        }
    } else if tools.is_empty() {
        out.faint_remark("no tools: connect a worker with `stepwell worker`");
    } else {
        out.lines(&view::fleet::tools(&tools, out.width, out.paint))?;
    }
    Ok(Exit::Ok)
}

/// `workers`.
pub(super) async fn workers(context: &Context) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    let workers =
        answer(&client, client.agents().list_workers(ListWorkersRequest {})).await?.workers;
    let out = context.out;
    if out.is_json {
        for worker in &workers {
            out.json(&view::json::Worker::from(worker))?;
        }
    } else if workers.is_empty() {
        out.faint_remark("no worker is connected: start one with `stepwell worker`");
    } else {
        out.lines(&view::fleet::workers(&workers, time::now_ms(), out.width, out.paint))?;
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(statuses: &[&str], needs_person: bool) -> LsArgs {
        LsArgs {
            statuses: statuses.iter().map(|it| (*it).to_owned()).collect(),
            needs_person,
            agent: None,
            labels: Vec::new(),
            text: None,
            limit: 1,
            all: false,
        }
    }

    #[test]
    fn an_empty_list_says_whether_the_filters_left_nothing() {
        assert!(nothing_listed(is_filtered(&args(&[], false))).contains("stepwell submit"));
        for filtered in [
            args(&["quarantined"], false),
            args(&[], true),
            LsArgs { agent: Some("a".into()), ..args(&[], false) },
            LsArgs { text: Some("x".into()), ..args(&[], false) },
        ] {
            assert!(nothing_listed(is_filtered(&filtered)).contains("fits the filters"));
        }
    }

    #[test]
    fn status_names_become_numbers() {
        let numbers = statuses(&args(&["waiting_approval", "failed"], false));
        assert_eq!(
            numbers,
            [i32::from(SessionStatus::WaitingApproval), i32::from(SessionStatus::Failed)]
        );
        assert_eq!(
            statuses(&args(&[], true)),
            [
                i32::from(SessionStatus::WaitingApproval),
                i32::from(SessionStatus::WaitingInput),
                i32::from(SessionStatus::Paused),
                i32::from(SessionStatus::Quarantined),
            ]
        );
    }
}
