//! A process of the test: in a group of its own, its words in a file, killed when it is dropped.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::wait::until;

/// Lines of a log that are printed.
const LINES_SHOWN: usize = 80;

/// See the module.
pub struct Process {
    name: String,
    child: Child,
    pid: i32,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it writes is appended to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        let pid = child.id().context("it ended at once")?.try_into()?;
        Ok(Self { name: name.to_owned(), child, pid, log: log.to_owned() })
    }

    /// Number of the process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// All that it wrote, and those before it with the same log.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal. One that is gone already gets none.
    pub fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.pid), signal);
    }

    /// As `kill -9`: it gets no chance to do anything. Returns when it is gone.
    ///
    /// # Errors
    /// When it does not go.
    pub async fn kill(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL);
        let status = self.wait(Duration::from_secs(10)).await?;
        if status.signal() != Some(Signal::SIGKILL as i32) {
            bail!("{} ended with {status} before it was killed:\n{}", self.name, self.log_text());
        }
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not come within `limit`.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let ended = timeout(limit, self.child.wait()).await;
        let ended = ended.with_context(|| format!("{} did not end within {limit:?}", self.name))?;
        Ok(ended?)
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// Those of the system.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group: what it started and did not put elsewhere must not outlive the test.
        let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default();
        if !shown.is_empty() {
            println!("--- {} ({}), the last lines:\n{}", self.name, self.pid, shown.join("\n"));
        }
    }
}

/// Waits until a process handles a signal itself: before that it just dies of it.
///
/// # Errors
/// When it does not come to that, or there is no such process.
pub async fn until_caught(pid: i32, signal: Signal) -> Result<()> {
    until("that it handles the signal", async || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.context("no signals")?.trim(), 16)?;
        Ok((caught & (1 << (signal as u64 - 1)) != 0).then_some(()))
    })
    .await
}

/// Whether a process of that number exists and is no zombie.
pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state stands after the name, which is in brackets and may hold anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
