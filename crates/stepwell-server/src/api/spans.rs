//! Windows of span trees, and the events of one span.

use std::collections::{HashSet, VecDeque};

use stepwell_core::spans::{DEPTH_LIMIT_MAX, Row, SpanIndex};
use stepwell_core::{Seq, SessionId};
use stepwell_ports::store::PAGE_ROWS_MAX;
use stepwell_ports::{SessionInfo, StoredEvent};
use stepwell_proto::v1;
use tonic::Status;

use super::Api;
use super::sessions::PAGE_BYTES_MAX;
use crate::convert::{self, BadField, PAGE_ROWS_DEFAULT};
use crate::span_cache::Asked;
use crate::{payload, status};

/// Spans that a window can be asked without.
pub(crate) const COLLAPSED_MAX: usize = 1_000;

/// `ListSpans`.
pub(super) async fn list(
    api: &Api,
    request: v1::ListSpansRequest,
) -> Result<v1::ListSpansResponse, Status> {
    check(&request)?;
    let session_id = api.find(&request.session_id).await?;
    let info = api.session_info(session_id).await?;
    let asked = asked(session_id, &info, request.at_seq)?;
    expect_seq("around_seq", &info, request.around_seq)?;
    let store = &**api.engine.store();
    let window = api.spans.look(store, asked, |index, at| window(index, at, &request)).await;
    let mut response = window.map_err(|error| status::store(&error))??;
    response.head_seq = info.row.head_seq.0.max(response.at_seq);
    Ok(response)
}

fn check(request: &v1::ListSpansRequest) -> Result<(), BadField> {
    for (field, named, instead) in [
        ("collapsed", &request.collapsed, "leave out by depth_max instead"),
        ("expanded", &request.expanded, "ask without fold_retried instead"),
    ] {
        let count = named.len();
        if count > COLLAPSED_MAX {
            let problem = format!("has {count} spans, at most {COLLAPSED_MAX}: {instead}");
            return Err(BadField::new(field, problem));
        }
    }
    Ok(())
}

fn window(
    index: &SpanIndex,
    at: Seq,
    request: &v1::ListSpansRequest,
) -> Result<v1::ListSpansResponse, BadField> {
    let mut retried = if request.fold_retried { index.retried() } else { Vec::new() };
    let expanded: HashSet<&str> = request.expanded.iter().map(String::as_str).collect();
    retried.retain(|it| !expanded.contains(it.as_str()));
    let collapsed = request.collapsed.iter().chain(&retried).map(String::as_str);
    let view = index
        .view(collapsed, request.depth_max)
        .map_err(|error| BadField::new("depth_max", error.to_string()))?;
    let count = convert::page_rows(request.limit, PAGE_ROWS_MAX) as u32;
    let total = view.len();
    let around = if request.around_last { index.head() } else { Seq(request.around_seq) };
    let around = Some(around).filter(|it| *it > Seq(0));
    let around = around.and_then(|seq| view.position_at(seq));
    let last_window = total.saturating_sub(count);
    let first = match around {
        // The last event of a session that is over is about the whole of it.
        Some(0) if request.around_last => last_window,
        Some(row) => row.saturating_sub(count / 2).min(last_window),
        None => request.from_row,
    };
    // One more: what follows tells whether something is left out.
    let rows = view.rows(first, count + 1);
    Ok(v1::ListSpansResponse {
        ancestors: rows.first().map(|row| ancestors(index, row)).unwrap_or_default(),
        spans: spans(rows, count as usize),
        total_rows: total,
        first_row: first,
        head_seq: 0,
        at_seq: at.0,
        around_row: around.unwrap_or(0),
        at_ms: convert::time(index.time()),
    })
}

fn spans(rows: Vec<Row>, count: usize) -> Vec<v1::Span> {
    let following: Vec<Option<u32>> =
        rows.iter().skip(1).map(|row| Some(row.row)).chain([None]).collect();
    let rows = rows.into_iter().zip(following).take(count);
    rows.map(|(row, next)| {
        let folded = row.size > 1 && next != Some(row.row + 1);
        v1::Span { folded, ..convert::span(row) }
    })
    .collect()
}

/// What is around a row, from the session on.
fn ancestors(index: &SpanIndex, row: &Row) -> Vec<v1::Span> {
    let parent = row.span.parent.as_deref();
    let path = parent.map(|parent| index.path(parent)).unwrap_or_default();
    path.into_iter().map(convert::span).collect()
}

/// `GetSpan`.
pub(super) async fn get(
    api: &Api,
    request: v1::GetSpanRequest,
) -> Result<v1::GetSpanResponse, Status> {
    let session_id = api.find(&request.session_id).await?;
    let info = api.session_info(session_id).await?;
    let asked = asked(session_id, &info, request.at_seq)?;
    expect_seq("after_seq", &info, request.after_seq)?;
    let rows = convert::page_rows(request.page_size, PAGE_ROWS_DEFAULT);
    let store = &**api.engine.store();
    let found = api.spans.look(store, asked, |index, at| {
        let row = index.get(&request.span_id)?;
        let seqs = index.seqs(&request.span_id, Seq(request.after_seq), rows + 1);
        Some((ancestors(index, &row), row, seqs, at))
    });
    let found = found.await.map_err(|error| status::store(&error))?;
    let (ancestors, row, mut seqs, at) =
        found.ok_or_else(|| no_span(session_id, &request.span_id))?;
    let is_cut = seqs.len() > rows;
    seqs.truncate(rows);
    let (events, is_full) = read(api, session_id, &seqs, request.whole_payloads).await?;
    Ok(v1::GetSpanResponse {
        span: Some(convert::span(row)),
        ancestors,
        events,
        has_more: is_cut || is_full,
        head_seq: info.row.head_seq.max(at).0,
        at_seq: at.0,
    })
}

/// The events of these seqs, as far as they fit on a page; and whether some did not.
async fn read(
    api: &Api,
    session_id: SessionId,
    seqs: &[Seq],
    whole_payloads: bool,
) -> Result<(Vec<v1::Event>, bool), Status> {
    let store = &**api.engine.store();
    let mut events = Vec::with_capacity(seqs.len());
    let mut bytes = 0;
    let mut page: VecDeque<StoredEvent> = VecDeque::new();
    for (at, seq) in seqs.iter().enumerate() {
        while page.front().is_some_and(|event| event.seq < *seq) {
            page.pop_front();
        }
        if page.front().is_none_or(|event| event.seq != *seq) {
            let run = seqs.get(at..).unwrap_or_default();
            let run = run.iter().zip(seq.0..).take_while(|(it, next)| it.0 == *next).count();
            let read = store.read(session_id, Seq(seq.0 - 1), run).await;
            page = read.map_err(|error| status::store(&error))?.events.into();
        }
        let Some(mut event) = page.pop_front() else { continue };
        if whole_payloads {
            let whole = payload::whole(store, event).await;
            event = whole.map_err(|error| status::store(&error))?;
        }
        bytes += event.body.len();
        if bytes > PAGE_BYTES_MAX && !events.is_empty() {
            return Ok((events, true));
        }
        events.push(convert::event(session_id, event));
    }
    Ok((events, false))
}

fn asked(session_id: SessionId, info: &SessionInfo, at_seq: u64) -> Result<Asked, Status> {
    expect_seq("at_seq", info, at_seq)?;
    let at = Some(Seq(at_seq)).filter(|it| *it > Seq(0));
    Ok(Asked { session_id, head: info.row.head_seq, at })
}

fn expect_seq(field: &str, info: &SessionInfo, seq: u64) -> Result<(), Status> {
    let head = info.row.head_seq;
    if seq <= head.0 {
        return Ok(());
    }
    let problem = format!(
        "is {seq}, but the head of session {} is {head}: ask for a seq from 1 to {head}, or 0 to \
         leave it out",
        info.row.session_id
    );
    Err(BadField::new(field, problem).into())
}

fn no_span(session_id: SessionId, span_id: &str) -> Status {
    Status::not_found(format!(
        "session {session_id} has no span {span_id:?}: stepwell tree --json {session_id} lists them; \
         an attempt that is the only one of its call is not listed apart"
    ))
}

const _: () = assert!(DEPTH_LIMIT_MAX == 7, "the proto says so");
