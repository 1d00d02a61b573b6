//! What this process knows about calls: which run, how others ended, which it ever started.
//!
//! A report is kept until the server has acknowledged it, which means that it is durable, or that nobody
//! wants it. It is kept for some minutes longer for a server that was set back to an older state of its
//! store and asks again. Everything has a bound. What is thrown away first is the oldest that was
//! acknowledged; a report without an acknowledgement goes only when there is nothing else to throw
//! away, and not in silence. An ended call holds no place, acknowledged or not, so a server that never
//! acknowledges costs memory up to the bound and no work.
//!
//! Invariant: a call that was ever started here is never started again by this process.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use stepwell_proto::v1::HeldCall;
use stepwell_proto::v1::call_report::Outcome;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Reports that are kept, acknowledged or not. With the calls that run, they fit into one hello.
const REPORTS_MAX: usize = 512;
/// Bytes of all kept reports together: thirty that are as large as a shell's output can be. The
/// last report is kept whatever its size.
const REPORT_BYTES_MAX: usize = 128 * 1024 * 1024;
/// How long an acknowledged report is kept: far longer than a server takes to start again.
const ACKNOWLEDGED_KEPT: Duration = Duration::from_secs(10 * 60);
/// Calls whose start is remembered, as hashes. Of older ones the process does not say that they
/// never began. Two calls with one hash: the second is refused, which is the safe side.
const STARTED_KEPT: usize = 100_000;

/// One attempt of one call, in the words of the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) session_id: String,
    pub(super) call_id: String,
    pub(super) attempt: u32,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) outcome: Outcome,
    pub(super) output: String,
    pub(super) full_output: Vec<u8>,
    pub(super) duration_ms: u64,
}

impl Report {
    fn bytes(&self) -> usize {
        self.output.len().saturating_add(self.full_output.len())
    }
}

enum Entry {
    Running { fence: u64, cancel: CancellationToken },
    Ended { fence: u64, report: Arc<Report>, is_acknowledged: bool, ended_at: Instant },
}

/// What is known when a call comes in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It was never started here.
    New,
    Running,
    Ended,
    /// It was started, or may have been; how it ended is not known any more.
    Forgotten,
}

/// All calls of this process.
#[derive(Default)]
pub(super) struct Ledger {
    entries: HashMap<Key, Entry>,
    /// Ended calls, the oldest first.
    ended: VecDeque<Key>,
    ended_bytes: usize,
    running: u32,
    started: HashSet<u64>,
    started_order: VecDeque<u64>,
    has_forgotten_starts: bool,
    hasher: RandomState,
}

impl Ledger {
    /// What is known of a call that the server sends. From now on `fence` is the one that counts.
    pub(super) fn meet(&mut self, key: &Key, fence: u64) -> Known {
        match self.entries.get_mut(key) {
            Some(Entry::Running { fence: held, .. }) => {
                *held = fence;
                Known::Running
            }
            Some(Entry::Ended { fence: held, is_acknowledged, .. }) => {
                *held = fence;
                *is_acknowledged = false;
                Known::Ended
            }
            None if self.started.contains(&self.hasher.hash_one(key)) => Known::Forgotten,
            None => Known::New,
        }
    }

    /// What is known of a call that the server asks about: as [`Ledger::meet`], but new only if
    /// that is sure.
    pub(super) fn answer(&mut self, key: &Key, fence: u64) -> Known {
        match self.meet(key, fence) {
            Known::New if self.has_forgotten_starts => Known::Forgotten,
            known @ (Known::New | Known::Running | Known::Ended | Known::Forgotten) => known,
        }
    }

    /// A call begins. Its token stops it.
    pub(super) fn begin(&mut self, key: Key, fence: u64) -> CancellationToken {
        let hash = self.hasher.hash_one(&key);
        if self.started.insert(hash) {
            self.started_order.push_back(hash);
        }
        while self.started_order.len() > STARTED_KEPT {
            self.has_forgotten_starts = true;
            if let Some(oldest) = self.started_order.pop_front() {
                self.started.remove(&oldest);
            }
        }
        let cancel = CancellationToken::new();
        self.entries.insert(key, Entry::Running { fence, cancel: cancel.clone() });
        self.running = self.running.saturating_add(1);
        cancel
    }

    /// How many calls run, as far as the news of their ends was taken in.
    pub(super) fn running(&self) -> u32 {
        self.running
    }

    /// A call that was let in did not begin after all. Its fence.
    pub(super) fn never_began(&mut self, key: &Key) -> Option<u64> {
        let hash = self.hasher.hash_one(key);
        if self.started.remove(&hash) {
            self.started_order.retain(|it| *it != hash);
        }
        match self.entries.remove(key) {
            Some(Entry::Running { fence, .. }) => {
                self.running = self.running.saturating_sub(1);
                Some(fence)
            }
            Some(Entry::Ended { .. }) | None => None,
        }
    }

    /// A call ended.
    pub(super) fn end(&mut self, key: Key, report: Report, now: Instant) {
        let Some(Entry::Running { fence, .. }) = self.entries.get(&key) else {
            return;
        };
        self.ended_bytes = self.ended_bytes.saturating_add(report.bytes());
        self.running = self.running.saturating_sub(1);
        let (fence, report) = (*fence, Arc::new(report));
        let entry = Entry::Ended { fence, report, is_acknowledged: false, ended_at: now };
        self.entries.insert(key.clone(), entry);
        self.ended.push_back(key);
        self.prune(now);
    }

    /// Fence and report of an ended call.
    pub(super) fn report(&self, key: &Key) -> Option<(u64, Arc<Report>)> {
        match self.entries.get(key)? {
            Entry::Ended { fence, report, .. } => Some((*fence, report.clone())),
            Entry::Running { .. } => None,
        }
    }

    /// The fence of a call that runs.
    pub(super) fn fence(&self, key: &Key) -> Option<u64> {
        match self.entries.get(key)? {
            Entry::Running { fence, .. } => Some(*fence),
            Entry::Ended { .. } => None,
        }
    }

    /// Stops the call that runs under this fence.
    pub(super) fn cancel(&self, session_id: &str, call_id: &str, fence: u64) {
        for (key, entry) in &self.entries {
            if let Entry::Running { fence: held, cancel } = entry
                && *held == fence
                && (key.session_id.as_str(), key.call_id.as_str()) == (session_id, call_id)
            {
                cancel.cancel();
            }
        }
    }

    /// Stops all calls.
    pub(super) fn cancel_all(&self) {
        for entry in self.entries.values() {
            if let Entry::Running { cancel, .. } = entry {
                cancel.cancel();
            }
        }
    }

    /// The server has the report that was sent under this fence.
    pub(super) fn acknowledge(&mut self, session_id: &str, call_id: &str, fence: u64) {
        for (key, entry) in &mut self.entries {
            if let Entry::Ended { fence: held, is_acknowledged, .. } = entry
                && *held == fence
                && (key.session_id.as_str(), key.call_id.as_str()) == (session_id, call_id)
            {
                *is_acknowledged = true;
            }
        }
    }

    /// Calls that run, and reports that the server may not have.
    pub(super) fn held(&self) -> Vec<HeldCall> {
        let held = self.entries.iter().filter_map(|(key, entry)| match entry {
            Entry::Running { fence, .. } | Entry::Ended { fence, is_acknowledged: false, .. } => {
                Some(HeldCall {
                    session_id: key.session_id.clone(),
                    call_id: key.call_id.clone(),
                    attempt: key.attempt,
                    fence: *fence,
                })
            }
            Entry::Ended { is_acknowledged: true, .. } => None,
        });
        held.collect()
    }

    /// Whether there is any call of which the server must hear.
    pub(super) fn holds_any(&self) -> bool {
        self.entries.values().any(|entry| match entry {
            Entry::Running { .. } => true,
            Entry::Ended { is_acknowledged, .. } => !is_acknowledged,
        })
    }

    /// How many reports the server may not have.
    pub(super) fn unacknowledged_count(&self) -> usize {
        self.ended.iter().filter(|key| self.is_unacknowledged(key)).count()
    }

    /// Ended calls whose report the server may not have, in the order of their ends.
    pub(super) fn unacknowledged(&self) -> Vec<Key> {
        self.ended.iter().filter(|key| self.is_unacknowledged(key)).cloned().collect()
    }

    fn is_unacknowledged(&self, key: &Key) -> bool {
        matches!(self.entries.get(key), Some(Entry::Ended { is_acknowledged: false, .. }))
    }

    /// Throws away what is too old, and the oldest of what is too much.
    pub(super) fn prune(&mut self, now: Instant) {
        let is_old = |key: &Key| match self.entries.get(key) {
            Some(Entry::Ended { is_acknowledged, ended_at, .. }) => {
                *is_acknowledged && now.saturating_duration_since(*ended_at) >= ACKNOWLEDGED_KEPT
            }
            Some(Entry::Running { .. }) | None => true,
        };
        let old: Vec<Key> = self.ended.iter().filter(|key| is_old(key)).cloned().collect();
        for key in old {
            self.forget(&key);
        }
        while self.ended.len() > REPORTS_MAX || self.ended_bytes > REPORT_BYTES_MAX {
            let acknowledged = self.ended.iter().find(|key| !self.is_unacknowledged(key));
            // The last one is always kept: it is the one that was just made.
            let Some(key) = acknowledged.or(self.ended.front()).cloned() else {
                return;
            };
            if self.ended.len() <= 1 {
                return;
            }
            if self.is_unacknowledged(&key) {
                warn!(
                    session = key.session_id,
                    call = key.call_id,
                    "a report that no server has acknowledged is thrown away: too many wait"
                );
            }
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.ended.retain(|it| it != key);
        if let Some(Entry::Ended { report, .. }) = self.entries.remove(key) {
            self.ended_bytes = self.ended_bytes.saturating_sub(report.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key { session_id: "s".to_owned(), call_id: format!("{number}.1"), attempt: 1 }
    }

    fn report(bytes: usize) -> Report {
        let output = "x".repeat(bytes);
        Report { outcome: Outcome::Ok, output, full_output: Vec::new(), duration_ms: 1 }
    }

    #[test]
    fn a_call_is_met_as_what_it_is() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.meet(&key(1), 10), Known::New);
        ledger.begin(key(1), 10);
        assert_eq!(ledger.meet(&key(1), 11), Known::Running);
        assert_eq!(ledger.fence(&key(1)), Some(11));
        ledger.end(key(1), report(1), Instant::now());
        ledger.acknowledge("s", "1.1", 11);
        assert_eq!(ledger.held(), []);
        assert_eq!(ledger.answer(&key(1), 12), Known::Ended);
        assert_eq!(ledger.held().len(), 1, "under its new fence it is not acknowledged");
        assert_eq!(ledger.answer(&key(2), 13), Known::New);
    }

    #[test]
    fn a_call_that_did_not_begin_may_begin_later() {
        let mut ledger = Ledger::default();
        ledger.begin(key(1), 10);
        assert_eq!(ledger.never_began(&key(1)), Some(10));
        assert_eq!(ledger.meet(&key(1), 11), Known::New);
    }

    #[test]
    fn what_was_thrown_away_is_still_known_to_have_begun() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        for number in 0..=REPORTS_MAX {
            ledger.begin(key(number), 10);
            ledger.end(key(number), report(1), now);
        }
        assert_eq!(ledger.meet(&key(0), 11), Known::Forgotten);
        assert_eq!(ledger.meet(&key(REPORTS_MAX), 11), Known::Ended);
    }

    #[test]
    fn reports_that_nobody_acknowledges_are_bounded_and_hold_no_place() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        for number in 0..2 * REPORTS_MAX {
            ledger.begin(key(number), 10);
            ledger.end(key(number), report(1), now);
        }
        assert_eq!(ledger.unacknowledged_count(), REPORTS_MAX);
        assert_eq!(ledger.held().len(), REPORTS_MAX);
        assert!(ledger.report(&key(REPORTS_MAX - 1)).is_none(), "the oldest went");
        assert!(ledger.report(&key(REPORTS_MAX)).is_some());
        assert_eq!(ledger.running(), 0);
    }

    #[test]
    fn acknowledged_reports_go_first_and_the_last_one_stays() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        for number in 0..3 {
            ledger.begin(key(number), 10 + number as u64);
            ledger.end(key(number), report(REPORT_BYTES_MAX / 3), now);
        }
        ledger.acknowledge("s", "1.1", 11);
        ledger.begin(key(3), 20);
        ledger.end(key(3), report(REPORT_BYTES_MAX / 3), now);
        let kept: Vec<bool> = (0..4).map(|it| ledger.report(&key(it)).is_some()).collect();
        assert_eq!(kept, [true, false, true, true]);
        ledger.begin(key(4), 30);
        ledger.end(key(4), report(REPORT_BYTES_MAX + 1), now);
        assert!(ledger.report(&key(4)).is_some() && ledger.report(&key(3)).is_none());
    }

    #[test]
    fn old_reports_go_once_they_are_acknowledged() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        for number in 0..2 {
            ledger.begin(key(number), 10 + number as u64);
            ledger.end(key(number), report(1), now);
        }
        ledger.acknowledge("s", "1.1", 11);
        ledger.prune(now + ACKNOWLEDGED_KEPT);
        assert!(ledger.report(&key(0)).is_some() && ledger.report(&key(1)).is_none());
        ledger.prune(now + 1_000 * ACKNOWLEDGED_KEPT);
        assert!(ledger.report(&key(0)).is_some(), "no server has it yet");
    }

    #[test]
    fn after_too_many_starts_nothing_is_sure() {
        let mut ledger = Ledger::default();
        for number in 0..=STARTED_KEPT {
            ledger.begin(key(number), 1);
            ledger.entries.clear();
        }
        let never_seen = key(STARTED_KEPT + 1);
        assert_eq!(ledger.answer(&never_seen, 2), Known::Forgotten, "nobody can be sure now");
        assert_eq!(ledger.meet(&never_seen, 2), Known::New, "the server is sure: it sends it");
    }
}
