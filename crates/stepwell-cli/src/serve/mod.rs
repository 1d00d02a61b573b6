//! The composition root of a server: adapters and engine are put together here and nowhere else.
//!
//! Order of the end: first the engine drains, while workers can still report and watchers still see
//! the last events; then the worker of this process leaves; then the port closes; then the store.

mod catalogue;
mod file;
mod signals;
mod start;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use stepwell_llm::OpenAiClient;
use stepwell_ports::{Clock as _, Store, ToolGateway};
use stepwell_runtime::system::{SystemClock, SystemRandom, random_bytes};
use stepwell_runtime::{Engine, EngineOptions, Ports};
use stepwell_server::agent_file::ModelDefaults;
use stepwell_server::gateway::{EMBEDDED_NAME, GatewayOptions, WorkerGateway};
use stepwell_server::{ServerOptions, Services};
use stepwell_store_sqlite::{SqliteOptions, SqliteStore};
use stepwell_worker::Toolbox;
use stepwell_worker::builtin::{BuiltinOptions, add_builtin_tools};
use stepwell_worker::host::{HostOptions, WorkerHost};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::{ServeSettings, WorkerSettings};
use crate::out::Paint;

pub(crate) use file::{idle, show};
pub(crate) use signals::Signals;

/// What of the drain time is kept for leaving once the calls had theirs: a tenth, and no more than
/// this. So the whole end has one deadline.
const LEAVING_MAX: Duration = Duration::from_secs(1);

/// How often, and how long apart, a port in use is tried again.
const PORT_TRIES: u32 = 10;
const PORT_WAIT: Duration = Duration::from_millis(100);

/// Runs a server until it is told to end.
pub(crate) async fn run(mut settings: ServeSettings, log: Paint) -> anyhow::Result<()> {
    log_to_stderr(log);
    // What is said about folders must stay true whoever reads it, wherever they are.
    settings.data = std::path::absolute(&settings.data)?;
    settings.workspaces = std::path::absolute(&settings.workspaces)?;
    let listener = listen(settings.listen).await?;
    let address = listener.local_addr()?;
    let store = open_store(&settings)?;
    let node = format!("node-{:032x}", u128::from_le_bytes(random_bytes()));
    let clock = Arc::new(SystemClock);
    if settings.worker_concurrency.is_some() {
        catalogue::remember(&store, &toolbox()?, clock.now()).await?;
    }
    let gateway_options = GatewayOptions {
        embedded_instance: settings.worker_concurrency.is_some().then(|| node.clone()),
        ..GatewayOptions::default()
    };
    let gateway = WorkerGateway::new(store.clone(), clock.clone(), gateway_options);
    let tools: Arc<dyn ToolGateway> = Arc::new(gateway.clone());
    let model = Arc::new(OpenAiClient::new());
    let ports = Ports { store, model: model.clone(), tools, clock, random: Arc::new(SystemRandom) };
    let engine = Engine::new(ports, engine_options(&settings, &node));
    let signals = Signals::new()?;
    announce(&settings, address);
    run_parts(&settings, (listener, address), engine, (gateway, model), signals).await
}

/// Runs engine, server, worker and what tends calls without a follower side by side, and ends them in
/// order.
async fn run_parts(
    settings: &ServeSettings,
    (listener, address): (TcpListener, SocketAddr),
    engine: Engine,
    (gateway, model): (WorkerGateway, Arc<OpenAiClient>),
    mut signals: Signals,
) -> anyhow::Result<()> {
    let (stop_engine, stop_rest) = (CancellationToken::new(), CancellationToken::new());
    let mut parts = JoinSet::new();
    let services = Services {
        engine: engine.clone(),
        gateway: gateway.clone(),
        model_defaults: model_defaults(settings),
        shown: None,
    };
    let options = server_options(settings, address);
    let serving = stepwell_server::serve(listener, services, options, stop_rest.clone());
    parts.spawn(async move { serving.await.context("the server") });
    let (stop_worker, mut worker) = (CancellationToken::new(), JoinSet::new());
    if let Some(concurrency) = settings.worker_concurrency {
        let host = embedded_worker(settings, address, engine.node(), concurrency)?;
        let stop = stop_worker.clone();
        worker.spawn(async move { host.run(stop).await.context("the worker of this process") });
    }
    tend(&mut parts, engine.clone(), (gateway, model), &stop_rest);
    let mut engine_part = JoinSet::new();
    let stop = stop_engine.clone();
    engine_part.spawn(async move { engine.run(stop).await });

    let ended_early = tokio::select! {
        () = signals.wait() => None,
        part = parts.join_next() => part,
        Some(part) = worker.join_next() => Some(part),
    };
    let drain = settings.drain();
    tracing::info!("ending: running calls have {:?} to end", calls_drain(drain));
    let deadline = Instant::now() + drain;
    stop_engine.cancel();
    let in_order = async {
        engine_part.join_next().await;
        // While there is still a server that it can say goodbye to.
        stop_worker.cancel();
        worker.join_next().await.transpose()
    };
    let left = tokio::select! {
        left = in_order => Some(left),
        () = signals.wait_again() => None,
        () = tokio::time::sleep_until(deadline) => {
            tracing::warn!("the time to end is over; what ran is picked up by the next start");
            Some(Ok(None))
        }
    };
    stop_worker.cancel();
    stop_rest.cancel();
    let Some(left) = left else {
        bail!("ended at once by a second signal; what ran is picked up by the next start");
    };
    if let Some(part) = ended_early {
        part??;
        bail!("a part of the server ended by itself");
    }
    left?.transpose()?;
    join(parts, deadline.max(Instant::now() + leaving_of(drain))).await
}

/// Tends calls without a follower, and the replicas of models.
fn tend(
    parts: &mut JoinSet<anyhow::Result<()>>,
    engine: Engine,
    (gateway, model): (WorkerGateway, Arc<OpenAiClient>),
    stop: &CancellationToken,
) {
    let (gateway_stop, model_stop) = (stop.clone(), stop.clone());
    parts.spawn(async move {
        gateway.tend(&engine, &gateway_stop).await;
        Ok(())
    });
    parts.spawn(async move {
        model.tend(&model_stop).await;
        Ok(())
    });
}

/// Waits for the ends of all parts; whoever still holds a connection holds nobody up.
async fn join(mut parts: JoinSet<anyhow::Result<()>>, until: Instant) -> anyhow::Result<()> {
    let ending = async {
        while let Some(part) = parts.join_next().await {
            part??;
        }
        Ok(())
    };
    tokio::time::timeout_at(until, ending).await.unwrap_or(Ok(()))
}

/// What of the drain time is kept for leaving.
fn leaving_of(drain: Duration) -> Duration {
    (drain / 10).min(LEAVING_MAX)
}

/// What of the drain time running calls have.
fn calls_drain(drain: Duration) -> Duration {
    drain.saturating_sub(leaving_of(drain))
}

/// Runs a worker until it is told to end.
pub(crate) async fn run_worker(mut settings: WorkerSettings, log: Paint) -> anyhow::Result<()> {
    log_to_stderr(log);
    settings.workspaces = std::path::absolute(&settings.workspaces)?;
    make_workspaces(&settings.workspaces)?;
    let name = settings.name.unwrap_or_else(default_worker_name);
    let mut options = HostOptions::new(&settings.server, &name, &settings.workspaces);
    options.concurrency = settings.concurrency;
    tracing::info!(name, server = settings.server, "worker");
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let host = WorkerHost::new(options, toolbox()?);
    let running = host.run(stop.clone());
    tokio::pin!(running);
    tokio::select! {
        result = &mut running => return Ok(result?),
        () = signals.wait() => {}
    }
    stop.cancel();
    tokio::select! {
        result = &mut running => Ok(result?),
        () = signals.wait_again() => bail!("ended at once by a second signal"),
    }
}

fn default_worker_name() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let host = host.unwrap_or_else(|| "worker".to_owned());
    let clean: String =
        host.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
    format!("{clean}-{}", std::process::id())
}

/// A process that was killed a moment ago, or a child of it, may still hold the port.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    for _ in 0..PORT_TRIES {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
        tokio::time::sleep(PORT_WAIT).await;
    }
    TcpListener::bind(address).await
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "{address} is in use by another program: stop that one, or choose another address \
             with --listen (port 0 takes a free one)"
        ),
        io::ErrorKind::PermissionDenied => anyhow::anyhow!(
            "the system does not let this user listen on {address}: choose a port above 1023 \
             with --listen"
        ),
        _ => anyhow::Error::new(error)
            .context(format!("cannot listen on {address}: choose another with --listen")),
    })
}

fn open_store(settings: &ServeSettings) -> anyhow::Result<Arc<dyn Store>> {
    let options = SqliteOptions {
        opened_at: SystemClock.now(),
        allow_network_file_system: settings.allow_network_file_system,
    };
    // First, because it makes its folder for its owner only.
    let store = SqliteStore::open(&settings.data, &options).map_err(start::not_opened)?;
    make_workspaces(&settings.workspaces)?;
    Ok(Arc::new(store))
}

fn make_workspaces(folder: &Path) -> anyhow::Result<()> {
    if let Some(file) = start::file_in(folder) {
        bail!(
            "--workspaces: {} is a file and no folder: choose a folder with --workspaces",
            file.display()
        );
    }
    std::fs::create_dir_all(folder).with_context(|| {
        let shown = folder.display();
        format!(
            "the folder for workspaces {shown} cannot be made; choose another with --workspaces"
        )
    })
}

fn model_defaults(settings: &ServeSettings) -> ModelDefaults {
    ModelDefaults {
        name: settings.model.clone(),
        base_url: settings.model_url.clone(),
        replicas: settings.model_replicas.clone(),
        api_key_env: settings.api_key_env.clone(),
    }
}

fn server_options(settings: &ServeSettings, listen: SocketAddr) -> ServerOptions {
    let default = ServerOptions::default();
    ServerOptions {
        listen,
        allowed_hosts: settings.allow_hosts.clone(),
        spool: settings.data.clone(),
        prices: settings.prices.clone(),
        import_bytes_max: settings.limits.import_bytes_max.unwrap_or(default.import_bytes_max),
        ..default
    }
}

fn engine_options(settings: &ServeSettings, node: &str) -> EngineOptions {
    let mut options = EngineOptions::for_node(node);
    let limits = &settings.limits;
    options.active_sessions_max = limits.active_sessions_max.unwrap_or(options.active_sessions_max);
    options.model_calls_max = limits.model_calls_max.unwrap_or(options.model_calls_max);
    options.drain = calls_drain(settings.drain());
    options
}

impl ServeSettings {
    fn drain(&self) -> Duration {
        self.limits.drain.unwrap_or_else(|| EngineOptions::for_node("").drain)
    }
}

/// The built-in tools.
pub(crate) fn toolbox() -> anyhow::Result<Toolbox> {
    let mut toolbox = Toolbox::new();
    add_builtin_tools(&mut toolbox, BuiltinOptions::default())?;
    Ok(toolbox)
}

fn embedded_worker(
    settings: &ServeSettings,
    address: SocketAddr,
    node: &str,
    concurrency: u32,
) -> anyhow::Result<WorkerHost> {
    let server = format!("http://{}", reachable(address));
    let mut options = HostOptions::new(server, EMBEDDED_NAME, &settings.workspaces);
    options.instance = Some(node.to_owned());
    options.concurrency = concurrency;
    // Its calls have ended or were given up when it is told to leave.
    options.drain = Duration::ZERO;
    Ok(WorkerHost::new(options, toolbox()?))
}

/// An address that this machine can reach itself under: "all addresses" is none.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(it) if it.ip().is_unspecified() => {
            SocketAddr::from(([127, 0, 0, 1], it.port()))
        }
        SocketAddr::V6(it) if it.ip().is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, it.port()))
        }
        SocketAddr::V4(_) | SocketAddr::V6(_) => address,
    }
}

/// Says where the server is, on stdout, so that scripts can read it.
#[expect(clippy::print_stdout, reason = "a program tells its user")]
fn announce(settings: &ServeSettings, address: SocketAddr) {
    println!("stepwell serves on http://{address}");
    println!("  data        {}", settings.data.display());
    println!("  workspaces  {}", settings.workspaces.display());
    match settings.worker_concurrency {
        Some(calls) => println!("  worker      in this process, {calls} calls at a time"),
        None => println!("  worker      none in this process: start one with `stepwell worker`"),
    }
    match (&settings.model_url, &settings.model) {
        (Some(url), Some(model)) => match settings.model_replicas.len() {
            0 => println!("  model       {model} at {url}"),
            more => println!("  model       {model} at {url} and {more} more"),
        },
        (Some(url), None) => println!("  model       named by the agents, at {url}"),
        (None, _) => println!("  model       named by the agents"),
    }
}

/// Logs go to stderr; `STEPWELL_LOG` chooses what (for example `debug`).
fn log_to_stderr(paint: Paint) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("STEPWELL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(paint.is_on())
        .with_writer(io::stderr);
    // A second call in one process changes nothing.
    let _ = log.try_init();
}
