//! The counting worker as a process.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tokio::process::Command;

use crate::ledger::Ledger;
use crate::paths::counting_worker;
use crate::process::Process;

/// Name under which it registers.
const NAME: &str = "counter";
/// Calls that it runs side by side.
const CONCURRENCY: &str = "64";

/// A worker whose tools count their starts: `look` (read), `put` (idempotent), `pay` and `book`
/// (write).
pub struct CountingWorker {
    server: String,
    log: PathBuf,
    ledger: Ledger,
    process: Process,
}

impl CountingWorker {
    /// Starts it. It connects by itself, now and after each break.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(folder: &Path, server: &str) -> Result<Self> {
        let (log, ledger) = (folder.join("worker.log"), Ledger::new(&folder.join("ledger.jsonl")));
        let process = spawn(server, &ledger, &log)?;
        Ok(Self { server: server.to_owned(), log, ledger, process })
    }

    /// What its tools wrote down.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Number of its process.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Kills it with SIGKILL and all calls with it.
    ///
    /// # Errors
    /// When it does not go.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }

    /// Another process under the same name, after [`CountingWorker::kill`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_again(&mut self) -> Result<()> {
        self.process = spawn(&self.server, &self.ledger, &self.log)?;
        Ok(())
    }
}

fn spawn(server: &str, ledger: &Ledger, log: &Path) -> Result<Process> {
    let mut command = Command::new(counting_worker()?);
    command.args(["--server", server, "--name", NAME, "--concurrency", CONCURRENCY]);
    command.arg("--ledger").arg(ledger.path());
    Process::spawn("counting worker", command, log)
}
