//! The host's own state: calls and their places, whatever becomes of connections.
//!
//! Invariant: all calls are tasks of `jobs`; nothing runs that is not in there.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stepwell_proto::v1::call_report::Outcome;
use stepwell_proto::v1::{AttachRequest, Call, CallReport, Probe};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::job::{Job, News, perform};
use super::ledger::{Key, Known, Ledger};
use super::options::{CANCEL_GRACE, GOODBYE, HostOptions, NEWS_WAITING, TIMEOUT_MS_MAX};
use super::wire;
use crate::toolbox::Toolbox;

/// Far enough to mean "not now".
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// What the host does when a message came or a call ended.
#[derive(Debug)]
pub(super) enum Reply {
    Nothing,
    /// Send this answer.
    Answer(CallReport),
    /// Send the report of this call, which has ended.
    Report(Key),
}

/// Leaving: first the calls may end, then they are told to, then the host goes.
struct Leaving {
    cancel_at: Instant,
    give_up_at: Instant,
    has_cancelled: bool,
}

/// The calls of this process.
pub(super) struct Desk {
    pub(super) options: HostOptions,
    pub(super) instance: String,
    pub(super) toolbox: Toolbox,
    pub(super) ledger: Ledger,
    jobs: JoinSet<()>,
    permits: HashMap<String, Arc<Semaphore>>,
    news: mpsc::Sender<News>,
    news_of_jobs: mpsc::Receiver<News>,
    leaving: Option<Leaving>,
}

/// Something happened in this process.
pub(super) enum Local {
    News(News),
    PlaceFree,
}

impl Desk {
    pub(super) fn new(options: HostOptions, instance: String, toolbox: Toolbox) -> Self {
        let (news, news_of_jobs) = mpsc::channel(NEWS_WAITING);
        let permits = toolbox.descriptions().map(|tool| {
            let places = (tool.concurrency as usize).clamp(1, Semaphore::MAX_PERMITS);
            (tool.name.clone(), Arc::new(Semaphore::new(places)))
        });
        Self {
            permits: permits.collect(),
            options,
            instance,
            toolbox,
            ledger: Ledger::default(),
            jobs: JoinSet::new(),
            news,
            news_of_jobs,
            leaving: None,
        }
    }

    pub(super) fn hello(&self) -> AttachRequest {
        wire::hello(&self.options, &self.instance, &self.toolbox, self.ledger.held())
    }

    /// Calls that hold a place. A place is free when its job is gone and its report was taken in,
    /// whichever comes last.
    pub(super) fn running(&self) -> u32 {
        self.ledger.running().max(self.jobs.len() as u32)
    }

    /// Places that can be granted when `granted` are granted already.
    pub(super) fn grantable(&self, granted: u32) -> u32 {
        if self.leaving.is_some() {
            return 0;
        }
        self.options.concurrency.saturating_sub(self.running()).saturating_sub(granted)
    }

    /// Waits for the next thing that happens here. Cancel-safe.
    pub(super) async fn local(&mut self) -> Local {
        tokio::select! {
            Some(news) = self.news_of_jobs.recv() => Local::News(news),
            Some(joined) = self.jobs.join_next() => {
                if let Err(error) = joined {
                    warn!(%error, "a call's task broke down");
                }
                Local::PlaceFree
            }
            // Both are there for ever; without jobs the second one has nothing to say.
            else => std::future::pending().await,
        }
    }

    /// Takes in how a call ended. Output is for the stream alone.
    pub(super) fn take(&mut self, news: News) -> Reply {
        match news {
            News::Output { .. } => Reply::Nothing,
            News::Ended { key, report } => {
                self.ledger.end(key.clone(), report, Instant::now());
                Reply::Report(key)
            }
            News::NeverBegan { key, reason } => match self.ledger.never_began(&key) {
                Some(fence) => {
                    Reply::Answer(wire::answer(key, fence, Outcome::NeverStarted, &reason))
                }
                None => Reply::Nothing,
            },
        }
    }

    /// The server sends a call.
    pub(super) fn call(&mut self, call: Call) -> Reply {
        let key = Key {
            session_id: call.session_id.clone(),
            call_id: call.call_id.clone(),
            attempt: call.attempt,
        };
        let fence = call.fence;
        match self.ledger.meet(&key, fence) {
            Known::New => {}
            // Sent again, by a server that lost sight of it: it is not started a second time.
            Known::Running => return running(key, fence),
            Known::Ended => return Reply::Report(key),
            Known::Forgotten => return unknown(key, fence),
        }
        let refused = match self.begin(call, &key) {
            Ok(()) => return Reply::Nothing,
            Err(reason) => reason,
        };
        debug!(call_id = key.call_id, reason = refused, "a call was refused");
        Reply::Answer(wire::answer(key, fence, Outcome::NeverStarted, &refused))
    }

    fn begin(&mut self, call: Call, key: &Key) -> Result<(), String> {
        if self.leaving.is_some() {
            return Err("this worker is leaving".to_owned());
        }
        if self.running() >= self.options.concurrency {
            return Err("this worker has no free place".to_owned());
        }
        let tool = self.toolbox.get(&call.tool).zip(self.toolbox.description(&call.tool));
        let permits = self.permits.get(&call.tool);
        let (Some((tool, description)), Some(permits)) = (tool, permits) else {
            return Err(format!("this worker has no tool {:?}", call.tool));
        };
        let workspace = workspace(&self.options.workspace_root, &call.workspace)?;
        let limit = match call.timeout_ms {
            0 => description.timeout,
            given => Duration::from_millis(given.min(TIMEOUT_MS_MAX)),
        };
        let job = Job {
            key: key.clone(),
            tool: tool.clone(),
            permits: permits.clone(),
            workspace,
            deadline: Instant::now() + limit,
            cancel: self.ledger.begin(key.clone(), call.fence),
            call,
        };
        self.jobs.spawn(perform(job, self.news.clone()));
        Ok(())
    }

    /// The server asks about a call. It asks only the process that the call was sent to, so a call
    /// that was never seen never began.
    pub(super) fn probe(&mut self, probe: Probe) -> Reply {
        let Probe { session_id, call_id, attempt, fence } = probe;
        let key = Key { session_id, call_id, attempt };
        match self.ledger.answer(&key, fence) {
            Known::Running => running(key, fence),
            Known::Ended => Reply::Report(key),
            Known::New => {
                let reason = "the call did not arrive";
                Reply::Answer(wire::answer(key, fence, Outcome::NeverStarted, reason))
            }
            Known::Forgotten => unknown(key, fence),
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Takes no more calls; the running ones may end.
    pub(super) fn leave(&mut self) {
        if self.leaving.is_none() {
            let cancel_at = Instant::now() + self.options.drain;
            // After the cancel: what a tool may take, then the report's way.
            let give_up_at = cancel_at + CANCEL_GRACE + GOODBYE + GOODBYE;
            self.leaving = Some(Leaving { cancel_at, give_up_at, has_cancelled: false });
        }
    }

    /// When [`Desk::on_alarm`] has something to do.
    pub(super) fn alarm(&self) -> Instant {
        match &self.leaving {
            Some(Leaving { cancel_at, has_cancelled: false, .. }) => *cancel_at,
            Some(Leaving { give_up_at, .. }) => *give_up_at,
            None => Instant::now() + FAR,
        }
    }

    pub(super) fn on_alarm(&mut self) {
        if let Some(leaving) = &mut self.leaving
            && Instant::now() >= leaving.cancel_at
            && !leaving.has_cancelled
        {
            leaving.has_cancelled = true;
            self.ledger.cancel_all();
        }
    }

    /// Whether the host has nothing more to do: it is leaving, and everything ended and was reported,
    /// or took too long.
    pub(super) fn is_done(&self) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| {
            // A place can be free before the news of its call was taken in.
            let has_ended = self.jobs.is_empty() && !self.ledger.holds_any();
            has_ended || Instant::now() >= leaving.give_up_at
        })
    }
}

fn running(key: Key, fence: u64) -> Reply {
    Reply::Answer(wire::answer(key, fence, Outcome::Running, ""))
}

fn unknown(key: Key, fence: u64) -> Reply {
    let reason = "it was started here, and its report is no longer kept";
    Reply::Answer(wire::answer(key, fence, Outcome::Unknown, reason))
}

/// A session's folder: directly below the root, whatever the server says.
fn workspace(root: &Path, name: &str) -> Result<PathBuf, String> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(root.join(only)),
        _ => Err(format!("{name:?} is no name for a workspace folder")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_a_folder_directly_below_the_root() {
        let root = Path::new("root");
        assert_eq!(workspace(root, "01J"), Ok(root.join("01J")));
        for bad in ["", ".", "..", "a/b", "/a", "../a", "a/", "./a"] {
            assert!(workspace(root, bad).is_err(), "{bad:?}");
        }
    }
}
