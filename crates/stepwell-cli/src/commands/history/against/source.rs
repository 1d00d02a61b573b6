//! What of recorded sessions an experiment needs, read from a server or from exported files.

use std::path::Path;

use anyhow::Context as _;
use stepwell_archive::Limits;
use stepwell_proto::v1::ListSessionsRequest;

use super::super::core_event;
use super::record::{Record, Recorder};
use crate::args::ReplayArgs;
use crate::client::Client;
use crate::commands::events::Pages;
use crate::commands::lists::Pages as SessionPages;
use crate::commands::source::{Source, open_file};
use crate::commands::{Context, expected, get_session};

/// Reads it. A file is read to its end, where its last damage shows.
pub(super) async fn read(source: &Source, client: Option<&Client>) -> anyhow::Result<Record> {
    match source {
        Source::File(path) => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || read_file(&path)).await?
        }
        Source::Session(id) => read_session(client.context("no server was asked")?, id).await,
    }
}

/// What the arguments name, and the server, if one is needed. Memory: an id for each session.
pub(super) async fn sources(
    context: &Context,
    args: &ReplayArgs,
) -> anyhow::Result<(Vec<Source>, Option<Client>)> {
    if args.all {
        let client = context.client().await?;
        let mut sources = Vec::new();
        let mut pages = SessionPages::new(&client, request(args), args.limit.unwrap_or(u32::MAX));
        while let Some(page) = pages.next().await? {
            sources.extend(page.into_iter().map(|it| Source::Session(it.session_id)));
        }
        return Ok((sources, Some(client)));
    }
    let sources: Vec<_> = args.what.iter().map(|it| Source::of(it)).collect();
    let needs_server = sources.iter().any(|it| matches!(it, Source::Session(_)));
    let client = if needs_server { Some(context.client().await?) } else { None };
    Ok((sources, client))
}

/// The sessions that `--all` and its filters mean.
pub(in super::super) fn request(args: &ReplayArgs) -> ListSessionsRequest {
    let statuses = args.statuses.iter().filter_map(|it| crate::args::parse::status_of(it));
    ListSessionsRequest {
        statuses: statuses.map(i32::from).collect(),
        agent: args.agent.clone().unwrap_or_default(),
        labels: args.labels.iter().cloned().collect(),
        ..ListSessionsRequest::default()
    }
}

fn read_file(path: &Path) -> anyhow::Result<Record> {
    let mut reader = open_file(path, Limits::default())?;
    let session_id = reader.header().session_id.to_string();
    let mut recorder = Recorder::new(reader.header().redacted);
    while let Some(item) = reader.next_item()? {
        recorder.push(&item.event);
    }
    recorder.finish(session_id)
}

async fn read_session(client: &Client, id: &str) -> anyhow::Result<Record> {
    let response = get_session(client, id).await?;
    let id = expected(response.session.as_ref(), "session")?.session_id.clone();
    let mut recorder = Recorder::new(response.redaction.is_some());
    let mut pages = Pages::new(client, id.clone(), 0, true);
    while let Some(page) = pages.next().await? {
        for event in &page {
            recorder.push(&core_event(event)?);
        }
    }
    recorder.finish(id)
}
