//! `view`: a server that shows one exported file, from memory.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde::Serialize;
use stepwell_llm::OpenAiClient;
use stepwell_ports::Store;
use stepwell_ports::memory::MemoryStore;
use stepwell_runtime::system::{SystemClock, SystemRandom};
use stepwell_runtime::{Engine, EngineOptions, Ports};
use stepwell_server::agent_file::ModelDefaults;
use stepwell_server::gateway::{GatewayOptions, WorkerGateway};
use stepwell_server::{ServerOptions, Services, ShownFile};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Signals;
use crate::args::ViewArgs;
use crate::out::Out;

#[derive(Serialize)]
struct Shown {
    url: String,
}

/// Shows a file until it is told to end.
pub(crate) async fn show(out: Out, args: ViewArgs) -> anyhow::Result<()> {
    super::log_to_stderr(out.paint_err);
    let shown = args.file.display().to_string();
    let file = tokio::fs::File::open(&args.file).await;
    let file = file.with_context(|| format!("{shown} cannot be opened"))?;
    let name = args.file.file_name().map(|it| it.to_string_lossy().into_owned());
    let listener = super::listen(args.listen).await?;
    let address = listener.local_addr()?;
    let (opened, is_open) = oneshot::channel();
    let file = ShownFile { file, name: name.unwrap_or_default(), opened };
    let options = ServerOptions { listen: address, ..ServerOptions::default() };
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let services = idle(Arc::new(MemoryStore::new()), Some(file));
    let serving = stepwell_server::serve(listener, services, options, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        result = &mut serving => {
            result.with_context(|| shown.clone())?;
            bail!("the server ended by itself");
        }
        path = is_open => announce(out, &shown, address, &path?)?,
    }
    tokio::select! {
        result = &mut serving => return Ok(result?),
        () = signals.wait() => stop.cancel(),
    }
    Ok(serving.await?)
}

/// An engine over a store in memory that is never run: nothing happens by itself.
pub(crate) fn idle(store: Arc<dyn Store>, shown: Option<ShownFile>) -> Services {
    let clock = Arc::new(SystemClock);
    let gateway = WorkerGateway::new(store.clone(), clock.clone(), GatewayOptions::default());
    let ports = Ports {
        store,
        model: Arc::new(OpenAiClient::new()),
        tools: Arc::new(gateway.clone()),
        clock,
        random: Arc::new(SystemRandom),
    };
    Services {
        engine: Engine::new(ports, EngineOptions::for_node("view")),
        gateway,
        model_defaults: ModelDefaults::default(),
        shown,
    }
}

fn announce(out: Out, file: &str, address: SocketAddr, path: &str) -> anyhow::Result<()> {
    let url = format!("http://{}{path}", super::reachable(address));
    if out.is_json {
        return out.json(&Shown { url });
    }
    out.line(&url)?;
    out.faint_remark(&format!("shows {file}, read only; Ctrl-C ends it"));
    Ok(())
}
