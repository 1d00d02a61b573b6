//! A whole session of the real program on the real server: its model asks for a tool that writes, the
//! program is killed while a person is asked, and after the yes the tool runs once and the session ends.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::scene::KEY_ENV;

/// Where the program listens.
const LISTEN: &str = "127.0.0.1:7190";
/// How long the program may take to answer after its start.
const START_WITHIN: Duration = Duration::from_secs(20);
/// How long the model may take for its part of the session.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);

const TASK: &str = "Write the text hello world into the file hello.txt.";

fn agent(base_url: &str, model: &str) -> String {
    format!(
        r#"name = "writer"
instructions = """
You write files with write_file. When the tool says that the file is written, say: done."""
tools = ["write_file"]

[model]
name = "{model}"
base_url = "{base_url}"
api_key_env = "{KEY_ENV}"
parameters = {{ temperature = 0, max_tokens = 256 }}
tool_choice = "required"

[limits]
steps = 6
"#
    )
}

/// The program on a data folder of its own.
struct Stepwell {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Stepwell {
    fn new() -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("stepwell");
        ensure!(program.exists(), "{} is missing: cargo build first", program.display());
        Ok(Self { program, folder: tempfile::tempdir()? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn serve(&self) -> anyhow::Result<Child> {
        let log = std::fs::File::create(self.path("serve.log"))?;
        let child = Command::new(&self.program)
            .args(["serve", "--listen", LISTEN, "--data"])
            .arg(self.path("data"))
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let begun = Instant::now();
        while !self.run(&["ls"]).await?.status.success() {
            if begun.elapsed() > START_WITHIN {
                bail!("it does not start: {}", std::fs::read_to_string(self.path("serve.log"))?);
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(child)
    }

    async fn run(&self, words: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(["--server", &format!("http://{LISTEN}"), "--json"]).args(words);
        let output = command.kill_on_drop(true).output();
        timeout(ANSWER_WITHIN, output)
            .await
            .with_context(|| format!("{words:?} hangs"))?
            .with_context(|| format!("{words:?}"))
    }

    /// The first line that a command prints, as JSON.
    async fn line(&self, words: &[&str]) -> anyhow::Result<Value> {
        let output = self.run(words).await?;
        let text = String::from_utf8(output.stdout)?;
        let line = text
            .lines()
            .next()
            .with_context(|| format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)))?;
        Ok(serde_json::from_str(line)?)
    }
}

fn text<'a>(value: &'a Value, name: &str) -> anyhow::Result<&'a str> {
    value.get(name).and_then(Value::as_str).with_context(|| format!("no {name} in {value}"))
}

/// Runs it; what was seen.
pub(crate) async fn run(base_url: &str, model: &str) -> anyhow::Result<String> {
    let stepwell = Stepwell::new()?;
    let agent_file = stepwell.path("writer.toml");
    std::fs::write(&agent_file, agent(base_url, model))?;
    let agent_file = agent_file.to_str().context("a path")?;
    let mut server = stepwell.serve().await?;
    let submit = ["submit", "--agent", agent_file, "--workspace", "desk", "--wait=person", TASK];
    stepwell.run(&submit).await?;
    let session = stepwell.line(&["ls"]).await?;
    let session_id = text(&session, "session_id")?;
    ensure!(text(&session, "status")? == "waiting_approval", "{session}");
    ensure!(!written(stepwell.folder.path()), "it wrote before the yes");

    server.kill().await?;
    let _server = stepwell.serve().await?;
    let approval = stepwell.line(&["approvals"]).await?;
    stepwell.line(&["approve", text(&approval, "approval_id")?]).await?;
    stepwell.run(&["tail", "-f", session_id]).await?;

    let session = stepwell.line(&["show", session_id]).await?;
    ensure!(session.to_string().contains("\"completed\""), "{session}");
    ensure!(written(stepwell.folder.path()), "nothing was written");
    let log = String::from_utf8(stepwell.run(&["events", session_id]).await?.stdout)?;
    let starts = log.lines().filter(|it| it.contains("\"tool_dispatched\"")).count();
    ensure!(starts == 1, "the tool started {starts} times");
    let replay = stepwell.run(&["replay", session_id]).await?;
    ensure!(replay.status.success(), "replay: {}", String::from_utf8_lossy(&replay.stdout));
    Ok(format!("{} events, killed while it waited, the file written once", log.lines().count()))
}

fn written(folder: &Path) -> bool {
    let file = folder.join("data/workspaces/desk/hello.txt");
    std::fs::read_to_string(file).is_ok_and(|it| it.contains("hello world"))
}
