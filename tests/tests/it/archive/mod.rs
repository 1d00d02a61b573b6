//! Exported sessions: out of one server, into another, checked, damaged, redacted.

mod anchor;
mod damage;
mod files;
mod long;
mod redact;
mod travel;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;
use serde_json::Value;
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Cli, Server, Stage, agent_with};

use super::cli::{LOOKER, PAYER};

/// A server without a model, beside the stage.
struct Desk {
    server: Server,
    root: PathBuf,
}

impl Desk {
    async fn new(stage: &Stage) -> Result<Self> {
        let root = stage.root().join("desk");
        std::fs::create_dir_all(&root)?;
        let mut server = Server::new(&root, None)?.arguments(&["--no-worker"]);
        server.start().await?;
        Ok(Self { server, root })
    }

    fn cli(&self) -> Cli {
        Cli::new(&self.server.url(), &self.root)
    }
}

/// Large enough to be kept beside its event.
fn large_task() -> String {
    "Look at the sky, and say what you see. ".repeat(1_000)
}

/// A stage with a session that completed; its task is large.
async fn completed() -> Result<(Stage, String)> {
    let stage = Stage::counting(LOOKER).await?;
    let session_id = stage.api.create(&large_task(), &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    Ok((stage, session_id))
}

/// A stage with a session that waits for an approval.
async fn waiting() -> Result<(Stage, String)> {
    let stage = Stage::counting(PAYER).await?;
    let session_id = stage.api.create("Pay the rent.", &agent_with(&["pay"], "")).await?;
    stage.api.until_approval(&session_id).await?;
    Ok((stage, session_id))
}

/// Exports a session into the stage's folder; gives the path.
async fn export(stage: &Stage, session_id: &str, more: &[&str]) -> Result<String> {
    let path = stage.root().join(format!("out-{}.stepwell", more.len()));
    let path = path.to_str().context("the path is not UTF-8")?.to_owned();
    let words = [&["export", session_id, "-o", &path], more].concat();
    stage.cli().run(&words).await?.expect(0)?;
    Ok(path)
}

/// Changes the store of a stopped server by hand.
async fn by_hand(stage: &mut Stage, sql: &str) -> Result<()> {
    stage.server.stop().await?;
    Connection::open(stage.server.data().join("stepwell.db"))?.execute_batch(sql)?;
    stage.api = stage.server.start().await?;
    Ok(())
}

/// The lines of `events`, byte for byte.
async fn history(cli: &Cli, session_id: &str, more: &[&str]) -> Result<String> {
    let ran = cli.run(&[&["events", session_id], more].concat()).await?;
    ran.expect(0)?;
    Ok(ran.stdout)
}

/// The one verdict of a `verify`, and its exit code.
async fn verdict(cli: &Cli, words: &[&str], code: i32) -> Result<String> {
    let ran = cli.run(&[&["verify", "--json"], words].concat()).await?;
    ran.expect(code)?;
    let lines = ran.lines()?;
    ensure!(lines.len() == 1, "{lines:?}");
    Ok(text(&lines[0], "verdict").to_owned())
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Files of a folder by name, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
