//! `tree`: the spans of a session, a window at a time.

use stepwell_proto::v1::{ListSpansRequest, ListSpansResponse};

use super::source::Opened;
use super::{Context, answer};
use crate::args::TreeArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::view::span::Drawer;
use crate::{time, view};

/// Rows of a page: what the server gives at most.
const PAGE: u32 = 1_000;

/// `tree`. A page is written before the next one is asked for, so that no session is too long.
pub(super) async fn run(context: &Context, args: TreeArgs) -> anyhow::Result<Exit> {
    let opened = context.open(&args.session.id).await?;
    let mut pages = Pages::new(&opened, &args);
    let mut drawer: Option<Drawer> = None;
    let out = context.out;
    while let Some(page) = pages.next().await? {
        if out.is_json {
            for span in &page.spans {
                out.json(&view::json::Span::from(span))?;
            }
            continue;
        }
        let drawer = drawer.get_or_insert_with(|| {
            // In the past nobody knew how long it would take, and in a file nothing goes on.
            let now_ms =
                if args.at.is_some() || opened.is_file { page.at_ms } else { time::now_ms() };
            Drawer::new(&page.ancestors, args.depth, now_ms, out.width, out.paint)
        });
        let lines: Vec<String> = page.spans.iter().map(|span| drawer.line(span)).collect();
        out.lines(&lines)?;
    }
    let total = pages.total;
    if args.from > 0 && args.from >= total {
        out.remark(&format!("the tree has {total} rows, none from row {} on", args.from));
    } else if out.is_watched && !out.is_json {
        say_what_is_left(context, &pages);
    }
    Ok(Exit::Ok)
}

fn say_what_is_left(context: &Context, pages: &Pages<'_>) {
    let (next, total) = (pages.request.from_row, pages.total);
    if next < total {
        context.out.faint_remark(&format!("{next} of {total} rows; there are more: --from {next}"));
    }
}

/// Reads a tree window by window, all as of the same event.
struct Pages<'a> {
    client: &'a Client,
    request: ListSpansRequest,
    /// Rows that may still come.
    left: u32,
    /// Rows of the tree.
    total: u32,
    is_done: bool,
}

impl<'a> Pages<'a> {
    fn new(opened: &'a Opened, args: &TreeArgs) -> Self {
        let client = &opened.client;
        let request = ListSpansRequest {
            session_id: opened.id.clone(),
            from_row: args.from,
            depth_max: args.depth,
            at_seq: args.at.unwrap_or(0),
            ..ListSpansRequest::default()
        };
        let left = args.limit.unwrap_or(u32::MAX);
        Self { client, request, left, total: 0, is_done: false }
    }

    async fn next(&mut self) -> anyhow::Result<Option<ListSpansResponse>> {
        if self.is_done || self.left == 0 {
            return Ok(None);
        }
        self.request.limit = self.left.min(PAGE);
        let page =
            answer(self.client, self.client.sessions().list_spans(self.request.clone())).await?;
        let rows = page.spans.len() as u32;
        self.left -= rows.min(self.left);
        self.total = page.total_rows;
        self.request.from_row = self.request.from_row.saturating_add(rows);
        // The session may go on meanwhile; the rows that follow must fit those that were shown.
        self.request.at_seq = page.at_seq;
        self.is_done = rows == 0 || self.request.from_row >= page.total_rows;
        Ok(Some(page))
    }
}
