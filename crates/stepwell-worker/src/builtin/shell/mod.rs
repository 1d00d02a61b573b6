//! `shell`: runs a command in the workspace.
//!
//! Every call is a fresh shell in the workspace folder: no working folder and no variable of an
//! earlier call is kept, so a call means the same live, after a restart and in a replay.
//! There is no sandbox here: a command may do what the worker's user may do.

mod capture;
mod environment;
mod group;
mod marked;
mod run;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use self::capture::{Capture, Captured, KEPT_BYTES_MAX};
use self::environment::command_environment;
use self::group::CommandLine;
use self::run::{Ending, Limits, Run, run};
use super::BuiltinOptions;
use crate::context::ToolContext;
use crate::function::tool_fn;
use crate::text::{grouped, shown_path};
use crate::tool::{Effect, Tool, ToolError, ToolOutput, ToolResult};

const DESCRIPTION: &str = "Runs a command with /bin/sh in the workspace folder. Every call is a new shell: `cd` and variables are not kept. There is no terminal and no input. Processes left in the background are ended when the command returns. Output and errors come together; of long output the beginning and the end are shown.";

/// The one shell that every Unix has.
const SHELL: &str = "/bin/sh";
/// How long a command may run when the model does not say: most builds and test runs.
const TIMEOUT_SECONDS_DEFAULT: u64 = 120;
/// How long a command may run at most.
const TIMEOUT_SECONDS_MAX: u64 = 600;
/// Time between a call's dispatch and its command's start, so that the command's own limit is the
/// one that is reached.
const START_MARGIN: Duration = Duration::from_secs(5);
/// Commands side by side in one worker: they are whole builds, not small calls.
const CONCURRENCY: u32 = 4;
/// Linux takes 128 KiB as one argument of a program.
const COMMAND_BYTES_MAX: usize = 100 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shell {
    /// The command line, for /bin/sh.
    command: String,
    /// After how many seconds the command is ended. Default 120, at most 600.
    timeout_seconds: Option<u64>,
}

pub(super) fn shell(options: BuiltinOptions) -> impl Tool {
    let environment: Arc<[(OsString, OsString)]> = command_environment(options).into();
    tool_fn("shell", DESCRIPTION, Effect::Write, move |context, arguments: Shell| {
        let environment = Arc::clone(&environment);
        async move { call(context, &arguments, &environment).await }
    })
    .timeout(Duration::from_secs(TIMEOUT_SECONDS_MAX) + START_MARGIN)
    .concurrency(CONCURRENCY)
}

async fn call(
    context: ToolContext,
    arguments: &Shell,
    environment: &[(OsString, OsString)],
) -> ToolResult {
    let command = arguments.command.as_str();
    check(command)?;
    let seconds = arguments.timeout_seconds.unwrap_or(TIMEOUT_SECONDS_DEFAULT);
    let limit = Duration::from_secs(seconds.clamp(1, TIMEOUT_SECONDS_MAX));
    let limits = Limits {
        deadline: context.deadline.min(Instant::now() + limit),
        cancel: context.cancel.clone(),
    };
    if limits.cancel.is_cancelled() {
        return Err(ToolError::Cancelled { partial: None });
    }
    check_folder(&context.workspace)?;
    let line = CommandLine { shell: SHELL, command, folder: &context.workspace, environment };
    let run = run(&line, &limits, Capture::new(context.output)).await.map_err(|error| {
        // The folder may have gone since it was looked at; the error of the start does not tell.
        check_folder(&context.workspace).err().unwrap_or_else(|| {
            ToolError::Failed(format!("the command could not be started: {error}"))
        })
    })?;
    let (ending, after) = (run.ending, run.took);
    let output = report(run);
    match ending {
        Ending::Ended | Ending::Unguarded => Ok(output),
        Ending::TimedOut => Err(ToolError::TimedOut { after, partial: Some(output) }),
        Ending::Cancelled => Err(ToolError::Cancelled { partial: Some(output) }),
    }
}

fn check(command: &str) -> Result<(), ToolError> {
    let problem = if command.trim().is_empty() {
        "`command` is empty".to_owned()
    } else if command.contains('\0') {
        "`command` holds a NUL character, which no command line can; remove it".to_owned()
    } else if command.len() > COMMAND_BYTES_MAX {
        format!(
            "`command` has {} bytes, more than the {COMMAND_BYTES_MAX} a command line may have; write a script with write_file and run that",
            command.len()
        )
    } else {
        return Ok(());
    };
    Err(ToolError::Failed(problem))
}

fn check_folder(folder: &Path) -> Result<(), ToolError> {
    if folder.is_dir() {
        return Ok(());
    }
    Err(ToolError::Failed(format!(
        "the workspace folder {} is not there; it may have been removed or renamed: restore it, the command was not run anywhere else",
        shown_path(folder)
    )))
}

fn report(run: Run) -> ToolOutput {
    let Run { ending, status, took, output } = run;
    let mut notes = vec![describe_ending(ending, status, took)];
    describe_output(&output, &mut notes);
    let Captured { mut text, full, .. } = output;
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for note in notes {
        text.push('[');
        text.push_str(&note);
        text.push_str("]\n");
    }
    ToolOutput { text, full }
}

fn describe_ending(ending: Ending, status: Option<ExitStatus>, took: Duration) -> String {
    let took = format!("{:.1} s", took.as_secs_f64());
    match ending {
        Ending::TimedOut => format!(
            "timed out after {took}: the command and all it started were ended; for more time set timeout_seconds, at most {TIMEOUT_SECONDS_MAX}"
        ),
        Ending::Cancelled => {
            format!("cancelled after {took}: the command and all it started were ended")
        }
        Ending::Ended => format!("{} after {took}", describe_status(status)),
        Ending::Unguarded => format!(
            "{} after {took}; a process that watches over the command was killed, so the command was ended",
            describe_status(status)
        ),
    }
}

fn describe_status(status: Option<ExitStatus>) -> String {
    let Some(status) = status else {
        return "could not be ended, it is stuck in the system,".to_owned();
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(number)) => {
            let name = Signal::try_from(number).map_or("unknown", Signal::as_str);
            format!("ended by signal {number} ({name})")
        }
        (None, None) => "ended".to_owned(),
    }
}

fn describe_output(output: &Captured, notes: &mut Vec<String>) {
    let total = grouped(output.total);
    if output.lost > 0 {
        let kept = grouped(KEPT_BYTES_MAX as u64);
        notes.push(format!(
            "{total} bytes of output; the first and last of it are shown, and {kept} bytes are kept with the call"
        ));
    } else if output.is_shortened {
        notes.push(format!(
            "{total} bytes of output; the first and last of it are shown, and all of it is kept with the call"
        ));
    }
    if output.replaced > 0 {
        notes.push(format!("{} bytes are not UTF-8 and shown as \u{FFFD}", output.replaced));
    }
}
