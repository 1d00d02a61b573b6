//! File work off the async threads, stoppable at points where nothing is half done.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::ToolContext;
use crate::tool::{ToolError, ToolOutput, ToolResult};
use crate::workspace::{PathError, Workspace};

/// Tells blocking work when to stop.
#[derive(Debug)]
pub(super) struct Stop {
    cancel: CancellationToken,
    started: Instant,
    deadline: Instant,
}

impl Stop {
    /// Fails if the call was cancelled, abandoned, or is out of time.
    pub(super) fn check(&self) -> Result<(), Stopped> {
        if self.cancel.is_cancelled() {
            return Err(ToolError::Cancelled { partial: None }.into());
        }
        let now = Instant::now();
        if now >= self.deadline {
            let after = now.saturating_duration_since(self.started);
            return Err(ToolError::TimedOut { after, partial: None }.into());
        }
        Ok(())
    }
}

/// What ends blocking work early. A type of its own so that `?` takes every kind of error there.
#[derive(Debug)]
pub(super) struct Stopped(ToolError);

impl From<ToolError> for Stopped {
    fn from(error: ToolError) -> Self {
        Self(error)
    }
}

impl From<PathError> for Stopped {
    fn from(error: PathError) -> Self {
        Self(error.into())
    }
}

/// Runs `work` on a blocking thread. If the call's future is dropped, the work is told to stop; it
/// is not interrupted in the middle of replacing a file.
pub(super) async fn on_workspace<Output: Into<ToolOutput>>(
    context: ToolContext,
    work: impl FnOnce(&Workspace, &Stop) -> Result<Output, Stopped> + Send + 'static,
) -> ToolResult {
    let cancel = context.cancel.child_token();
    let _stop_when_dropped = cancel.clone().drop_guard();
    let stop = Stop { cancel, started: Instant::now(), deadline: context.deadline };
    let running = tokio::task::spawn_blocking(move || {
        stop.check()?;
        let workspace = Workspace::open(&context.workspace)?;
        work(&workspace, &stop).map(Into::into)
    });
    match running.await {
        Ok(outcome) => outcome.map_err(|Stopped(error)| error),
        Err(error) => Err(ToolError::Failed(format!("the tool itself is broken: {error}"))),
    }
}
