//! The vLLM process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// vLLM imports torch three times before it listens.
const START_WITHIN: Duration = Duration::from_secs(400);
/// How long it may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(60);
/// Four run, three wait, the next is refused. Tokens are taken as well as messages.
const FLAGS: &str = "--max-num-queued-reqs 3 --enable-scale-out";
const SEQS: &str = "4";

/// A vLLM server.
pub(crate) struct Server {
    command: PathBuf,
    port: u16,
    child: Child,
    started_in: Duration,
}

impl Server {
    /// Starts it and waits until it answers.
    pub(crate) async fn start(command: &Path, port: u16) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let child = spawn(command, port)?;
        let mut server = Self { command: command.into(), port, child, started_in: Duration::ZERO };
        if let Err(error) = server.wait_until_well(begun).await {
            // Its engine would stay with its memory. It may have ended by itself.
            let _ = server.kill().await;
            return Err(error);
        }
        server.started_in = begun.elapsed();
        Ok(server)
    }

    pub(crate) fn started_in(&self) -> Duration {
        self.started_in
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Ends it in the middle of whatever it does, with the processes that it started.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.signal("-KILL").await?;
        self.child.wait().await.context("vLLM could not be ended")?;
        Ok(())
    }

    async fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let id = self.child.id().context("vLLM ended by itself")?;
        // Its group: without its head the engine would stay with its memory.
        let group = format!("-{id}");
        Command::new("kill").args([signal, "--", &group]).status().await?;
        Ok(())
    }

    /// Starts it again after it ended.
    pub(crate) async fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = spawn(&self.command, self.port)?;
        self.wait_until_well(Instant::now()).await
    }

    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.signal("-TERM").await?;
        timeout(STOP_WITHIN, self.child.wait()).await.context("vLLM did not end")??;
        Ok(())
    }

    async fn wait_until_well(&mut self, begun: Instant) -> anyhow::Result<()> {
        while begun.elapsed() < START_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                bail!("vLLM ended with {status} before it listened");
            }
            if self.get("/health").await.is_ok_and(|it| it.starts_with("HTTP/1.1 200")) {
                return Ok(());
            }
            sleep(Duration::from_millis(500)).await;
        }
        bail!("vLLM did not listen within {START_WITHIN:?}")
    }

    /// A counter of `/metrics`, summed over its labels that contain `label`.
    pub(crate) async fn counter(&self, name: &str, label: &str) -> anyhow::Result<f64> {
        let text = self.get("/metrics").await?;
        let lines = text.lines().filter(|it| it.starts_with(name) && it.contains(label));
        Ok(lines.filter_map(|it| it.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    async fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await??;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn spawn(command: &Path, port: u16) -> anyhow::Result<Child> {
    let key = std::env::var(crate::scene::KEY_ENV).context("the key of the server is not set")?;
    Command::new(command)
        .arg(port.to_string())
        .env("SERVE_FLAGS", format!("{FLAGS} --api-key {key}"))
        .env("SERVE_MAX_SEQS", SEQS)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{} cannot be started", command.display()))
}
