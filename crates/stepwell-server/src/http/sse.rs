//! `GET /v1/sessions/{id}/events`: a watch as server-sent events.
//!
//! The id of an event is its seq in the session's history, so it means the same after a restart and
//! on every server. What is no event of the history (live pieces, notices) has no id, so a browser
//! that reconnects asks for the right one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use stepwell_core::{Seq, SessionId};
use tonic::Status;

use super::error::{ErrorBody, HttpError};
use super::json;
use crate::api::Api;
use crate::convert::BadField;
use crate::watch::{self, Watch, WatchItem, WatchOptions, expect_seq};

/// How often a silent stream shows that it lives, so that no proxy in between closes it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a browser waits before it connects again, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// What was asked for.
pub(super) struct SseRequest {
    /// The session's id or a prefix of it.
    pub(super) session: String,
    /// The `Last-Event-ID` header.
    pub(super) last_event_id: Option<Vec<u8>>,
    /// The `after_seq` parameter.
    pub(super) after_seq: Option<String>,
    /// Leave out live pieces.
    pub(super) events_only: bool,
    /// Put payloads back into events.
    pub(super) whole_payloads: bool,
}

/// Answers with the stream, or with 204 when the caller has everything of a session that is over:
/// that is what tells a browser not to come back.
pub(super) async fn respond(api: &Arc<Api>, request: SseRequest) -> Result<Response, HttpError> {
    let after = after(&request).map_err(Status::from)?;
    let session_id = api.find(&request.session).await?;
    let info = api.session_info(session_id).await?;
    expect_seq(&info, after)?;
    if info.row.status.is_final() && after == info.row.head_seq {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let SseRequest { events_only, whole_payloads, .. } = request;
    let options = WatchOptions { after, events_only, whole_payloads };
    let watch = watch::begin(api, session_id, options).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies must not collect what is meant to be seen at once.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(frames(session_id, watch))).into_response())
}

/// The seq after which the caller wants events: of the header, else of the parameter, else 0.
fn after(request: &SseRequest) -> Result<Seq, BadField> {
    if let Some(id) = &request.last_event_id {
        let id = String::from_utf8_lossy(id);
        if !id.trim().is_empty() {
            return seq("Last-Event-ID", id.trim());
        }
    }
    match &request.after_seq {
        Some(text) => seq("after_seq", text.trim()),
        None => Ok(Seq(0)),
    }
}

/// Only plain digits: `+4` or `other-session:7` came from somewhere else.
fn seq(field: &str, text: &str) -> Result<Seq, BadField> {
    let is_number = !text.is_empty() && text.chars().all(|it| it.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.map(Seq).ok_or_else(|| {
        let problem = format!(
            "{text:?} is no event of this session: it must be the id of the last event that you \
             were given (a number), or be left out for all events"
        );
        BadField::new(field, problem)
    })
}

fn frames(
    session_id: SessionId,
    mut watch: Watch,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    async_stream::stream! {
        yield Ok(Bytes::from(format!("retry: {RETRY_MS}\n: session {session_id}\n\n")));
        loop {
            match tokio::time::timeout(KEEP_ALIVE, watch.next()).await {
                Err(_) => yield Ok(Bytes::from_static(b": alive\n\n")),
                Ok(None) => break,
                Ok(Some(Ok(item))) => yield Ok(Bytes::from(frame(session_id, &item))),
                Ok(Some(Err(status))) => yield Ok(Bytes::from(dropped(&status))),
            }
        }
    }
}

fn frame(session_id: SessionId, item: &WatchItem) -> String {
    let written = match item {
        WatchItem::Event(event) => json::event(session_id, event)
            .map(|data| format!("id: {}\nevent: {}\ndata: {data}\n\n", event.seq, event.kind)),
        WatchItem::Chunk(chunk) => {
            json::chunk(chunk).map(|data| format!("event: chunk\ndata: {data}\n\n"))
        }
        WatchItem::CaughtUp(head) => {
            Ok(format!("event: caught_up\ndata: {{\"head_seq\":{head}}}\n\n"))
        }
        WatchItem::Ended { status, head } => {
            Ok(format!("event: end\ndata: {}\n\n", json::end(*status, head.0)))
        }
    };
    // Text that is serialised always can be; a comment says more than silence.
    written.unwrap_or_else(|error| format!(": an event cannot be written: {error}\n\n"))
}

/// Why the stream ends early. Not named `error`: browsers use that name for broken connections.
fn dropped(status: &Status) -> String {
    let data = serde_json::to_string(&ErrorBody::of(status)).unwrap_or_default();
    format!("event: dropped\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(last_event_id: Option<&str>, after_seq: Option<&str>) -> SseRequest {
        SseRequest {
            session: String::new(),
            last_event_id: last_event_id.map(|it| it.as_bytes().to_vec()),
            after_seq: after_seq.map(str::to_owned),
            events_only: false,
            whole_payloads: false,
        }
    }

    #[test]
    fn the_header_is_newer_than_the_parameter() {
        for (header, parameter, seq) in [
            (None, None, 0),
            (None, Some("3"), 3),
            (Some("7"), Some("3"), 7),
            (Some(""), Some("3"), 3),
            (Some("0"), None, 0),
        ] {
            assert_eq!(
                after(&request(header, parameter)),
                Ok(Seq(seq)),
                "{header:?} {parameter:?}"
            );
        }
    }

    #[test]
    fn ids_that_are_no_seq_are_refused() {
        for id in ["-1", "abc", "+4", "run-2:7", "1.0", "99999999999999999999999"] {
            let error = after(&request(Some(id), None)).unwrap_err();
            assert_eq!(error.field, "Last-Event-ID", "{id}");
            assert!(error.problem.contains(id), "{error}");
        }
    }
}
