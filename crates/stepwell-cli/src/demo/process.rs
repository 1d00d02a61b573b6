//! The demo's server: a process of its own, so that it can be killed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::client::Client;

/// How long a server may take to answer after its start.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_millis(25);

/// See the module.
pub(crate) struct ServerProcess {
    listen: SocketAddr,
    folder: PathBuf,
    model_url: String,
    child: Option<Child>,
}

impl ServerProcess {
    /// A server that is not started.
    pub(crate) fn new(listen: SocketAddr, folder: &Path, model_url: String) -> Self {
        Self { listen, folder: folder.to_owned(), model_url, child: None }
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Starts it and waits until it answers.
    pub(crate) async fn start(&mut self) -> anyhow::Result<(u32, Client)> {
        // Whoever has the address would answer in place of the demo's own server.
        std::net::TcpListener::bind(self.listen).with_context(|| {
            format!("cannot listen on {}: choose another address with --listen", self.listen)
        })?;
        let program = std::env::current_exe().context("the path of this program")?;
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("server.log"))?;
        let mut child = Command::new(program)
            .arg("serve")
            .args(["--listen", &self.listen.to_string()])
            .arg("--data")
            .arg(&self.folder)
            .args(["--model-url", &self.model_url, "--model", "scripted"])
            // Neither a config file nor settings of the user's own server.
            .env("STEPWELL_CONFIG", "/dev/null")
            .env_remove("STEPWELL_WORKSPACES")
            .env_remove("STEPWELL_API_KEY_ENV")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("the server cannot be started")?;
        let pid = child.id().context("the server ended at once")?;
        let answer = tokio::time::timeout(START_WITHIN, async {
            loop {
                if let Some(status) = child.try_wait()? {
                    let log = std::fs::read_to_string(self.folder.join("server.log"))?;
                    bail!("the server ended with {status}:\n{log}");
                }
                if let Ok(client) = Client::connect(&self.url()).await {
                    return Ok(client);
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        });
        let client = answer.await.context("the server does not answer")??;
        self.child = Some(child);
        Ok((pid, client))
    }

    /// Kills it with SIGKILL, as `kill -9` does: it gets no chance to do anything.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Ends it in order.
    pub(crate) async fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = child.id().and_then(|it| i32::try_from(it).ok()) {
            // Already gone is fine.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if tokio::time::timeout(START_WITHIN, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }
}
