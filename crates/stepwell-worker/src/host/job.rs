//! One call, from its place to its report.
//!
//! Invariant: a job always says how its call ended, also when the tool panics, is deaf to the cancel,
//! or outlives its time limit. It ends only when the tool is really gone, because only then its place
//! is free.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stepwell_proto::v1::Call;
use stepwell_proto::v1::call_report::Outcome;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::ledger::{Key, Report};
use super::options::{ABORT_WAIT, CANCEL_GRACE, CHUNK_BYTES_MAX, CHUNKS_WAITING, DEADLINE_NUDGE};
use crate::context::{OutputSink, ToolContext};
use crate::text::prefix;
use crate::tool::{Tool, ToolDescription, ToolError, ToolOutput, ToolResult};

/// A call that has a place.
pub(super) struct Job {
    pub(super) key: Key,
    pub(super) call: Call,
    pub(super) tool: Arc<dyn Tool>,
    /// Places of the tool.
    pub(super) permits: Arc<Semaphore>,
    pub(super) workspace: PathBuf,
    pub(super) cancel: CancellationToken,
    pub(super) deadline: Instant,
}

/// What a job tells its host. One channel, so that output comes before the end that it belongs to.
pub(super) enum News {
    Output { key: Key, text: String },
    Ended { key: Key, report: Report },
    NeverBegan { key: Key, reason: String },
}

/// Runs the job. Its place is free when this returns.
pub(super) async fn perform(job: Job, news: mpsc::Sender<News>) {
    let key = job.key.clone();
    let permit = match permit(&job).await {
        Ok(permit) => permit,
        Err(reason) => {
            tell(&news, News::NeverBegan { key, reason: reason.to_owned() }).await;
            return;
        }
    };
    if let Err(error) = tokio::fs::create_dir_all(&job.workspace).await {
        let folder = job.workspace.display();
        let output = format!("the workspace folder {folder} could not be made: {error}");
        tell(&news, News::Ended { key, report: failed(output, Duration::ZERO) }).await;
        return;
    }
    let mut tool = RunningTool::start(job);
    let report = tool.report(&news).await;
    tell(&news, News::Ended { key, report }).await;
    // A tool in blocking code cannot be taken off its thread.
    while tool.task.join_next().await.is_some() {}
    drop(permit);
}

async fn tell(news: &mpsc::Sender<News>, what: News) {
    // The host is gone only when the whole process goes down.
    drop(news.send(what).await);
}

async fn permit(job: &Job) -> Result<OwnedSemaphorePermit, &'static str> {
    tokio::select! {
        biased;
        () = job.cancel.cancelled() => Err("it was cancelled before it began"),
        permit = job.permits.clone().acquire_owned() => permit.map_err(|_| "the host is leaving"),
        () = sleep_until(job.deadline) => Err("its tool was busy for the whole time limit"),
    }
}

struct RunningTool {
    key: Key,
    task: JoinSet<ToolResult>,
    chunks: mpsc::Receiver<String>,
    /// The server's wish.
    cancel: CancellationToken,
    /// What the tool sees: the server's wish, or ours when its time is over.
    stop: CancellationToken,
    started_at: Instant,
    deadline: Instant,
}

/// How a tool's task ended.
enum Ending {
    Joined(Option<Result<ToolResult, JoinError>>),
    /// It did not end by itself.
    Forced {
        is_gone: bool,
    },
}

impl RunningTool {
    fn start(job: Job) -> Self {
        let Job { key, call, tool, workspace, cancel, deadline, .. } = job;
        let (output, chunks) = OutputSink::channel(CHUNKS_WAITING);
        let stop = cancel.child_token();
        let context = ToolContext {
            session_id: call.session_id,
            call_id: call.call_id,
            attempt: call.attempt,
            idempotency_key: call.idempotency_key,
            workspace,
            cancel: stop.clone(),
            deadline,
            output,
        };
        let mut task = JoinSet::new();
        let arguments = call.arguments;
        task.spawn(async move { tool.call(context, &arguments).await });
        Self { key, task, chunks, cancel, stop, started_at: Instant::now(), deadline }
    }

    async fn report(&mut self, news: &mpsc::Sender<News>) -> Report {
        let ending = self.ending(news).await;
        while let Ok(text) = self.chunks.try_recv() {
            self.pass_on(news, &text);
        }
        let took = self.started_at.elapsed();
        match ending {
            Ending::Joined(Some(Ok(Ok(output)))) => done(Outcome::Ok, output, took),
            Ending::Joined(Some(Ok(Err(error)))) => {
                done(Outcome::Error, self.explain(error, took), took)
            }
            Ending::Joined(Some(Err(error))) => failed(panic_text(error), took),
            Ending::Joined(None) => failed("the tool ended without a result".to_owned(), took),
            Ending::Forced { is_gone } => {
                let why =
                    if self.cancel.is_cancelled() { "was cancelled" } else { "ran out of time" };
                let end = if is_gone {
                    "it was ended by force"
                } else {
                    "it cannot be ended by force and may still be at work"
                };
                failed(format!("the tool {why} and did not stop when told to; {end}"), took)
            }
        }
    }

    /// Waits for the tool's end, passes its output on, and enforces cancel and time limit.
    async fn ending(&mut self, news: &mpsc::Sender<News>) -> Ending {
        let nudge_at = self.deadline + DEADLINE_NUDGE;
        let mut force_at = self.deadline + ToolDescription::DEADLINE_GRACE;
        let mut is_cancelled = false;
        let mut has_output = true;
        loop {
            tokio::select! {
                joined = self.task.join_next() => return Ending::Joined(joined),
                chunk = self.chunks.recv(), if has_output => match chunk {
                    Some(text) => self.pass_on(news, &text),
                    None => has_output = false,
                },
                () = self.cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    force_at = force_at.min(Instant::now() + CANCEL_GRACE);
                }
                () = sleep_until(nudge_at), if !self.stop.is_cancelled() => self.stop.cancel(),
                () = sleep_until(force_at) => break,
            }
        }
        self.task.abort_all();
        match timeout(ABORT_WAIT, self.task.join_next()).await {
            // It came to its end in this very moment.
            Ok(Some(Ok(result))) => Ending::Joined(Some(Ok(result))),
            Ok(Some(Err(error))) if error.is_panic() => Ending::Joined(Some(Err(error))),
            Ok(Some(Err(_)) | None) => Ending::Forced { is_gone: true },
            Err(_) => Ending::Forced { is_gone: false },
        }
    }

    fn pass_on(&self, news: &mpsc::Sender<News>, text: &str) {
        let text = prefix(text, CHUNK_BYTES_MAX).to_owned();
        // Dropped when the stream does not keep up; the result holds the output anyway.
        drop(news.try_send(News::Output { key: self.key.clone(), text }));
    }

    /// A tool that we stopped because its time was over says "cancelled"; the model is told why.
    fn explain(&self, error: ToolError, took: Duration) -> ToolOutput {
        match error {
            ToolError::Cancelled { partial: None } if !self.cancel.is_cancelled() => {
                ToolError::TimedOut { after: took, partial: None }.into_output()
            }
            ToolError::Cancelled { .. } | ToolError::Failed(_) | ToolError::TimedOut { .. } => {
                error.into_output()
            }
        }
    }
}

fn done(outcome: Outcome, output: ToolOutput, took: Duration) -> Report {
    let ToolOutput { text, full } = output;
    Report {
        outcome,
        output: text,
        full_output: full.unwrap_or_default(),
        duration_ms: took.as_millis() as u64,
    }
}

fn failed(output: String, took: Duration) -> Report {
    done(Outcome::Error, output.into(), took)
}

fn panic_text(error: JoinError) -> String {
    let what = match error.try_into_panic() {
        Ok(payload) => message_of(payload.as_ref()).unwrap_or("no message").to_owned(),
        Err(error) => error.to_string(),
    };
    format!("the tool broke down, which is a mistake in it: {what}")
}

fn message_of(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use async_trait::async_trait;

    use super::*;
    use crate::tool::Effect;

    /// What the tool under test does.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Manner {
        Obeys,
        IsDeaf,
        BreaksDown,
        Talks,
    }

    struct Actor(Manner);

    #[async_trait]
    impl Tool for Actor {
        fn describe(&self) -> ToolDescription {
            ToolDescription {
                name: "actor".to_owned(),
                description: String::new(),
                parameters: "{}".to_owned(),
                output_schema: None,
                effect: Effect::Write,
                timeout: Duration::from_secs(1),
                concurrency: 1,
            }
        }

        async fn call(&self, context: ToolContext, _arguments: &str) -> ToolResult {
            match self.0 {
                Manner::Obeys => {
                    context.cancel.cancelled().await;
                    Err(ToolError::Cancelled { partial: None })
                }
                Manner::IsDeaf => std::future::pending().await,
                Manner::BreaksDown => panic!("a bug"),
                Manner::Talks => {
                    for number in 0..10 {
                        context.output.send(format!("{number}"));
                    }
                    Ok("0123456789".into())
                }
            }
        }
    }

    struct Stage {
        job: Job,
        folder: tempfile::TempDir,
    }

    fn stage(manner: Manner, limit: Duration) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let call = Call { attempt: 1, ..Call::default() };
        let key = Key { session_id: "s".to_owned(), call_id: "1.1".to_owned(), attempt: 1 };
        let job = Job {
            key,
            call,
            tool: Arc::new(Actor(manner)),
            permits: Arc::new(Semaphore::new(1)),
            workspace: folder.path().join("s"),
            cancel: CancellationToken::new(),
            deadline: Instant::now() + limit,
        };
        Stage { job, folder }
    }

    /// Plays the job to its end: all its news, and how long it took.
    async fn play(stage: Stage) -> (VecDeque<News>, Duration) {
        let (news, mut receiver) = mpsc::channel(64);
        let began = Instant::now();
        perform(stage.job, news).await;
        let took = began.elapsed();
        drop(stage.folder);
        let mut all = VecDeque::new();
        while let Some(it) = receiver.recv().await {
            all.push_back(it);
        }
        (all, took)
    }

    async fn report(stage: Stage) -> (Report, Duration) {
        let (mut news, took) = play(stage).await;
        match news.pop_back() {
            Some(News::Ended { report, .. }) => (report, took),
            _ => panic!("no report"),
        }
    }

    const LIMIT: Duration = Duration::from_secs(100);

    #[tokio::test(start_paused = true)]
    async fn output_comes_before_the_report_that_it_belongs_to() {
        let (mut news, _) = play(stage(Manner::Talks, LIMIT)).await;
        assert!(matches!(
            news.pop_back(),
            Some(News::Ended { report: Report { outcome: Outcome::Ok, .. }, .. })
        ));
        let text = news.into_iter().map(|it| match it {
            News::Output { text, .. } => text,
            News::Ended { .. } | News::NeverBegan { .. } => panic!("ended twice"),
        });
        assert_eq!(text.collect::<String>(), "0123456789");
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_that_breaks_down_is_an_error_with_its_words() {
        let (report, _) = report(stage(Manner::BreaksDown, LIMIT)).await;
        assert_eq!(report.outcome, Outcome::Error);
        assert!(report.output.contains("a bug"), "{}", report.output);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_over_its_time_is_told_to_stop_and_the_model_is_told_why() {
        let (report, took) = report(stage(Manner::Obeys, LIMIT)).await;
        assert_eq!(took, LIMIT + DEADLINE_NUDGE);
        assert_eq!(report.output, "timed out after 101 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deaf_tool_over_its_time_is_dropped() {
        let (report, took) = report(stage(Manner::IsDeaf, LIMIT)).await;
        assert_eq!(took, LIMIT + ToolDescription::DEADLINE_GRACE);
        assert!(report.output.contains("ran out of time") && report.output.contains("by force"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_tool_that_obeys_ends_at_once() {
        let stage = stage(Manner::Obeys, LIMIT);
        stage.job.cancel.cancel();
        let (mut news, took) = play(stage).await;
        // It had not begun: its place was still waited for.
        assert!(matches!(news.pop_back(), Some(News::NeverBegan { .. })));
        assert_eq!(took, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deaf_tool_that_is_cancelled_is_dropped_within_the_grace() {
        let stage = stage(Manner::IsDeaf, LIMIT);
        let cancel = stage.job.cancel.clone();
        let after = Duration::from_secs(30);
        let cancelling = async {
            tokio::time::sleep(after).await;
            cancel.cancel();
        };
        let ((report, took), ()) = tokio::join!(report(stage), cancelling);
        assert_eq!(took, after + CANCEL_GRACE);
        assert!(report.output.contains("was cancelled"), "{}", report.output);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_tool_is_busy_never_begins() {
        let stage = stage(Manner::Talks, LIMIT);
        let permits = stage.job.permits.clone();
        let _taken = permits.acquire().await.unwrap();
        let (mut news, took) = play(stage).await;
        assert!(
            matches!(news.pop_back(), Some(News::NeverBegan { reason, .. }) if reason.contains("busy"))
        );
        assert_eq!(took, LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_workspace_that_cannot_be_made_is_an_error() {
        let mut stage = stage(Manner::Talks, LIMIT);
        let file = stage.folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        stage.job.workspace = file.join("s");
        let (report, _) = report(stage).await;
        assert!(report.output.contains("could not be made"), "{}", report.output);
    }
}
