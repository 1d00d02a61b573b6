//! Exported files that are only looked at. Each is read into a store of its own, in memory, and served
//! below an address of its own, `/view/HASH`, by the same services as the real store.
//!
//! Invariant: nothing behind such an address can be changed or run: calls that do more than read are
//! refused, and no engine runs over its store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Redirect, Response};
use stepwell_ports::Store;
use stepwell_ports::memory::MemoryStore;
use stepwell_runtime::Engine;
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::service::Routes;
use tower::ServiceExt as _;

use crate::api::{Api, OneAtATime};
use crate::gateway::{GatewayOptions, WorkerGateway};
use crate::server::{self, ServerOptions, WALKS_MAX};
use crate::span_cache::SpanCache;
use crate::{http, import};

/// Files that are open at the same time; one more closes the one that was opened first.
const VIEWS_MAX: usize = 4;

/// Largest file, in bytes, packed or unpacked: it is kept in memory.
const VIEW_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Characters of a file's hash in its address.
const TOKEN_CHARS: usize = 32;

/// What the names of calls that only read begin with.
const READS: [&str; 6] = ["Get", "List", "Watch", "Find", "Compare", "Replay"];

/// The files that are open, in the order in which they were opened.
#[derive(Default)]
pub(crate) struct Views(Mutex<VecDeque<View>>);

struct View {
    token: String,
    router: Router,
}

impl Views {
    /// The services over an open file.
    fn router(&self, token: &str) -> Option<Router> {
        let views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        views.iter().find(|it| it.token == token).map(|it| it.router.clone())
    }

    fn add(&self, view: View) {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The same file again: what was seen of it goes on.
        if views.iter().any(|it| it.token == view.token) {
            return;
        }
        if views.len() >= VIEWS_MAX {
            views.pop_front();
        }
        views.push_back(view);
    }
}

/// Opens the file that `body` holds; gives the address of its session.
pub(crate) async fn open(api: &Arc<Api>, body: Body, name: String) -> Result<String, Status> {
    let beside = Arc::new(beside(api));
    let viewed = import::view(api, &beside, body, name).await?;
    let token: String = viewed.hash.to_hex().chars().take(TOKEN_CHARS).collect();
    let address = format!("/view/{token}/s/{}", viewed.session_id);
    let router = server::with_pages(Routes::default(), &beside).into_axum_router();
    api.views.add(View { token, router: router.layer(middleware::from_fn(only_reads)) });
    Ok(address)
}

/// Passes a call to the file that it is about. `rest` is the address behind the file's own.
pub(crate) async fn call(api: &Api, token: &str, rest: &str, request: Request) -> Response {
    let Some(router) = api.views.router(token) else {
        let text = "this file is not open here any more: drop it into the page again, or run \
                    stepwell view FILE";
        return http::refusal(request.headers(), Status::not_found(text));
    };
    let (mut parts, body) = request.into_parts();
    let Ok(uri) = format!("/{rest}").parse() else {
        return http::refusal(&parts.headers, Status::not_found(format!("there is no /{rest}")));
    };
    parts.uri = uri;
    let Ok(response) = router.oneshot(Request::from_parts(parts, body)).await;
    response
}

/// Refuses what does more than read.
pub(crate) async fn only_reads(request: Request, next: Next) -> Response {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default();
    if READS.iter().any(|it| method.starts_with(it)) {
        return next.run(request).await;
    }
    let text = format!(
        "nothing was done: {method} would change something, and this is an exported file, read \
         only; to go on with it, bring it into a server: stepwell import FILE"
    );
    http::refusal(request.headers(), Status::failed_precondition(text))
}

/// For a server that shows nothing but exported files: a person who goes elsewhere is led to the file
/// at `address`, and all else that would change something is refused.
pub(crate) async fn only_views(
    State(address): State<Arc<str>>,
    request: Request,
    next: Next,
) -> Response {
    let is_view = request.uri().path().starts_with("/view");
    if !is_view && http::takes_page(request.headers()) {
        return Redirect::temporary(&address).into_response();
    }
    if is_view || matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    only_reads(request, next).await
}

/// What the services need over an empty store in memory.
fn beside(api: &Api) -> Api {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let clock = api.engine.clock().clone();
    let gateway = WorkerGateway::new(store.clone(), clock, GatewayOptions::default());
    let engine: Engine = api.engine.over(store);
    let import_bytes_max = api.options.import_bytes_max.min(VIEW_BYTES_MAX);
    Api {
        engine,
        gateway,
        model_defaults: api.model_defaults.clone(),
        options: ServerOptions { import_bytes_max, ..api.options.clone() },
        spans: SpanCache::default(),
        watches: api.watches.clone(),
        imports: api.imports.clone(),
        walks: Semaphore::new(WALKS_MAX),
        shutdown: api.shutdown.clone(),
        backups: OneAtATime::default(),
        views: Views::default(),
    }
}
