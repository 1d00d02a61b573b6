//! Bringing a call to its end: on a reserved place, or one that an earlier owner started.
//!
//! Acknowledgements. A worker keeps a report until it is acknowledged, and repeats it after every
//! reconnect. A result is handed to the engine here and acknowledged when the engine says that it is
//! durable (`ToolGateway::settled`). An engine that does not take it leaves it with the worker, and
//! `tend` sees to it.
//!
//! Invariant: a call whose follower is dropped is not cancelled: it goes on, and is asked about.

use std::sync::Arc;
use std::time::Duration;

use stepwell_core::event::ToolOutcome;
use stepwell_ports::tools::OutputSink;
use stepwell_ports::{ToolReport, ToolRequest};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::calls::{Adopt, Following, Look, Start, key_of};
use super::options::TIMEOUT_MS_MAX;
use super::place::Place;
use super::standing::Awaiting;
use super::worker::Attention;
use super::{Shared, split_label};

/// A call that was told to stop, and until when its report is awaited.
struct Stopping {
    until: Instant,
    why: &'static str,
}

/// Gives up following when dropped.
struct Follower<'a> {
    shared: &'a Shared,
    following: Following,
    /// What the call becomes when nobody follows it: lost calls are given up for good.
    afterwards: Attention,
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        let Following { worker_id, fence, .. } = self.following;
        self.shared.fleet().unfollow(worker_id, fence, self.afterwards, Instant::now());
    }
}

impl Shared {
    /// Sends the call as soon as the worker of the reserved place can take it, and follows it.
    pub(super) async fn run(
        &self,
        place: Box<Place>,
        request: &ToolRequest,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolReport {
        match self.start(place, request, &sink, &cancel).await {
            Ok(following) => self.follow(following, request, &cancel).await,
            Err(report) => report,
        }
    }

    /// An idle connection may be dead without anybody knowing: the call waits for its worker's
    /// reconnect, and that is no attempt.
    async fn start(
        &self,
        mut place: Box<Place>,
        request: &ToolRequest,
        sink: &Arc<dyn OutputSink>,
        cancel: &CancellationToken,
    ) -> Result<Following, ToolReport> {
        let never = |reason: &str| ToolReport::NeverStarted { reason: reason.to_owned() };
        let mut changes = self.changes.subscribe();
        let give_up_at = Instant::now() + self.options.reconnect_grace;
        loop {
            if cancel.is_cancelled() {
                return Err(never("it was cancelled before it was sent to a worker"));
            }
            let now = Instant::now();
            let start = self.fleet().start(place.worker_id(), request, sink, now);
            let until = match start {
                Start::Started(following) => {
                    place.spend();
                    return Ok(following);
                }
                Start::Never(reason) => return Err(ToolReport::NeverStarted { reason }),
                Start::Refused(output) => {
                    let outcome = ToolOutcome::Error;
                    let (full_output, duration_ms) = (None, 0);
                    return Err(ToolReport::Finished { outcome, output, full_output, duration_ms });
                }
                Start::Later(_) if now >= give_up_at => {
                    return Err(never("its worker had no place for it in time"));
                }
                Start::Later(until) => until.min(give_up_at),
            };
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(until) => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    /// Finds out what became of a call that an earlier owner started, and follows it.
    pub(super) async fn probe(
        &self,
        worker: &str,
        request: &ToolRequest,
        sink: Arc<dyn OutputSink>,
        cancel: CancellationToken,
    ) -> ToolReport {
        if self.is_gone(worker) {
            let reason = "it ran inside a server process that is gone".to_owned();
            return ToolReport::Lost { reason };
        }
        let (name, _) = split_label(worker);
        let awaiting = Awaiting::new(self, key_of(request));
        let mut changes = self.changes.subscribe();
        let mut give_up_at = Instant::now() + self.options.reconnect_grace;
        let mut is_cancelled = false;
        loop {
            let now = Instant::now();
            let adopt = self.fleet().adopt(split_label(worker), request, &sink, now);
            let until = match adopt {
                Adopt::Adopted(following) => {
                    drop(awaiting);
                    return self.follow(following, request, &cancel).await;
                }
                Adopt::Lost(reason) => return ToolReport::Lost { reason },
                Adopt::Later(until) => until.map_or(give_up_at, |it| it.min(give_up_at)),
            };
            if now >= until {
                let reason = format!("worker {name} did not come back in time");
                return ToolReport::Lost { reason };
            }
            awaiting.until(worker, until);
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(until) => {}
                () = cancel.cancelled(), if !is_cancelled => {
                    // The worker may still come and be told to stop.
                    is_cancelled = true;
                    give_up_at = give_up_at.min(now + self.options.cancel_grace);
                }
            }
        }
    }

    async fn follow(
        &self,
        following: Following,
        request: &ToolRequest,
        cancel: &CancellationToken,
    ) -> ToolReport {
        let limit = Duration::from_millis(request.tool.timeout_ms.min(TIMEOUT_MS_MAX));
        let overdue_at = Instant::now() + limit + self.options.timeout_grace;
        let Following { worker_id, fence, .. } = following;
        let afterwards = Attention::Unattended;
        let mut follower = Follower { shared: self, following, afterwards };
        let mut stopping: Option<Stopping> = None;
        let reason = loop {
            let now = Instant::now();
            let look = self.fleet().look(worker_id, fence, now);
            let lease_ends_at = match look {
                Look::Ended(report) => return report,
                Look::Lost(reason) => break reason,
                Look::Wait(until) => until,
            };
            let patience_ends_at = stopping.as_ref().map_or(overdue_at, |it| it.until);
            if now >= patience_ends_at {
                if let Some(Stopping { why, .. }) = stopping {
                    break format!("it {why}, was told to stop and did not");
                }
                stopping = Some(self.stop(worker_id, fence, "was over its time limit"));
                continue;
            }
            tokio::select! {
                () = follower.following.notify.notified() => {}
                () = sleep_until(lease_ends_at.min(patience_ends_at)) => {}
                () = cancel.cancelled(), if stopping.is_none() => {
                    stopping = Some(self.stop(worker_id, fence, "was cancelled"));
                }
            }
        };
        follower.afterwards = Attention::Abandoned;
        ToolReport::Lost { reason }
    }

    fn stop(&self, worker_id: u64, fence: u64, why: &'static str) -> Stopping {
        self.fleet().cancel(worker_id, fence);
        Stopping { until: Instant::now() + self.options.cancel_grace, why }
    }
}
