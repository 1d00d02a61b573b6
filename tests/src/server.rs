//! `stepwell serve` as a process that is killed and started again on the same port and folder.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;
use tokio::process::Command;

use crate::api::Api;
use crate::paths::stepwell;
use crate::ports::free_address;
use crate::process::Process;
use crate::wait::{SOON, until};

/// A server, running or not.
pub struct Server {
    listen: SocketAddr,
    root: PathBuf,
    data: PathBuf,
    model_url: Option<String>,
    arguments: Vec<String>,
    before: String,
    process: Option<Process>,
}

/// A server that did not start.
#[derive(Debug)]
pub struct Refused {
    /// Its exit code.
    pub code: Option<i32>,
    /// What it wrote.
    pub text: String,
}

impl Server {
    /// A server with the data folder `root/data`; not started.
    ///
    /// # Errors
    /// When no port is free.
    pub fn new(root: &Path, model_url: Option<&str>) -> Result<Self> {
        Ok(Self {
            listen: free_address()?,
            root: root.to_owned(),
            data: root.join("data"),
            model_url: model_url.map(str::to_owned),
            arguments: Vec::new(),
            before: String::new(),
            process: None,
        })
    }

    /// Adds arguments.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|it| (*it).to_owned()));
        self
    }

    /// Another data folder.
    pub fn in_folder(mut self, data: &Path) -> Self {
        data.clone_into(&mut self.data);
        self
    }

    /// Another address.
    pub fn on(mut self, listen: SocketAddr) -> Self {
        self.listen = listen;
        self
    }

    /// Words for the shell that starts the server, for example `ulimit -S -f 100`.
    pub fn after(mut self, before: &str) -> Self {
        before.clone_into(&mut self.before);
        self
    }

    /// Its address.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Its address as clients write it.
    pub fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Its data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Number of its process.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pid(&self) -> Result<i32> {
        Ok(self.process.as_ref().context("the server does not run")?.pid())
    }

    fn spawn(&self) -> Result<Process> {
        let program = stepwell()?;
        let mut command = if self.before.is_empty() {
            Command::new(program)
        } else {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{}; exec \"$0\" \"$@\"", self.before)]).arg(program);
            shell
        };
        command.arg("serve").args(["--listen", &self.listen.to_string()]);
        command.arg("--data").arg(&self.data);
        if let Some(url) = &self.model_url {
            command.args(["--model-url", url, "--model", "mock"]);
        }
        command.args(&self.arguments);
        clean_environment(&mut command, &self.root);
        Process::spawn("server", command, &self.root.join("server.log"))
    }

    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// When it does not; its words say why.
    pub async fn start(&mut self) -> Result<Api> {
        let mut process = self.spawn()?;
        let url = self.url();
        let api = until("an answer of the server", async || {
            if let Some(status) = process.ended()? {
                bail!("the server ended with {status}:\n{}", process.log_text());
            }
            match Api::connect(&url).await {
                Ok(api) => Ok(Some(api)),
                Err(_) => Ok(None),
            }
        });
        let api = api.await?;
        self.process = Some(process);
        Ok(api)
    }

    /// Starts it, which must fail.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn start_refused(&self) -> Result<Refused> {
        let mut process = self.spawn()?;
        let before = process.log_text().len();
        let status = process.wait(SOON).await.context("it should not have started")?;
        let text = process.log_text().split_off(before);
        Ok(Refused { code: status.code(), text })
    }

    /// Kills it with SIGKILL; returns when it is gone.
    ///
    /// # Errors
    /// When it does not run, or ended before.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.take().context("the server does not run")?.kill().await
    }

    /// Kills it and starts it again.
    ///
    /// # Errors
    /// As [`Server::kill`] and [`Server::start`].
    pub async fn kill_and_start(&mut self) -> Result<Api> {
        self.kill().await?;
        self.start().await
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().context("the server does not run")?.signal(signal);
        Ok(())
    }

    /// Waits for its end after a signal.
    ///
    /// # Errors
    /// When it does not end within `limit`.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let mut process = self.process.take().context("the server does not run")?;
        process.wait(limit).await
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// When it ends with an error, or not at all.
    pub async fn stop(&mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        let text = self.log_text();
        let status = self.wait(SOON).await?;
        if !status.success() {
            bail!("the server ended with {status}:\n{text}");
        }
        Ok(())
    }

    /// What it wrote.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.root.join("server.log")).unwrap_or_default()
    }

    /// Memory of its process that is in use, in KiB.
    ///
    /// # Errors
    /// When it does not run.
    pub fn memory_kib(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("no VmRSS")?.parse()?)
    }
}

/// Neither settings of the user's own server nor a config file may reach a test.
pub(crate) fn clean_environment(command: &mut Command, home: &Path) {
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_string_lossy().starts_with("STEPWELL_");
        if is_ours || name == "XDG_CONFIG_HOME" || name == "XDG_DATA_HOME" {
            command.env_remove(name);
        }
    }
    command.env("HOME", home).env("NO_COLOR", "1").env("TZ", "UTC");
    if let Some(log) = std::env::var_os("STEPWELL_TEST_LOG") {
        command.env("STEPWELL_LOG", log);
    }
}
