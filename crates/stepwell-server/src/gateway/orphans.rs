//! Calls that run, or ended, on a worker, and that nobody follows.
//!
//! A tool that may be repeated is not bound to its worker in the log, so after a crash nobody asks for
//! it by name; and a session can end while the worker of its call is away. What the log says decides:
//! a call that its session still waits for is left alone, for its follower may be on the way. Any
//! other is told to stop.
//!
//! Invariant: as of `fleet`: plain data, no await, no clock.

use std::collections::HashSet;

use stepwell_core::Seq;
use tokio::time::Instant;

use super::fleet::Fleet;
use super::held::{HeldState, Watch};
use super::hello::CallKey;
use super::options::LOOKS_MAX;
use super::worker::{Attention, Worker, WorkerId, cancel, probe};

/// Something on a connected worker that is due for a look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Orphan {
    pub(super) worker_id: WorkerId,
    pub(super) key: CallKey,
    pub(super) fence: u64,
    /// Head of the session's log when it last wanted the call.
    pub(super) head: Option<Seq>,
    /// Its report came once and was not settled.
    pub(super) is_reported: bool,
    /// The attempt is followed on another worker.
    pub(super) is_double: bool,
}

/// What is to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The session waits for it, or nobody knows: look again later. With the log's head, if known.
    Wait(Option<Seq>),
    /// Its report is wanted once more.
    SayAgain,
    /// The session does not wait for it. What it reports is told to the session all the same.
    Stop,
    /// The attempt is followed elsewhere: stop it, and take nothing from it.
    StopDouble,
}

impl Fleet {
    /// What is due now, the longest due first; each is put off until its next look.
    pub(super) fn due_orphans(&mut self, now: Instant) -> Vec<Orphan> {
        let mut due = Vec::new();
        for (worker_id, worker) in self.workers.iter().filter(|(_, it)| it.link.is_some()) {
            worker.due_orphans(*worker_id, now, &mut due);
        }
        if due.is_empty() {
            return Vec::new();
        }
        due.sort_unstable_by_key(|(look_at, _)| *look_at);
        due.truncate(LOOKS_MAX);
        let mut orphans: Vec<Orphan> = due.into_iter().map(|(_, orphan)| orphan).collect();
        let followed = self.followed();
        for orphan in &mut orphans {
            orphan.is_double = followed.contains(&orphan.key);
            self.looked(orphan, now);
        }
        orphans
    }

    /// What is followed on one worker and held by another runs twice: following it here would have
    /// taken it over.
    fn followed(&self) -> HashSet<CallKey> {
        let calls = self.workers.values().flat_map(|worker| worker.calls.values());
        let followed = calls.filter(|call| call.attention == Attention::Followed);
        followed.map(|call| call.key).collect()
    }

    fn looked(&mut self, orphan: &Orphan, now: Instant) {
        let grace = self.patience.orphan_grace;
        let worker = self.workers.get_mut(&orphan.worker_id);
        if let Some(watch) = worker.and_then(|it| it.watch_of(orphan.key, orphan.fence)) {
            watch.looked(grace, orphan.is_reported, now);
        }
    }

    /// Does to it what was found right, if nobody has followed it meanwhile.
    pub(super) fn carry_out(&mut self, orphan: &Orphan, fate: Fate) {
        let Some(worker) = self.workers.get_mut(&orphan.worker_id) else {
            return;
        };
        let Orphan { key, fence, .. } = *orphan;
        let Some(watch) = worker.watch_of(key, fence) else {
            return;
        };
        match fate {
            Fate::Wait(head) => watch.head = head,
            Fate::SayAgain => worker.send(probe(key, fence)),
            Fate::Stop => worker.stop_orphan(key, fence),
            Fate::StopDouble => {
                worker.make_void(key, fence);
                worker.stop_orphan(key, fence);
            }
        }
    }
}

impl Worker {
    fn due_orphans(&self, worker_id: WorkerId, now: Instant, due: &mut Vec<(Instant, Orphan)>) {
        let mut add = |key, fence, watch: Watch, is_reported| {
            if watch.is_due(now) {
                let Watch { look_at, head, .. } = watch;
                let is_double = false;
                let orphan = Orphan { worker_id, key, fence, head, is_reported, is_double };
                due.push((look_at, orphan));
            }
        };
        for (key, held) in &self.held {
            match held.state {
                HeldState::Handed => {}
                HeldState::Brought | HeldState::Void => add(*key, held.fence, held.watch, false),
                HeldState::Reported => add(*key, held.fence, held.watch, true),
            }
        }
        for (fence, call) in &self.calls {
            match call.attention {
                Attention::Followed => {}
                Attention::Unattended | Attention::Abandoned | Attention::Void => {
                    add(call.key, *fence, call.watch, false);
                }
            }
        }
    }

    /// `None` when somebody follows it, or it is over.
    fn watch_of(&mut self, key: CallKey, fence: u64) -> Option<&mut Watch> {
        if self.holds(key, fence) {
            return self.held.get_mut(&key).map(|it| &mut it.watch);
        }
        let call = self.calls.get_mut(&fence)?;
        (call.attention != Attention::Followed).then_some(&mut call.watch)
    }

    /// Tells the worker to stop it and to say how it stands: its place is free once it has ended.
    fn stop_orphan(&mut self, key: CallKey, fence: u64) {
        self.send(cancel(key, fence));
        self.send(probe(key, fence));
    }

    fn make_void(&mut self, key: CallKey, fence: u64) {
        if let Some(call) = self.calls.get_mut(&fence) {
            call.attention = Attention::Void;
        } else if let Some(held) = self.held.get_mut(&key) {
            held.state = HeldState::Void;
        }
    }
}
