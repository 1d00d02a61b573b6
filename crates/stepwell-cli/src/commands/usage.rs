//! `usage`: what sessions cost.

use std::collections::BTreeMap;

use serde::Serialize;
use stepwell_proto::v1::ListSessionsRequest;

use super::events::Pages as EventPages;
use super::lists::Pages;
use super::{Context, expected, get_session};
use crate::args::UsageArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::view::usage::{
    self as view, Step, Sums, cost, find_lost, reading, steps_table, sums_table,
};

/// `usage`.
pub(super) async fn run(context: &Context, args: UsageArgs) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    match args.id {
        Some(id) => one(context, &client, &id).await,
        None => all(context, &client, args).await,
    }
}

async fn one(context: &Context, client: &Client, id: &str) -> anyhow::Result<Exit> {
    let response = get_session(client, id).await?;
    let session_id = expected(response.session.as_ref(), "session")?.session_id.clone();
    let account = response.account.unwrap_or_default();
    let mut steps = Vec::new();
    let mut pages = EventPages::new(client, session_id, 0, false);
    while let Some(page) = pages.next().await? {
        steps.extend(page.iter().filter_map(Step::of));
    }
    find_lost(&mut steps);
    let out = context.out;
    if out.is_json {
        out.json(&Whole { steps, account: view::Account::from(&account) })?;
        return Ok(Exit::Ok);
    }
    let mut lines = steps_table(&steps, out.width, out.paint);
    lines.extend(steps.iter().filter_map(Step::break_line));
    for (label, value) in [("cache  ", reading(&account)), ("cost   ", cost(&account))] {
        if !value.is_empty() {
            lines.push(format!("{label}{value}"));
        }
    }
    out.lines(&lines)?;
    Ok(Exit::Ok)
}

/// One session, as JSON.
#[derive(Serialize)]
struct Whole {
    steps: Vec<Step>,
    account: view::Account,
}

/// Sums over sessions, by agent and model.
async fn all(context: &Context, client: &Client, args: UsageArgs) -> anyhow::Result<Exit> {
    let request = ListSessionsRequest {
        agent: args.agent.unwrap_or_default(),
        labels: args.labels.into_iter().collect(),
        ..ListSessionsRequest::default()
    };
    let mut sums: BTreeMap<(String, String), Sums> = BTreeMap::new();
    let mut pages = Pages::new(client, request, args.limit);
    while let Some(page) = pages.next().await? {
        for session in page {
            let response = get_session(client, &session.session_id).await?;
            for it in response.account.unwrap_or_default().models {
                let key = (session.agent.clone(), it.model.clone());
                let named = || Sums::new(&session.agent, &it.model);
                sums.entry(key).or_insert_with(named).add(&it);
            }
        }
    }
    let sums: Vec<Sums> = sums.into_values().collect();
    let out = context.out;
    if out.is_json {
        for it in &sums {
            out.json(it)?;
        }
    } else if sums.is_empty() {
        out.faint_remark("no model has answered yet");
    } else {
        out.lines(&sums_table(&sums, out.width, out.paint))?;
    }
    if out.is_watched && pages.has_more() {
        out.faint_remark(&format!("only the newest {} sessions: --limit N", args.limit));
    }
    Ok(Exit::Ok)
}
