//! Built-in tools that really run, in this process, in a folder of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use stepwell_core::event::ToolOutcome;
use stepwell_ports::{ToolReport, ToolRequest};
use stepwell_worker::{OutputSink, Tool, ToolContext, ToolDescription, ToolResult, Toolbox};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The longest time limit of a call; keeps sums of times far from overflow.
const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The built-in tools and the folder of one run.
pub(super) struct Workshop {
    toolbox: Arc<Toolbox>,
    folder: PathBuf,
}

impl Workshop {
    /// Makes a new folder below `workspaces` for the session. One that is there already holds the
    /// files of another run, which would be changed.
    pub(super) fn open(
        toolbox: Arc<Toolbox>,
        workspaces: &Path,
        session_id: &str,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(workspaces)
            .with_context(|| format!("the folder {} cannot be made", workspaces.display()))?;
        let folder = workspaces.join(session_id);
        match std::fs::create_dir(&folder) {
            Ok(()) => Ok(Self { toolbox, folder }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => bail!(
                "{} is there already, from an earlier run: remove it, or choose another folder \
                 with --workspaces",
                folder.display()
            ),
            Err(error) => Err(error)
                .with_context(|| format!("the folder {} cannot be made", folder.display())),
        }
    }

    /// Runs a call to its end; `None` when it is no built-in tool.
    pub(super) async fn run(
        &self,
        request: &ToolRequest,
        cancel: CancellationToken,
    ) -> Option<ToolReport> {
        let tool = self.toolbox.get(&request.tool.name)?.clone();
        let began = Instant::now();
        let limit = Duration::from_millis(request.tool.timeout_ms).min(TIMEOUT_MAX);
        let context = self.context(request, began + limit, cancel);
        let (outcome, output, full_output) = perform(tool, context, &request.arguments).await;
        let duration_ms = began.elapsed().as_millis() as u64;
        Some(ToolReport::Finished { outcome, output, full_output, duration_ms })
    }

    fn context(
        &self,
        request: &ToolRequest,
        deadline: Instant,
        cancel: CancellationToken,
    ) -> ToolContext {
        ToolContext {
            session_id: request.session_id.to_string(),
            call_id: request.call_id.to_string(),
            attempt: request.attempt,
            idempotency_key: request.idempotency_key(),
            workspace: self.folder.clone(),
            cancel,
            deadline,
            output: OutputSink::discard(),
        }
    }
}

type Ended = (ToolOutcome, String, Option<Vec<u8>>);

/// Runs a tool in a task of its own, so that one that breaks down or does not end takes nothing with
/// it. Dropping the future ends the task.
async fn perform(tool: Arc<dyn Tool>, context: ToolContext, arguments: &str) -> Ended {
    let force_at = context.deadline + ToolDescription::DEADLINE_GRACE;
    let mut task = JoinSet::new();
    let arguments = arguments.to_owned();
    task.spawn(async move { tool.call(context, &arguments).await });
    tokio::select! {
        joined = task.join_next() => ended(joined),
        () = sleep_until(force_at) => {
            let problem = "the tool ran out of time and was ended by force";
            (ToolOutcome::Error, problem.to_owned(), None)
        }
    }
}

fn ended(joined: Option<Result<ToolResult, JoinError>>) -> Ended {
    match joined {
        Some(Ok(Ok(output))) => (ToolOutcome::Ok, output.text, output.full),
        Some(Ok(Err(error))) => {
            let output = error.into_output();
            (ToolOutcome::Error, output.text, output.full)
        }
        Some(Err(_)) => {
            let problem = "the tool broke down, which is a mistake in it";
            (ToolOutcome::Error, problem.to_owned(), None)
        }
        None => (ToolOutcome::Error, "the tool ended without a result".to_owned(), None),
    }
}
