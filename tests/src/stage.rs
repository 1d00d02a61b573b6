//! A server, its model, a worker and a command line, in a folder of their own.

use std::path::Path;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::api::Api;
use crate::cli::Cli;
use crate::ledger::Ledger;
use crate::model::MockModel;
use crate::server::Server;
use crate::worker::CountingWorker;

/// How a stage is set.
#[derive(Debug, Clone, Copy, Default)]
pub struct StageOptions<'a> {
    /// A counting worker instead of the one in the server's process.
    pub counting: bool,
    /// More arguments for `serve`.
    pub arguments: &'a [&'a str],
}

/// See the module. Its fields are dropped in their order.
pub struct Stage {
    /// The counting worker, when one was asked for.
    pub worker: Option<CountingWorker>,
    /// The server; it runs.
    pub server: Server,
    /// Connection to the running server.
    pub api: Api,
    /// The model.
    pub model: MockModel,
    folder: TempDir,
}

impl Stage {
    /// Starts everything. The model says what `script` says.
    ///
    /// # Errors
    /// When something does not come up.
    pub async fn start(script: &str, options: StageOptions<'_>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("stepwell-test-").tempdir()?;
        let root = folder.path();
        let model = MockModel::start(root, script).await?;
        let mut server = Server::new(root, Some(model.url()))?.arguments(options.arguments);
        if options.counting {
            server = server.arguments(&["--no-worker"]);
        }
        let api = server.start().await?;
        let mut worker = None;
        if options.counting {
            worker = Some(CountingWorker::start(root, &server.url())?);
        }
        api.until_tool(if options.counting { "pay" } else { "shell" }).await?;
        Ok(Self { worker, server, api, model, folder })
    }

    /// A stage with the counting worker.
    ///
    /// # Errors
    /// As [`Stage::start`].
    pub async fn counting(script: &str) -> Result<Self> {
        Self::start(script, StageOptions { counting: true, ..StageOptions::default() }).await
    }

    /// A stage with the worker in the server's process.
    ///
    /// # Errors
    /// As [`Stage::start`].
    pub async fn embedded(script: &str) -> Result<Self> {
        Self::start(script, StageOptions::default()).await
    }

    /// The folder of everything.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Commands that talk to the server.
    pub fn cli(&self) -> Cli {
        Cli::new(&self.server.url(), self.root())
    }

    /// The counting worker.
    ///
    /// # Errors
    /// When there is none.
    pub fn worker(&mut self) -> Result<&mut CountingWorker> {
        self.worker.as_mut().context("this stage has no counting worker")
    }

    /// What the tools of the counting worker wrote down.
    ///
    /// # Errors
    /// When there is none.
    pub fn ledger(&self) -> Result<Ledger> {
        Ok(self.worker.as_ref().context("this stage has no counting worker")?.ledger().clone())
    }

    /// Writes a file into the folder; gives its path.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.root().join(name);
        std::fs::write(&path, text)?;
        path.to_str().map(str::to_owned).context("the path is not UTF-8")
    }

    /// Kills the server with SIGKILL and starts it again.
    ///
    /// # Errors
    /// When it does not come up again.
    pub async fn kill_and_start(&mut self) -> Result<()> {
        self.api = self.server.kill_and_start().await?;
        Ok(())
    }
}
