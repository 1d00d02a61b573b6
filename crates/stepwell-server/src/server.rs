//! The server: gRPC and HTTP on one port, put together.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::middleware;
use axum::response::Response;
use futures_util::StreamExt as _;
use stepwell_core::account::Price;
use stepwell_proto::v1;
use stepwell_proto::v1::agent_service_server::AgentServiceServer;
use stepwell_proto::v1::approval_service_server::ApprovalServiceServer;
use stepwell_proto::v1::history_service_server::HistoryServiceServer;
use stepwell_proto::v1::session_service_server::SessionServiceServer;
use stepwell_proto::v1::store_service_server::StoreServiceServer;
use stepwell_runtime::Engine;
use stepwell_runtime::task::Tasks;
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::io::ReaderStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::ServingStatus;

use crate::agent_file::ModelDefaults;
use crate::api::{Agents, Api, Approvals, Backups, History, OneAtATime, Sessions};
use crate::convert::TEXT_BYTES_MAX;
use crate::gateway::WorkerGateway;
use crate::import::{IMPORT_BYTES_MAX_DEFAULT, IMPORTS_MAX};
use crate::span_cache::SpanCache;
use crate::view::{self, Views};
use crate::{conn, http};

/// Port of a server when nothing is said.
pub const PORT_DEFAULT: u16 = 7171;

/// Largest request to the API, in bytes. A task and a definition fit into it side by side.
pub const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Largest answer, in bytes: an event with whole payloads.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How often a connection is asked whether the other side is still there …
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);

/// … and how long an answer may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Calls and streams of one connection at the same time. A client opens one for each session that
/// it watches.
const STREAMS_MAX: u32 = 1_024;

/// Whole histories that are read at the same time for a replay or a comparison: it is work for the
/// processor, and what is compared is in memory.
pub(crate) const WALKS_MAX: usize = 2;

/// Longest message of an error, in bytes. It stands in a header, where clients take 16 KiB; what a
/// client sent may be repeated in it.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Names the server's release in every answer.
const RELEASE_HEADER: &str = "stepwell-version";

/// How tonic begins to say that a message is too large; it has no other mark.
const TOO_LARGE: &str = "Error, decoded message length too large";

/// How tonic begins to say that a message is no message.
const UNREADABLE: &str = "failed to decode Protobuf message";

/// What the health service answers for; empty means the server as a whole.
const SERVICE_NAMES: [&str; 7] = [
    "",
    v1::session_service_server::SERVICE_NAME,
    v1::approval_service_server::SERVICE_NAME,
    v1::history_service_server::SERVICE_NAME,
    v1::agent_service_server::SERVICE_NAME,
    v1::worker_service_server::SERVICE_NAME,
    v1::store_service_server::SERVICE_NAME,
];

/// Bounds of the server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Names that it may be asked by, beside `localhost` and addresses; web pages of these hosts may
    /// use it, too.
    pub allowed_hosts: Vec<String>,
    /// A server process without a sign of life for this long is dead; the engine's
    /// `EngineOptions::node_lease`.
    pub node_lease: Duration,
    /// A watcher that takes nothing for this long is dropped. It can resume by seq.
    pub slow_reader: Duration,
    /// How long running requests may take to end when the server goes down.
    pub drain: Duration,
    /// Folder for files that are being imported; they have no name in it and vanish with the process.
    pub spool: PathBuf,
    /// Largest file of an import, in bytes, packed or unpacked.
    pub import_bytes_max: u64,
    /// What tokens cost, by the model's name.
    pub prices: BTreeMap<String, Price>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT_DEFAULT)),
            allowed_hosts: Vec::new(),
            node_lease: Duration::from_secs(30),
            slow_reader: Duration::from_secs(30),
            drain: Duration::from_secs(5),
            spool: std::env::temp_dir(),
            import_bytes_max: IMPORT_BYTES_MAX_DEFAULT,
            prices: BTreeMap::new(),
        }
    }
}

/// What the server is a face of.
pub struct Services {
    /// The engine; its owner runs it.
    pub engine: Engine,
    /// The workers' end.
    pub gateway: WorkerGateway,
    /// What definitions get that name no model or address.
    pub model_defaults: ModelDefaults,
    /// A file to open at once. Then nothing but files is shown, and nothing can be changed or started.
    pub shown: Option<ShownFile>,
}

/// An exported file that is to be looked at.
pub struct ShownFile {
    /// Its content.
    pub file: tokio::fs::File,
    /// What it is called.
    pub name: String,
    /// Is told the address of its session, below the server's own.
    pub opened: oneshot::Sender<String>,
}

/// The server cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The descriptors of the reflection service cannot be read: a broken build.
    #[error("the reflection service cannot start: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The file that was to be shown is not right.
    #[error("{}", .0.message())]
    NotShown(Status),
    /// The transport failed.
    #[error("the server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves on `listener` until `shutdown`; then accepts nothing more, ends all watches and worker
/// streams, lets running requests end for [`ServerOptions::drain`], and drops what is left. Whoever
/// drains the engine first lets its tools report and its watchers see the last events.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(
    listener: TcpListener,
    mut services: Services,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let (slow_reader, drain) = (options.slow_reader, options.drain);
    let gate = http::Gate::new(&options.allowed_hosts);
    let (gateway, shown) = (services.gateway.clone(), services.shown.take());
    let api = api_of(services, options, &shutdown);
    let watches = api.watches.clone();
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in SERVICE_NAMES {
        health.set_service_status(service, ServingStatus::Serving).await;
    }
    let mut router = routes(&api)?.add_service(health_service).into_axum_router();
    if let Some(ShownFile { file, name, opened }) = shown {
        let body = Body::from_stream(ReaderStream::new(file));
        let address = view::open(&api, body, name).await.map_err(ServeError::NotShown)?;
        let shown_at: Arc<str> = address.as_str().into();
        // Whoever does not wait for it does not want to know.
        let _ = opened.send(address);
        router = router.layer(middleware::from_fn_with_state(shown_at, view::only_views));
    }
    let router = router
        .layer(middleware::from_fn(http::translate))
        .layer(middleware::from_fn_with_state(gate, http::guard))
        .layer(middleware::map_response(in_words));
    let kill = CancellationToken::new();
    // Not tied to the end of this future alone: connections are tasks of the transport.
    let _kill_at_the_end = kill.clone().drop_guard();
    // The watch of a reader that takes nothing ends first and says why; the connection follows.
    let connections = conn::accept(listener, slow_reader.saturating_mul(2), kill.clone());
    let mut transport = tonic::transport::Server::builder()
        .accept_http1(true)
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(STREAMS_MAX);
    let serving = transport
        .add_routes(Routes::from(router))
        .serve_with_incoming_shutdown(connections, shutdown.clone().cancelled_owned());
    let deadline = async {
        shutdown.cancelled().await;
        gateway.close();
        for service in SERVICE_NAMES {
            health.set_service_status(service, ServingStatus::NotServing).await;
        }
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        result = serving => result?,
        () = deadline => tracing::warn!("requests that did not end in time are dropped"),
    }
    kill.cancel();
    watches.finish(Duration::ZERO).await;
    Ok(())
}

/// Serves the reads of one connection inside this process, which nobody else can reach, until
/// `shutdown` comes. Nothing runs: the engine is only asked.
///
/// # Errors
/// [`ServeError`].
pub async fn serve_within(
    connection: DuplexStream,
    services: Services,
    options: ServerOptions,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let api = api_of(services, options, &shutdown);
    let watches = api.watches.clone();
    let router = with_pages(Routes::default(), &api)
        .into_axum_router()
        .layer(middleware::from_fn(view::only_reads))
        .layer(middleware::map_response(in_words));
    // After it comes none, and the transport must not end for that.
    let connections = futures_util::stream::iter([Ok::<_, std::io::Error>(connection)])
        .chain(futures_util::stream::pending());
    let mut transport = tonic::transport::Server::builder();
    let served = transport
        .add_routes(Routes::from(router))
        .serve_with_incoming_shutdown(connections, shutdown.cancelled_owned())
        .await;
    watches.finish(Duration::ZERO).await;
    Ok(served?)
}

fn api_of(services: Services, options: ServerOptions, shutdown: &CancellationToken) -> Arc<Api> {
    Arc::new(Api {
        engine: services.engine,
        gateway: services.gateway,
        model_defaults: services.model_defaults,
        options,
        spans: SpanCache::default(),
        watches: Tasks::new(),
        imports: Arc::new(Semaphore::new(IMPORTS_MAX)),
        walks: Semaphore::new(WALKS_MAX),
        shutdown: shutdown.clone(),
        backups: OneAtATime::default(),
        views: Views::default(),
    })
}

/// Adds the services that a page needs.
pub(crate) fn with_pages(routes: Routes, api: &Arc<Api>) -> Routes {
    let sessions = SessionServiceServer::new(Sessions(api.clone()))
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX);
    let approvals = ApprovalServiceServer::new(Approvals(api.clone()))
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX);
    let history = HistoryServiceServer::new(History(api.clone()))
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX);
    let agents = AgentServiceServer::new(Agents(api.clone()))
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX);
    routes.add_service(sessions).add_service(approvals).add_service(history).add_service(agents)
}

/// All routes of the port but the health service.
fn routes(api: &Arc<Api>) -> Result<Routes, ServeError> {
    let store = StoreServiceServer::new(Backups(api.clone()));
    let workers = api.gateway.service();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(stepwell_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let pages = Routes::from(http::routes(api.clone()));
    Ok(with_pages(pages, api)
        .add_service(store)
        .add_service(workers)
        .add_service(reflection().build_v1()?)
        // What older clients ask for.
        .add_service(reflection().build_v1alpha()?))
}

/// Names the release, and puts what the transport refuses into the words and codes of this API.
async fn in_words(mut response: Response) -> Response {
    let release = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
    response.headers_mut().insert(RELEASE_HEADER, release);
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let message = status.message();
    let worded = if status.code() == Code::OutOfRange && message.starts_with(TOO_LARGE) {
        let sizes = message.strip_prefix(TOO_LARGE).unwrap_or_default();
        Status::resource_exhausted(format!(
            "the request is too large{sizes}; nothing was done: one text may have \
             {TEXT_BYTES_MAX} bytes, so shorten it, or put it into a file that a tool can read"
        ))
    } else if status.code() == Code::Internal && message.starts_with(UNREADABLE) {
        Status::invalid_argument(format!(
            "the request cannot be read, nothing was done: {message} (texts must be UTF-8)"
        ))
    } else if message.len() > MESSAGE_BYTES_MAX {
        let shorter = stepwell_core::text::shorten(message, MESSAGE_BYTES_MAX);
        Status::new(status.code(), shorter)
    } else {
        return response;
    };
    // Fails only for a message that no header can hold; then the old words stay.
    let _ = worded.add_header(response.headers_mut());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_error_that_repeats_a_long_text_fits_a_header() {
        let long = "é".repeat(100_000);
        let refused = Status::not_found(format!("no session begins with {long}")).into_http();
        let said = in_words(refused).await;
        let status = Status::from_header_map(said.headers()).unwrap();
        assert_eq!(status.code(), Code::NotFound);
        assert!(status.message().starts_with("no session begins with é"), "{status}");
        let bytes = said.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
        assert!(bytes.sum::<usize>() < 16 * 1024);
    }
}
