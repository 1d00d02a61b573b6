//! The same workload over the wire: the real binary, a scripted model over HTTP, the worker over gRPC.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use stepwell_proto::v1::session_service_client::SessionServiceClient;
use stepwell_proto::v1::{CreateSessionRequest, WatchSessionRequest};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

use crate::Bench;
use crate::inproc::{STEPS, one_at_a_time};
use crate::report::{Goal, Measure};
use crate::time::{Stopwatch, median, ms};
use crate::workload::{reply_text, result_text};

/// How long a process may take to answer.
const START_WITHIN: Duration = Duration::from_secs(20);
/// Name of the workspace.
const WORKSPACE: &str = "bench";

/// A process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Time per step over the wire, beside the same in one process in the same run.
pub(crate) fn steps(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let in_process = one_at_a_time(bench, runtime)?;
    let in_process = in_process.first().context("a measure")?.value;
    let folder = bench.scratch()?;
    let (model, server) = (free_port()?, free_port()?);
    let _model = start_model(folder.path(), model)?;
    let _server = start_server(folder.path(), model, server)?;
    let rounds = (20 / bench.scale).max(3);
    let value = runtime.block_on(async {
        let mut client = SessionServiceClient::new(connect(server).await?);
        let mut times = Vec::new();
        run_one(&mut client).await?;
        for _ in 0..rounds {
            let watch = Stopwatch::start();
            run_one(&mut client).await?;
            times.push(ms(watch.elapsed()) / f64::from(STEPS));
        }
        anyhow::Ok(median(times))
    })?;
    Ok(vec![
        Measure {
            name: "over the wire, time per step (limit: in-process)".to_string(),
            value,
            unit: "ms",
            limit: Some(in_process),
            ratio: Some(value / in_process),
            goal: Goal::RatioAtMost(4.0),
        },
        Measure {
            name: "over the wire, share of HTTP and gRPC".to_string(),
            value: (value - in_process) / value * 100.0,
            unit: "%",
            limit: None,
            ratio: None,
            goal: Goal::None,
        },
    ])
}

fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn stepwell(arguments: &[&str], folder: &Path) -> anyhow::Result<Process> {
    let binary = std::env::current_exe()?.with_file_name("stepwell");
    let child = Command::new(&binary)
        .args(arguments)
        .current_dir(folder)
        .env("STEPWELL_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("{} is not there: build stepwell-cli, too", binary.display()))?;
    Ok(Process(child))
}

fn start_model(folder: &Path, listen: SocketAddr) -> anyhow::Result<Process> {
    let script = format!(
        "model = \"stub\"\nchunk_bytes = 0\n[[step]]\nrepeat = {STEPS}\ncontent = {:?}\n\
         tool_calls = [{{ name = \"read_file\", arguments = {{ path = \"item.txt\" }} }}]\n\
         [[step]]\ncontent = \"Done.\"\n",
        reply_text()
    );
    std::fs::write(folder.join("script.toml"), script)?;
    stepwell(&["mock-model", "--script", "script.toml", "--listen", &listen.to_string()], folder)
}

fn start_server(folder: &Path, model: SocketAddr, listen: SocketAddr) -> anyhow::Result<Process> {
    let workspace = folder.join("data/workspaces").join(WORKSPACE);
    std::fs::create_dir_all(&workspace)?;
    std::fs::write(workspace.join("item.txt"), result_text())?;
    let model_url = format!("http://{model}/v1");
    let listen = listen.to_string();
    let arguments = ["serve", "--data", "data", "--listen", &listen, "--model-url", &model_url];
    stepwell(&arguments, folder)
}

async fn connect(server: SocketAddr) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{server}"))?;
    let watch = Stopwatch::start();
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(error) if watch.elapsed() > START_WITHIN => {
                bail!("the server does not answer: {error}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn run_one(client: &mut SessionServiceClient<Channel>) -> anyhow::Result<()> {
    let agent = format!(
        "name = \"bench\"\ninstructions = \"You look items up.\"\ntools = [\"read_file\"]\n\
         [model]\nname = \"stub\"\n[limits]\nsteps = {}\nrepeat_window = 0\n",
        STEPS + 10
    );
    let request = CreateSessionRequest {
        task: "Look all items up.".to_string(),
        agent_definition: agent,
        workspace: WORKSPACE.to_string(),
        submitted_by: "bench".to_string(),
        ..CreateSessionRequest::default()
    };
    let session = client.create_session(request).await?.into_inner().session;
    let session_id = session.context("no session")?.session_id;
    let watch =
        WatchSessionRequest { session_id, events_only: true, ..WatchSessionRequest::default() };
    let mut events = client.watch_session(watch).await?.into_inner();
    // The stream ends with the session.
    while events.message().await?.is_some() {}
    Ok(())
}
