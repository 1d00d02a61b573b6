//! The file in which the tools of the counting worker write down each of their starts. It is the
//! truth that logs are compared with.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// One start of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The tool.
    pub tool: String,
    /// `session/call`.
    pub key: String,
    /// The attempt.
    pub attempt: u32,
    /// The worker's process.
    pub pid: i32,
    /// The arguments that it was given, JSON text.
    pub arguments: String,
}

/// The file.
#[derive(Debug, Clone)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// The ledger in that file, which need not be there yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a start down.
    ///
    /// # Errors
    /// Those of the file.
    pub fn note(&self, started: &Started) -> Result<()> {
        append(&self.path, started)
    }

    /// Writes down that what was started is over: done, or told to stop.
    ///
    /// # Errors
    /// Those of the file.
    pub fn note_end(&self, started: &Started) -> Result<()> {
        append(&self.ends(), started)
    }

    /// Beside the starts, so that these can be read as one list.
    fn ends(&self) -> PathBuf {
        self.path.with_extension("ends.jsonl")
    }

    /// All starts, in order.
    ///
    /// # Errors
    /// When a line is none.
    pub fn starts(&self) -> Result<Vec<Started>> {
        read(&self.path)
    }

    /// What was started in that process and is not over.
    ///
    /// # Errors
    /// As [`Ledger::starts`].
    pub fn running(&self, pid: i32) -> Result<Vec<Started>> {
        let ends = read(&self.ends())?;
        let mut starts = self.starts()?;
        starts.retain(|it| it.pid == pid && !ends.contains(it));
        Ok(starts)
    }

    /// Starts of one call.
    ///
    /// # Errors
    /// As [`Ledger::starts`].
    pub fn starts_of(&self, session_id: &str, call_id: &str) -> Result<Vec<Started>> {
        let key = format!("{session_id}/{call_id}");
        Ok(self.starts()?.into_iter().filter(|it| it.key == key).collect())
    }
}

/// One write, so that lines of several processes do not mix.
fn append(path: &Path, started: &Started) -> Result<()> {
    use std::io::Write as _;
    let mut line = serde_json::to_string(started)?;
    line.push('\n');
    let mut file = std::fs::File::options().create(true).append(true).open(path)?;
    Ok(file.write_all(line.as_bytes())?)
}

fn read(path: &Path) -> Result<Vec<Started>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    // A line without its end is being written.
    let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    let lines = whole.lines().map(|line| {
        serde_json::from_str(line).with_context(|| format!("this is no line: {line:?}"))
    });
    lines.collect()
}
