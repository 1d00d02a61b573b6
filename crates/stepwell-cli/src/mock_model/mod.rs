//! A model server that plays a script, so that agents are tested without a model.
//!
//! It speaks the OpenAI API as vLLM does: `/v1/chat/completions` with and without streaming,
//! `/v1/models`, `/tokenize`, `/health`. What it answers is chosen by the request alone: the first message of the
//! user chooses the story, the number of the model's own messages the step. So it keeps nothing
//! about a session, one server plays for any number of them, and both sides may be killed and
//! started again at any time. Only how often a fault was played is kept, in memory.
//!
//! A script ([`Script`]):
//! ```toml
//! model = "mock"               # name in /v1/models; may be left out
//! max_model_len = 8192         # tokens that a prompt may have; without it, those of 64 MiB
//! cache_tokens = 100000        # a prefix cache of that size, shared by all sessions; without it, all
//!                              #   that a session sent before is cached
//! chunk_bytes = 24             # defaults of all steps: bytes of text in one event, 0 for all in one,
//! delay_ms = 0                 #   wait before the first byte,
//! chunk_delay_ms = 0           #   wait before each later event
//!
//! [[step]]                     # the first step of the story for all tasks
//! content = "I look around, {{session}}."
//! reasoning = "Let me see."
//! tool_calls = [
//!   { name = "list_files", arguments = { path = "." } },
//!   { name = "read_file", arguments = '{"path": "a.txt"', id = "" },   # text is sent as it is
//! ]
//!
//! [[step]]                     # the second step; it fails twice before it works
//! content = "Done with {{task}} after step {{step}}."
//! fault = { kind = "status", status = 429, retry_after = "1", times = 2 }
//!
//! [[step]]
//! when = "count to"            # the story for tasks that contain this text; its own steps 1, 2, 3 …
//! repeat = 20                  # stands for the next 20 steps; "forever" for all later ones
//! tool_calls = [{ name = "count", arguments = { to = 7 } }]
//!
//! [[step]]
//! when = "count to"
//! step = 21                    # its number, where the order does not give it
//! when_last = "denied"         # only if the last message contains this; else the entry that follows
//! content = "Then not."
//! finish_reason = "stop"
//! usage = { prompt_tokens = 100, cached_tokens = 96, completion_tokens = 5 }
//! ```
//! Faults, one or a list of them, each with `times` (1, or "always"): `status` (`status`,
//! `retry_after`, `message`), `cut` and `hang` (`after_bytes`), `error_in_stream` (`status`,
//! `message`), `garbage`. A request for a step that the script does not have is answered with 400.
//!
//! Invariant: the same request gets the same bytes, but for faults that are counted.

#[cfg(test)]
mod affinity;
mod cache;
mod faults;
mod length;
mod play;
mod reply;
mod request;
mod script;
mod source;
mod template;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::cache::PrefixCache;
use self::faults::{FaultCounts, FaultKind};
use self::reply::{Reply, Said};
use self::request::ChatRequest;
pub(crate) use self::script::Script;
use self::template::Names;

/// Bytes of a request, at most: a prompt of several million tokens.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What all requests share.
#[derive(Debug)]
struct Stage {
    script: Script,
    counts: FaultCounts,
    /// `None`: the cache holds all that the session sent before.
    cache: Option<Mutex<PrefixCache>>,
    shutdown: CancellationToken,
}

/// Plays `script` on `listener` until `shutdown`. Answers under way are broken off then.
///
/// # Errors
/// When the listener fails.
pub(crate) async fn serve(
    listener: TcpListener,
    script: Script,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let cache = script.cache_tokens.map(|tokens| Mutex::new(reply::cache_of(tokens)));
    let counts = FaultCounts::default();
    let stage = Arc::new(Stage { script, counts, cache, shutdown: shutdown.clone() });
    let router = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        .route("/tokenize", post(length::tokenize))
        .route("/health", get(|| async { StatusCode::OK }))
        .fallback(|| async { (StatusCode::NOT_FOUND, axum::Json(json!({"detail": "Not Found"}))) })
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(stage);
    // Without this, small events would wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
        .context("the mock model server stopped")
}

async fn models(State(stage): State<Arc<Stage>>) -> Response {
    let model = json!({
        "id": stage.script.model, "object": "model", "owned_by": "stepwell",
        "max_model_len": stage.script.max_model_len,
    });
    axum::Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn chat(State(stage): State<Arc<Stage>>, body: Bytes) -> Response {
    let request = match ChatRequest::read(&body) {
        Ok(request) => request,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, &reason, None),
    };
    if let Some(refusal) = length::refusal(request.bytes, stage.script.max_model_len) {
        return refusal;
    }
    let step = match stage.script.find(&request) {
        Ok(step) => step,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, &reason, None),
    };
    let session = request.session();
    let fault = stage.counts.next(&step.faults, session, request.step);
    let session = format!("{session:016x}");
    let names = Names {
        step: request.step,
        session: session.get(..8).unwrap_or(&session),
        task: &request.task,
    };
    if let Some(FaultKind::Status { status, retry_after, message }) = fault {
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return refuse(status, message, retry_after.as_deref());
    }
    let cached_blocks = stage.cache.as_ref().map(|cache| {
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.read(&body)
    });
    let said = Said::new(step, &names, &request, (&stage.script.model, cached_blocks));
    let reply =
        if request.stream { Reply::streamed(&said, fault) } else { Reply::whole(&said, fault) };
    play::play(reply, step.pace, fault, stage.shutdown.clone()).await
}

fn refuse(status: StatusCode, message: &str, retry_after: Option<&str>) -> Response {
    let kind = status.canonical_reason().unwrap_or("Error");
    let error = json!({
        "message": message, "type": kind, "param": null, "code": status.as_u16(),
    });
    let mut response = (status, axum::Json(json!({"error": error}))).into_response();
    if let Some(Ok(value)) = retry_after.map(TryInto::try_into) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

/// A response with this body.
fn respond(content_type: &'static str, body: Body) -> Response {
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}

#[cfg(test)]
mod tests;
