//! `events` and `tail`: a session's history, for programs and for people.

use stepwell_proto::v1::{Event, ListEventsRequest, ListEventsResponse};
use tonic::Code;

use super::follow::{End, Follow, follow};
use super::source::Opened;
use super::submit::{Watcher, interrupted};
use super::{Context, answer, expected, get_session};
use crate::args::{EventsArgs, TailArgs};
use crate::client::{Client, Refusal};
use crate::exit::{Exit, UsageError};
use crate::view;
use crate::view::event::Narrator;

/// Events of a page; few enough that whole payloads fit into a message.
const PAGE: u32 = 1_000;
/// Events of a page with whole payloads.
const PAGE_WHOLE: u32 = 50;
/// So many events before the first shown one are read, to know which tool a call id stands for.
const LOOK_BACK: u64 = 200;

pub(super) async fn run(context: &Context, args: EventsArgs) -> anyhow::Result<Exit> {
    let opened = context.open(&args.session.id).await?;
    let mut pages = Pages::new(&opened.client, opened.id.clone(), args.after, args.whole);
    while let Some(page) = pages.next().await? {
        for event in &page {
            context.out.json(&view::json::Event::from(event))?;
        }
    }
    Ok(Exit::Ok)
}

/// Reads a history page by page.
pub(super) struct Pages<'a> {
    client: &'a Client,
    request: ListEventsRequest,
    is_done: bool,
}

impl<'a> Pages<'a> {
    pub(super) fn new(
        client: &'a Client,
        session_id: String,
        after_seq: u64,
        whole_payloads: bool,
    ) -> Self {
        let page_size = if whole_payloads { PAGE_WHOLE } else { PAGE };
        let request = ListEventsRequest { session_id, after_seq, page_size, whole_payloads };
        Self { client, request, is_done: false }
    }

    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<Event>>> {
        if self.is_done {
            return Ok(None);
        }
        let ListEventsResponse { events, head_seq } = self.page().await?;
        let last = events.last().map(|event| event.seq);
        self.is_done = last.is_none_or(|last| last >= head_seq);
        if let Some(last) = last {
            self.request.after_seq = last;
        }
        Ok(Some(events))
    }

    /// The next page; a smaller one when whole payloads are more than fits into one answer.
    async fn page(&mut self) -> anyhow::Result<ListEventsResponse> {
        loop {
            let mut sessions = self.client.sessions();
            let call = sessions.list_events(self.request.clone());
            let error = match answer(self.client, call).await {
                Ok(page) => return Ok(page),
                Err(error) => error,
            };
            let code = error.downcast_ref().map(|refusal: &Refusal| refusal.code);
            let is_too_large = matches!(code, Some(Code::OutOfRange | Code::ResourceExhausted));
            if !is_too_large || self.request.page_size <= 1 {
                return Err(error);
            }
            self.request.page_size /= 2;
        }
    }
}

pub(super) async fn tail(context: &Context, args: TailArgs) -> anyhow::Result<Exit> {
    let Opened { client, id, is_file, .. } = &context.open(&args.session.id).await?;
    if *is_file && args.follow {
        return Err(UsageError("-f: what lies in a file does not go on".to_owned()).into());
    }
    let response = get_session(client, id).await?;
    let session = expected(response.session.as_ref(), "session")?;
    let id = session.session_id.as_str();
    let first_shown = match args.after {
        Some(after) => after + 1,
        None => (session.head_seq + 1).saturating_sub(args.lines).max(1),
    };
    let mut watcher = Watcher::new(context, false);
    watcher.print_chunks(args.live);
    let after = first_shown.saturating_sub(1);
    let mut last = after;
    let mut pages = Pages::new(client, id.to_owned(), after.saturating_sub(LOOK_BACK), false);
    while let Some(page) = pages.next().await? {
        let narrator = watcher.narrator();
        last = last.max(show(context, narrator, &page, first_shown)?);
    }
    if !args.follow {
        return Ok(Exit::Ok);
    }
    let events_only = context.out.is_json && !args.live;
    let what = Follow { client, session_id: id, after_seq: last, events_only };
    let end = follow(what, &mut |news| watcher.take(&news)).await?;
    watcher.end()?;
    match end {
        End::Over(response, _) => {
            let session = expected(response.session.as_ref(), "session")?;
            if !context.out.is_json {
                context.out.faint_remark(&view::session::line(session, crate::out::Paint::NONE));
            }
            Ok(Exit::Ok)
        }
        End::Stopped => Ok(Exit::Ok),
        End::Interrupted => Ok(interrupted(context, id)),
    }
}

/// Reads what was before `head`, so that what follows names tools and not only calls.
pub(super) async fn look_back(
    client: &Client,
    session_id: &str,
    head: u64,
    narrator: &mut Narrator,
) -> anyhow::Result<()> {
    let after = head.saturating_sub(LOOK_BACK);
    let mut pages = Pages::new(client, session_id.to_owned(), after, false);
    while let Some(page) = pages.next().await? {
        page.iter().filter(|event| event.seq <= head).for_each(|event| narrator.note(event));
    }
    Ok(())
}

/// Shows the events from `first_shown` on; the others are only read. Returns the last seq.
fn show(
    context: &Context,
    narrator: &mut Narrator,
    events: &[Event],
    first_shown: u64,
) -> anyhow::Result<u64> {
    for event in events {
        if event.seq < first_shown {
            narrator.note(event);
        } else if context.out.is_json {
            context.out.json(&view::json::Event::from(event))?;
        } else {
            context.out.line(&narrator.line(event))?;
        }
    }
    Ok(events.last().map_or(0, |event| event.seq))
}
