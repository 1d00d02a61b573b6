//! Sends a reply at its pace, and breaks off where a fault says so.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::task::yield_now;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::faults::FaultKind;
use super::reply::Reply;
use super::respond;
use super::script::Pace;

/// How the sending ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Whole,
    /// The connection breaks.
    Cut,
    /// Nothing more comes until the server stops.
    Hang,
}

/// A reply that is being sent.
struct Sending {
    bytes: Bytes,
    ends: std::vec::IntoIter<usize>,
    sent: usize,
    pace: Pace,
    ending: Ending,
    shutdown: CancellationToken,
}

/// Sends `reply`.
pub(super) async fn play(
    reply: Reply,
    pace: Pace,
    fault: Option<&FaultKind>,
    shutdown: CancellationToken,
) -> Response {
    if !pace.delay.is_zero() {
        tokio::select! {
            () = sleep(pace.delay) => {}
            () = shutdown.cancelled() => return stopped(),
        }
    }
    let (length, ending) = match fault {
        Some(FaultKind::Cut { after_bytes }) => {
            (after_bytes.unwrap_or(reply.bytes.len() / 2), Ending::Cut)
        }
        Some(FaultKind::Hang { after_bytes: 0 }) => {
            shutdown.cancelled().await;
            return stopped();
        }
        Some(FaultKind::Hang { after_bytes }) => (*after_bytes, Ending::Hang),
        Some(FaultKind::Status { .. } | FaultKind::ErrorInStream { .. } | FaultKind::Garbage)
        | None => (reply.bytes.len(), Ending::Whole),
    };
    let Reply { bytes, ends, content_type } = reply;
    if ending == Ending::Whole && pace.chunk_delay.is_zero() {
        return respond(content_type, Body::from(bytes));
    }
    let mut bytes = Bytes::from(bytes);
    bytes.truncate(length);
    let mut ends: Vec<usize> = ends.into_iter().filter(|end| *end < bytes.len()).collect();
    ends.push(bytes.len());
    let sending = Sending { bytes, ends: ends.into_iter(), sent: 0, pace, ending, shutdown };
    respond(content_type, Body::from_stream(stream::unfold(sending, next_piece)))
}

fn stopped() -> Response {
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

async fn next_piece(mut sending: Sending) -> Option<(io::Result<Bytes>, Sending)> {
    let Some(end) = sending.ends.next() else {
        return match sending.ending {
            Ending::Whole => None,
            Ending::Cut => {
                // The error drops what is still unsent, so the bytes before it must go out first.
                yield_now().await;
                Some((Err(broken()), sending))
            }
            Ending::Hang => {
                sending.shutdown.cancelled().await;
                Some((Err(broken()), sending))
            }
        };
    };
    if sending.sent > 0 && !sending.pace.chunk_delay.is_zero() {
        tokio::select! {
            () = sleep(sending.pace.chunk_delay) => {}
            () = sending.shutdown.cancelled() => return Some((Err(broken()), sending)),
        }
    }
    let piece = sending.bytes.slice(sending.sent.min(end)..end);
    sending.sent = end;
    Some((Ok(piece), sending))
}

/// What makes the server close the connection without the end of the body.
fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted)
}
