//! What is known of calls beside the log, for people: whose worker is away and for how long still, and
//! which worker has a call that its session thinks lost.
//!
//! Invariant: as of `fleet`: plain data, no await, no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use stepwell_core::SessionId;
use tokio::time::Instant;

use super::Shared;
use super::fleet::Fleet;
use super::held::HeldState;
use super::hello::CallKey;
use super::worker::{Attention, LiveCall, Worker};

/// Heartbeats that may be missing before a worker is called silent.
const MISSED_BEATS: u32 = 2;

/// A call whose worker has not come back to this server process yet.
#[derive(Debug, Clone)]
pub(super) struct Awaited {
    /// The worker, as the log names it.
    pub(super) worker: String,
    /// Then the call is lost.
    pub(super) until: Instant,
}

/// Says that a call's worker is awaited, until it is dropped.
pub(super) struct Awaiting<'a> {
    shared: &'a Shared,
    key: CallKey,
}

impl<'a> Awaiting<'a> {
    pub(super) fn new(shared: &'a Shared, key: CallKey) -> Self {
        Self { shared, key }
    }

    pub(super) fn until(&self, worker: &str, until: Instant) {
        let awaited = Awaited { worker: worker.to_owned(), until };
        self.shared.fleet().awaited.insert(self.key, awaited);
    }
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        self.shared.fleet().awaited.remove(&self.key);
    }
}

impl Fleet {
    /// The connected worker that has this attempt: it runs there, or its report is kept there.
    pub(super) fn holder(&self, key: CallKey) -> Option<String> {
        let connected = self.workers.values().filter(|it| it.link.is_some());
        let mut holders = connected.filter(|it| it.has(key));
        holders.next().map(Worker::label)
    }

    /// What is to be told of the calls of each session, or of one. Nothing is told of a call that a
    /// connected worker runs and somebody follows. O(calls on workers).
    pub(super) fn news(
        &self,
        of: Option<SessionId>,
        heartbeat: Duration,
        now: Instant,
    ) -> BTreeMap<SessionId, String> {
        let mut news = BTreeMap::<CallKey, String>::new();
        for (key, Awaited { worker, until }) in &self.awaited {
            let ends = in_seconds(*until, now);
            let remark = format!(
                "worker {worker} has not come back to this server, and if it does not, call {} is \
                 lost in {ends}",
                key.call_id
            );
            news.insert(*key, remark);
        }
        for worker in self.workers.values() {
            let away = self.absence(worker, heartbeat, now);
            for call in worker.calls.values() {
                if let Some(remark) = worker.remark(call, away.as_deref()) {
                    news.insert(call.key, remark);
                }
            }
            for (key, held) in &worker.held {
                if worker.link.is_some() && held.state != HeldState::Void {
                    news.entry(*key).or_insert_with(|| worker.is_back_with(*key));
                }
            }
        }
        let mut sessions = BTreeMap::new();
        for (key, remark) in news {
            if of.is_none_or(|it| it == key.session_id) {
                join(sessions.entry(key.session_id).or_default(), &remark);
            }
        }
        sessions
    }

    /// When a worker that is away or silent was seen last, and when its calls count as lost.
    fn absence(&self, worker: &Worker, heartbeat: Duration, now: Instant) -> Option<String> {
        let silent = now.saturating_duration_since(worker.seen.now);
        let (how, ends_at) = match &worker.link {
            Some(_) if silent < heartbeat * MISSED_BEATS => return None,
            Some(_) => ("is silent", worker.seen.now + self.patience.lease),
            None => ("is gone", worker.left_at + self.patience.reconnect_grace),
        };
        let (label, since) = (worker.label(), worker.seen.wall.to_utc());
        let ends = in_seconds(ends_at, now);
        Some(format!("worker {label} {how}, seen last at {since}, and its lease ends in {ends}"))
    }
}

impl Worker {
    fn has(&self, key: CallKey) -> bool {
        let runs = self.calls.values().any(|it| it.key == key && it.attention != Attention::Void);
        runs || self.held.get(&key).is_some_and(|it| it.state != HeldState::Void)
    }

    fn remark(&self, call: &LiveCall, away: Option<&str>) -> Option<String> {
        match (call.attention, away) {
            (Attention::Followed, Some(away)) => {
                Some(format!("{away}: then call {} counts as lost", call.key.call_id))
            }
            (Attention::Unattended | Attention::Abandoned, _) if self.link.is_some() => {
                Some(self.is_back_with(call.key))
            }
            (
                Attention::Followed
                | Attention::Unattended
                | Attention::Abandoned
                | Attention::Void,
                _,
            ) => None,
        }
    }

    fn is_back_with(&self, key: CallKey) -> String {
        format!(
            "worker {} is connected and still has call {}: its result is awaited",
            self.label(),
            key.call_id
        )
    }
}

fn join(remarks: &mut String, remark: &str) {
    if !remarks.is_empty() {
        remarks.push_str("; ");
    }
    remarks.push_str(remark);
}

fn in_seconds(at: Instant, now: Instant) -> String {
    format!("{} s", at.saturating_duration_since(now).as_secs())
}
