//! Commands of the `stepwell` binary, run to their end.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::paths::stepwell;
use crate::server::clean_environment;
use crate::wait::SOON;

/// The command line of one user.
#[derive(Debug, Clone)]
pub struct Cli {
    server: String,
    home: PathBuf,
    environment: Vec<(String, String)>,
}

/// A command that ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Cli {
    /// Commands that talk to `server`.
    pub fn new(server: &str, home: &Path) -> Self {
        Self { server: server.to_owned(), home: home.to_owned(), environment: Vec::new() }
    }

    /// The same with a variable in the environment.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A command that was not started.
    ///
    /// # Errors
    /// When there is no binary.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(stepwell()?);
        clean_environment(&mut command, &self.home);
        command
            .args(arguments)
            .env("STEPWELL_SERVER", &self.server)
            .env("USER", "tester")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        Ok(command)
    }

    /// Runs a command without input.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn run(&self, arguments: &[&str]) -> Result<Ran> {
        let child = self.command(arguments)?.spawn()?;
        let output = timeout(SOON, child.wait_with_output()).await;
        let output = output.with_context(|| format!("{arguments:?} did not end"))??;
        Ok(Ran::of(arguments, output))
    }

    /// Runs a command with `input` on its stdin.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn run_with(&self, arguments: &[&str], input: &[u8]) -> Result<Ran> {
        let mut child = self.command(arguments)?.stdin(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        let ending = async {
            // One that does not read its input is no failure of the test.
            let write = async {
                let _ = stdin.write_all(input).await;
                drop(stdin);
            };
            tokio::join!(write, child.wait_with_output()).1
        };
        let output = timeout(SOON, ending).await;
        let output = output.with_context(|| format!("{arguments:?} did not end"))??;
        Ok(Ran::of(arguments, output))
    }

    /// Runs a command that must end with 0, with `--json`; gives the lines.
    ///
    /// # Errors
    /// When it ends otherwise, or a line is no JSON.
    pub async fn json(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let arguments = [arguments, &["--json"]].concat();
        let ran = self.run(&arguments).await?;
        ran.expect(0)?;
        ran.lines()
    }

    /// As [`Cli::json`], for a command that prints one object.
    ///
    /// # Errors
    /// As [`Cli::json`].
    pub async fn one(&self, arguments: &[&str]) -> Result<Value> {
        let mut lines = self.json(arguments).await?;
        ensure!(lines.len() == 1, "{arguments:?} gave {} lines: {lines:?}", lines.len());
        lines.pop().context("no line")
    }
}

impl Ran {
    fn of(arguments: &[&str], output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let Output { status, stdout, stderr } = output;
        let ran = Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) };
        let shown = |text: &str| text.chars().take(2_000).collect::<String>();
        let words: Vec<String> =
            arguments.iter().map(|it| it.chars().take(100).collect()).collect();
        println!("$ stepwell {}\n{}{}", words.join(" "), shown(&ran.stdout), shown(&ran.stderr));
        println!("({status})");
        ran
    }

    /// Checks the exit code.
    ///
    /// # Errors
    /// When it is another.
    pub fn expect(&self, code: i32) -> Result<()> {
        if self.code != Some(code) {
            bail!(
                "the exit code is {:?} and not {code}:\n{}{}",
                self.code,
                self.stdout,
                self.stderr
            );
        }
        Ok(())
    }

    /// The lines of stdout as JSON.
    ///
    /// # Errors
    /// When one is none.
    pub fn lines(&self) -> Result<Vec<Value>> {
        let line =
            |line| serde_json::from_str(line).with_context(|| format!("this is no JSON: {line:?}"));
        self.stdout.lines().map(line).collect()
    }
}
