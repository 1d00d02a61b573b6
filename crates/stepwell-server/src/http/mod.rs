//! The plain HTTP side of the port: the web viewer, gRPC for web pages, server-sent events, lists as
//! JSON, health, a page that says what this is.

mod error;
mod gate;
mod grpc_web;
mod json;
mod sse;
mod web;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use stepwell_proto::v1;
use tonic::Status;

use crate::api::Api;
use crate::convert::SessionQuery;
use crate::{status, view};
use error::HttpError;
use gate::speaks_grpc;

pub(crate) use gate::{Gate, guard};
pub(crate) use grpc_web::translate;
pub(crate) use web::takes_page;

/// What is on the port, for programs; people have the viewer.
const ABOUT: &str = "\
This is a Stepwell server: a durable executor for LLM agents.

On this port:
  GET      /                               the web viewer
  gRPC     stepwell.v1.SessionService, ApprovalService, HistoryService, AgentService,
           StoreService, WorkerService (with reflection: grpcurl -plaintext HOST:PORT list);
           the same as gRPC-web
  POST     /view?name=FILE                 opens an exported file, read only; its body is the file
  GET      /v1/sessions                    sessions, newest update first
  GET      /v1/sessions/{id}               one session
  GET      /v1/sessions/{id}/events        its history and what follows, as server-sent events
  GET      /health                         `ok` while the server runs

On the command line: stepwell --help
";

/// The routes.
pub(crate) fn routes(api: Arc<Api>) -> Router {
    Router::new()
        .merge(web::views())
        .route("/about", get(about))
        .route("/view", post(open_view))
        .route("/view/{token}/", get(web::page))
        .route("/view/{token}/{*rest}", any(in_view))
        .route("/health", get(health))
        .route("/v1/sessions", get(sessions))
        .route("/v1/sessions/{id}", get(session))
        .route("/v1/sessions/{id}/events", get(events))
        .fallback(elsewhere)
        .with_state(api)
}

async fn about() -> &'static str {
    ABOUT
}

async fn health(State(api): State<Arc<Api>>) -> Response {
    if api.shutdown.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    "ok\n".into_response()
}

/// A refusal in the words of whoever asks: a gRPC status, or the same as JSON.
pub(crate) fn refusal(headers: &HeaderMap, status: Status) -> Response {
    if speaks_grpc(headers) { status.into_http() } else { HttpError(status).into_response() }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewParameters {
    name: Option<String>,
}

#[derive(Serialize)]
struct OpenedView {
    /// Of the session's page.
    address: String,
}

/// Opens the exported file that is the body.
async fn open_view(
    State(api): State<Arc<Api>>,
    read: Parameters<ViewParameters>,
    body: Body,
) -> Result<Response, HttpError> {
    let name = parameters(read)?.name.unwrap_or_default();
    let address = view::open(&api, body, name).await?;
    Ok(Json(OpenedView { address }).into_response())
}

/// What is below the address of an open file: its pages, and the calls that they make.
async fn in_view(
    State(api): State<Arc<Api>>,
    Path((token, rest)): Path<(String, String)>,
    request: axum::extract::Request,
) -> Response {
    if *request.method() == Method::GET {
        return web::page(request.headers().clone()).await;
    }
    view::call(&api, &token, &rest, request).await
}

/// Files of the viewer, and unknown paths: gRPC clients get a status that they understand, people the
/// page that says so, all others a line of text.
async fn elsewhere(headers: HeaderMap, request: axum::extract::Request) -> Response {
    let path = request.uri().path().to_owned();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if let Some(file) = web::file(&path, &headers).filter(|_| reads) {
        return file;
    }
    if speaks_grpc(&headers) {
        let text = format!("this server has no method {path}: grpcurl -plaintext HOST:PORT list");
        return Status::unimplemented(text).into_http();
    }
    if reads && let Some(page) = web::nothing_here(&path, &headers).await {
        return page;
    }
    HttpError(Status::not_found(format!("there is nothing at {path}: see /about"))).into_response()
}

/// Parameters of an address. One that nobody knows is refused: it would be a wish that is ignored.
type Parameters<T> = Result<Query<T>, QueryRejection>;

fn parameters<T>(read: Parameters<T>) -> Result<T, Status> {
    let Query(parameters) = read
        .map_err(|error| Status::invalid_argument(format!("the address: {}", error.body_text())))?;
    Ok(parameters)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParameters {
    status: Option<String>,
    agent: Option<String>,
    text: Option<String>,
    page_size: Option<u32>,
    page_token: Option<String>,
}

async fn sessions(
    State(api): State<Arc<Api>>,
    read: Parameters<ListParameters>,
) -> Result<Response, HttpError> {
    let parameters = parameters(read)?;
    let mut request = v1::ListSessionsRequest {
        agent: parameters.agent.unwrap_or_default(),
        text: parameters.text.unwrap_or_default(),
        page_size: parameters.page_size.unwrap_or_default(),
        page_token: parameters.page_token.unwrap_or_default(),
        ..v1::ListSessionsRequest::default()
    };
    for name in parameters.status.iter().flat_map(|it| it.split(',')) {
        let wire = format!("SESSION_STATUS_{}", name.trim().to_uppercase());
        let status = v1::SessionStatus::from_str_name(&wire)
            .ok_or_else(|| Status::invalid_argument(format!("status: {name:?} is none")))?;
        request.statuses.push(status.into());
    }
    let query = SessionQuery::try_from(request).map_err(Status::from)?;
    let store = api.engine.store();
    let page = store.sessions(&query.filter, query.page.as_deref(), query.rows).await;
    let page = page.map_err(|error| status::store(&error))?;
    let rows = api.rows_to_wire(page.rows);
    json::sessions(&rows, page.next_page.as_deref())
}

async fn session(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Response, HttpError> {
    let session_id = api.find(&id).await?;
    let info = api.session_info(session_id).await?;
    json::session(&api.row_to_wire(info.row))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsParameters {
    after_seq: Option<String>,
    events_only: Option<bool>,
    whole_payloads: Option<bool>,
}

async fn events(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    read: Parameters<EventsParameters>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let parameters = parameters(read)?;
    let request = sse::SseRequest {
        session: id,
        // A browser that reconnects repeats the address it was given at first; the header is newer.
        last_event_id: headers.get("last-event-id").map(|it| it.as_bytes().to_vec()),
        after_seq: parameters.after_seq,
        events_only: parameters.events_only.unwrap_or(false),
        whole_payloads: parameters.whole_payloads.unwrap_or(false),
    };
    sse::respond(&api, request).await
}
