//! `stepwell mock-model` as a process of its own: it lives on while servers are killed.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::process::Command;

use crate::paths::stepwell;
use crate::process::Process;
use crate::wait::until;

/// A scripted model.
pub struct MockModel {
    process: Process,
    url: String,
}

impl MockModel {
    /// Plays `script` until it is dropped.
    ///
    /// # Errors
    /// When it does not come up; its words say why.
    pub async fn start(folder: &Path, script: &str) -> Result<Self> {
        let (file, log) = (folder.join("script.toml"), folder.join("model.log"));
        std::fs::write(&file, script)?;
        let mut command = Command::new(stepwell()?);
        command.args(["mock-model", "--json", "--listen", "127.0.0.1:0", "--script"]).arg(file);
        let mut process = Process::spawn("mock model", command, &log)?;
        let url = until("the mock model's address", async || {
            let text = process.log_text();
            let line = text.lines().next().filter(|_| text.contains('\n'));
            let json = line.and_then(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(url) = json.as_ref().and_then(|json| json.get("url")?.as_str()) {
                return Ok(Some(url.to_owned()));
            }
            if let Some(status) = process.ended()? {
                bail!("the mock model ended with {status}:\n{text}");
            }
            Ok(None)
        });
        let url = url.await.context("the mock model does not come up")?;
        Ok(Self { process, url })
    }

    /// Address of its API, with `/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills it with SIGKILL; returns when it is gone.
    ///
    /// # Errors
    /// When it does not go.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }

    /// Number of its process.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }
}
