//! A disk that is full, and a disk that forgets.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use stepwell_proto::v1::{ApprovalDecision, SessionStatus};
use stepwell_tests::{Cli, CountingWorker, MockModel, SOON, Server, Stage, agent_with, until};

/// How a data folder gets a bound that can be lifted.
enum Bound {
    /// A small file system of its own, filled by a file that is removed later. Needs root.
    Mount(PathBuf),
    /// A bound on the size of files that the server's process may write.
    FileSize,
}

/// Room on the small file system, in KiB: enough for the store to begin.
const ROOM_KIB: u64 = 6 * 1024;

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output()?;
    ensure!(output.status.success(), "{program} {arguments:?}: {output:?}");
    Ok(())
}

impl Bound {
    fn set(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let place = folder.to_str().context("no UTF-8")?;
        let size = format!("size={ROOM_KIB}k");
        if run("mount", &["-t", "tmpfs", "-o", &size, "stepwell-test", place]).is_ok() {
            return Ok(Self::Mount(folder.to_owned()));
        }
        println!("no file system can be mounted here, so the size of files is bounded");
        Ok(Self::FileSize)
    }

    /// What the shell does before it starts the server. The signal would kill it.
    fn before_start(&self) -> &'static str {
        match self {
            Self::Mount(_) => "true",
            Self::FileSize => "trap '' XFSZ",
        }
    }

    /// What a session says that waits for the disk.
    fn told(&self) -> &'static str {
        match self {
            Self::Mount(_) => "is full",
            Self::FileSize => "the store failed in append",
        }
    }

    /// From now on nothing can be written.
    fn fill(&self, server: &Server) -> Result<()> {
        match self {
            Self::Mount(folder) => {
                let file = std::fs::File::create(folder.join("ballast"))?;
                let block = [0; 4096];
                let mut end = 0;
                while file.write_at(&block, end).is_ok() {
                    end += 4096;
                }
                ensure!(end > 0, "there was no room to fill");
                Ok(())
            }
            Self::FileSize => {
                let pid = server.pid()?.to_string();
                run("prlimit", &["--pid", &pid, "--fsize=4096:unlimited"])
            }
        }
    }

    fn make_room(&self, server: &Server) -> Result<()> {
        match self {
            Self::Mount(folder) => Ok(std::fs::remove_file(folder.join("ballast"))?),
            Self::FileSize => {
                let pid = server.pid()?.to_string();
                run("prlimit", &["--pid", &pid, "--fsize=unlimited:unlimited"])
            }
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Self::Mount(folder) = self
            && let Some(place) = folder.to_str()
        {
            // Lazily, should a process still be at its end.
            let _ = run("umount", &["--lazy", place]);
        }
    }
}

const SCRIPT: &str = "delay_ms = 20\n[[step]]\nrepeat = 30\ntool_calls = [{ name = \"pay\", arguments \
    = { what = \"bill {{step}}\", bytes = 3000 } }]\n[[step]]\ncontent = \"all paid\"";

#[tokio::test]
async fn a_full_disk_makes_sessions_wait_and_say_so_and_they_go_on_when_there_is_room() -> Result<()>
{
    let folder = tempfile::tempdir()?;
    let bound = Bound::set(&folder.path().join("data"))?;
    check_a_wait_for_room(folder.path(), &bound).await
}

#[tokio::test]
async fn a_disk_that_refuses_writes_makes_sessions_wait_and_they_go_on_when_it_takes_them()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    check_a_wait_for_room(folder.path(), &Bound::FileSize).await
}

async fn check_a_wait_for_room(root: &Path, bound: &Bound) -> Result<()> {
    let model = MockModel::start(root, SCRIPT).await?;
    let mut server = Server::new(root, Some(model.url()))?
        .arguments(&["--no-worker"])
        .after(bound.before_start());
    let api = server.start().await?;
    let worker = CountingWorker::start(root, &server.url())?;
    api.until_tool("pay").await?;
    let rules = "[[approval.rules]]\ntool = \"pay\"\nverdict = \"allow\"";
    let session_id = api.create("Pay all bills.", &agent_with(&["pay"], rules)).await?;
    api.until_event(&session_id, "step 3", |it| it.number("step") == 3).await?;

    bound.fill(&server)?;
    let cli = Cli::new(&server.url(), root);
    let shown = until("that it says so", async || {
        let shown = cli.one(&["show", &session_id]).await?;
        let explain = shown["explain"].as_str().unwrap_or_default();
        Ok(explain.contains(bound.told()).then_some(shown))
    });
    let shown = shown.await?;
    println!("it says: {}", shown["explain"]);
    let is_waiting = matches!(shown["status"].as_str(), Some("thinking" | "executing_tools"));
    ensure!(is_waiting, "{shown}");
    // What needs to be written is refused with the reason; what only reads goes on.
    let refused = cli.run(&["send", &session_id, "hello?"]).await?;
    refused.expect(1)?;
    ensure!(refused.stderr.contains(bound.told()), "{}", refused.stderr);
    let acknowledged = api.events(&session_id).await?;
    cli.json(&["ls"]).await?;

    bound.make_room(&server)?;
    api.until_status(&session_id, SessionStatus::Completed).await?;
    let events = api.events(&session_id).await?;
    ensure!(events.starts_with(&acknowledged), "what was there is not there any more");
    for step in 1..=30 {
        let starts = worker.ledger().starts_of(&session_id, &format!("{step}.1"))?;
        ensure!(starts.len() == 1, "call {step}.1 was started {} times", starts.len());
    }
    server.stop().await
}

/// A command whose result finds no room, and a stop.
#[tokio::test]
async fn a_server_whose_disk_is_full_ends_by_one_deadline() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (root, bound) = (folder.path(), Bound::FileSize);
    let script = "[[step]]\ntool_calls = [{ name = \"shell\", arguments = { command = \"touch \
                  began; until [ -e go ]; do sleep 0.05; done\" } }]\n[[step]]\ncontent = \"end\"";
    let model = MockModel::start(root, script).await?;
    let mut server = Server::new(root, Some(model.url()))?
        .arguments(&["--drain", "2s"])
        .after(bound.before_start());
    let api = server.start().await?;
    api.until_tool("shell").await?;
    let rules = "[[approval.rules]]\ntool = \"shell\"\nverdict = \"allow\"";
    let session_id = api.create("Run it.", &agent_with(&["shell"], rules)).await?;
    let workspace = server.data().join("workspaces").join(&session_id);
    until("its beginning", async || Ok(workspace.join("began").exists().then_some(()))).await?;
    bound.fill(&server)?;
    // The shell's process has the bound, too, which lets no file grow but makes empty ones.
    std::fs::write(workspace.join("go"), "")?;
    until("that it says so", async || {
        let explain = api.session(&session_id).await?.explain;
        Ok(explain.contains(bound.told()).then_some(()))
    })
    .await?;
    server.signal(Signal::SIGTERM)?;
    let status = server.wait(SOON).await?;
    ensure!(status.code() == Some(0), "{status}");
    let log = server.log_text();
    // Without the deadline the worker waits on for somebody who takes its report, and says so then.
    ensure!(log.contains("the time to end is over"), "{log}");
    ensure!(!log.contains("leaves with reports"), "{log}");
    Ok(())
}

const MARK: &str = "recognisable";

/// A model whose first look gives much text, and that then wants to pay.
const TELLTALE: &str = r#"
[[step]]
when = "damaged"
[[step.tool_calls]]
name = "look"
arguments = { what = "recognisable", bytes = 14000 }

[[step]]
when = "damaged"
[[step.tool_calls]]
name = "pay"
arguments = { what = "rent" }

[[step]]
when = "damaged"
content = "end"

[[step]]
[[step.tool_calls]]
name = "pay"
arguments = { what = "rent" }

[[step]]
content = "end"
"#;

/// Overwrites the pages of the database that the long result fills with its text.
fn damage(file: &Path) -> Result<usize> {
    const PAGE: usize = 4096;
    let mut bytes = std::fs::read(file)?;
    let page_bytes = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    ensure!(page_bytes >= PAGE, "pages have {page_bytes} bytes");
    let mut count = 0;
    for page in bytes.chunks_mut(page_bytes).skip(1) {
        let text = String::from_utf8_lossy(page);
        if text.matches(MARK).count() > 100 && !text.contains("session_created") {
            page.fill(0xff);
            count += 1;
        }
    }
    std::fs::write(file, bytes)?;
    Ok(count)
}

#[tokio::test]
async fn a_corrupt_page_quarantines_its_session_and_others_run() -> Result<()> {
    let mut stage = Stage::counting(TELLTALE).await?;
    let agent = agent_with(&["look", "pay"], "");
    let damaged = stage.api.create("This one is damaged.", &agent).await?;
    let damaged_approval = stage.api.until_approval(&damaged).await?;
    let healthy = stage.api.create("This one is healthy.", &agent).await?;
    let approval = stage.api.until_approval(&healthy).await?;
    stage.server.stop().await?;
    let count = damage(&stage.server.data().join("stepwell.db"))?;
    ensure!(count > 0, "no page was found");
    stage.api = stage.server.start().await?;

    let answer = stage.api.decide(&damaged_approval.approval_id, ApprovalDecision::Approve).await;
    let Err(status) = answer else { bail!("a damaged session was decided on") };
    ensure!(status.message().contains(&damaged), "{status:?}");
    let session = stage.api.until_status(&damaged, SessionStatus::Quarantined).await?;
    ensure!(!session.explain.is_empty(), "no reason");
    let cli = stage.cli();
    let listed = cli.one(&["ls", "--status", "quarantined"]).await?;
    ensure!(listed["session_id"] == damaged.as_str(), "{listed}");
    cli.run(&["show", &damaged]).await?.expect(0)?;
    let waiting = cli.run(&["events", &damaged]).await?;
    waiting.expect(1)?;
    ensure!(waiting.stderr.contains(&damaged), "{}", waiting.stderr);

    stage.api.decide(&approval.approval_id, ApprovalDecision::Approve).await?;
    stage.api.until_status(&healthy, SessionStatus::Completed).await?;
    let fresh = stage.api.create("This one is new.", &agent).await?;
    stage.api.until_approval(&fresh).await?;
    stage.kill_and_start().await?;
    stage.api.until_status(&damaged, SessionStatus::Quarantined).await?;
    ensure!(stage.ledger()?.starts_of(&damaged, "2.1")?.is_empty());
    Ok(())
}
