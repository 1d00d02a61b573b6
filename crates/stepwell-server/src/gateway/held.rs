//! What a worker has that nobody follows: calls that it brought back, and reports that are not
//! acknowledged yet.
//!
//! Invariant: as of `fleet`: plain data, no await, no clock.

use std::collections::HashMap;
use std::time::Duration;

use stepwell_core::Seq;
use tokio::time::Instant;

use super::hello::CallKey;
use super::options::{HELD_MAX, LOOK_DOUBLINGS_MAX, REOFFER_DOUBLINGS_MAX};
use super::worker::Worker;

/// What is known of something that the worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldState {
    /// It was brought back: it runs, or it ended.
    Brought,
    /// Its report is in the hands of the engine.
    Handed,
    /// Its report came and was not settled; the worker still has it.
    Reported,
    /// The attempt is followed on another worker: whatever this one reports changes nothing.
    Void,
}

/// Something that the worker has and nobody follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) fence: u64,
    pub(super) state: HeldState,
    pub(super) watch: Watch,
}

/// When somebody looks next whether a call without a follower is still wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    pub(super) look_at: Instant,
    looks: u32,
    /// Head of the session's log when it last wanted the call.
    pub(super) head: Option<Seq>,
}

impl Watch {
    /// The first look is due after `grace`: whoever follows the call has that long to come.
    pub(super) fn after(grace: Duration, now: Instant) -> Self {
        Self { look_at: now + grace, looks: 0, head: None }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.look_at
    }

    /// Puts the next look off, longer each time.
    pub(super) fn looked(&mut self, grace: Duration, is_reported: bool, now: Instant) {
        let most = if is_reported { REOFFER_DOUBLINGS_MAX } else { LOOK_DOUBLINGS_MAX };
        self.looks = self.looks.saturating_add(1);
        self.look_at = now + grace.saturating_mul(1 << self.looks.min(most));
    }
}

impl Worker {
    /// Takes in what the worker says that it has. Of what it had before, more is known.
    pub(super) fn bring_back(&mut self, held: HashMap<CallKey, u64>, now: Instant) {
        let known = std::mem::take(&mut self.held);
        let watch = Watch::after(self.orphan_grace, now);
        let held = held.into_iter().map(|(key, fence)| {
            let before = known.get(&key).filter(|it| it.fence == fence);
            let state = before.map_or(HeldState::Brought, |it| it.state);
            (key, Held { fence, state, watch })
        });
        self.held = held.collect();
    }

    /// Remembers that the worker has something that nobody follows.
    pub(super) fn hold(&mut self, key: CallKey, fence: u64, state: HeldState, now: Instant) {
        if self.held.len() < HELD_MAX || self.held.contains_key(&key) {
            let watch = Watch::after(self.orphan_grace, now);
            self.held.insert(key, Held { fence, state, watch });
        }
    }

    /// The engine has the report of this call now. The worker keeps it until it is durable.
    pub(super) fn hand_over(&mut self, fence: u64, now: Instant) {
        if let Some(call) = self.remove_call(fence) {
            self.hold(call.key, fence, HeldState::Handed, now);
        }
    }

    /// Whether the worker brought this back, or has its report.
    pub(super) fn holds(&self, key: CallKey, fence: u64) -> bool {
        self.held.get(&key).is_some_and(|it| it.fence == fence)
    }

    /// Forgets what the worker may forget, and remembers its fence, so that a repeated report is no
    /// lie.
    pub(super) fn let_go(&mut self, key: CallKey, fence: u64) {
        if self.holds(key, fence) {
            self.held.remove(&key);
        }
        self.remember_settled(key, fence);
    }
}
