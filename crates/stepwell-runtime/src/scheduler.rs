//! Takes over sessions that nobody owns and wakes those whose timer is due.

use std::sync::{Mutex, PoisonError};

use stepwell_core::TimestampMs;
use stepwell_ports::{Claim, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;

/// Sessions that are taken over in one write.
const BATCH: usize = 256;

/// How long to wait before a store that failed is asked again.
const STORE_RETRY_MS: u64 = 1_000;

/// What owners tell the scheduler.
#[derive(Default)]
pub(crate) struct Planner {
    next: Mutex<Option<TimestampMs>>,
    changed: Notify,
    left: Notify,
}

impl Planner {
    /// A session needs an owner at that time at the latest.
    pub(crate) fn wake_by(&self, at: TimestampMs) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none_or(|it| at < it) {
            *next = Some(at);
            drop(next);
            self.changed.notify_one();
        }
    }

    /// A place in memory is free.
    pub(crate) fn owner_left(&self) {
        self.left.notify_one();
    }

    fn set(&self, at: Option<TimestampMs>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

/// Runs until `shutdown`.
pub(crate) async fn run(engine: &Engine, shutdown: &CancellationToken) {
    let inner = &engine.inner;
    let clock = &inner.ports.clock;
    let beat_every_ms = (inner.options.node_lease.as_millis() as u64 / 3).max(1);
    let mut beat_at = clock.now();
    while !shutdown.is_cancelled() {
        let now = clock.now();
        if now >= beat_at {
            if let Err(error) = inner.ports.store.beat(&inner.options.node, now).await {
                tracing::warn!(%error, "no sign of life could be written");
            }
            beat_at = now.plus_ms(beat_every_ms);
        }
        let next = match pass(engine, now).await {
            Ok(Pass::Done { next_wake }) => next_wake.map_or(beat_at, |it| it.min(beat_at)),
            Ok(Pass::NoRoom) => {
                tokio::select! {
                    () = inner.planner.left.notified() => {}
                    () = clock.wait_until(beat_at) => {}
                    () = shutdown.cancelled() => return,
                }
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "the store cannot say which sessions are due");
                now.plus_ms(STORE_RETRY_MS)
            }
        };
        inner.planner.set(Some(next));
        tokio::select! {
            () = inner.planner.changed.notified() => {}
            () = clock.wait_until(next) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

enum Pass {
    /// Everything that is due is owned; the next is due then.
    Done { next_wake: Option<TimestampMs> },
    /// As many sessions are in memory as may be.
    NoRoom,
}

/// Brings everything that is due now into memory, as far as there is room.
async fn pass(engine: &Engine, now: TimestampMs) -> Result<Pass, StoreError> {
    let inner = &engine.inner;
    let store = &inner.ports.store;
    let node = &inner.options.node;
    let live = live_nodes(engine, now).await?;
    // Told before the store is asked, so that a timer that is set meanwhile is not overlooked.
    inner.planner.set(None);
    loop {
        let room = room(engine);
        if room == 0 {
            return Ok(Pass::NoRoom);
        }
        let wanted = room.min(BATCH);
        let mut claims: Vec<Claim> = store.claim_due(node, &live, now, wanted).await?;
        let taken_over = claims.len();
        if taken_over < wanted {
            claims.extend(store.due(node, now, wanted - taken_over).await?);
        }
        let found = claims.len();
        for claim in claims {
            engine.activate(claim);
        }
        if found < wanted || taken_over == 0 {
            return Ok(Pass::Done { next_wake: store.next_wake(now).await? });
        }
    }
}

fn room(engine: &Engine) -> usize {
    engine.inner.options.active_sessions_max.saturating_sub(engine.active_sessions())
}

/// Nodes that must be left their sessions.
async fn live_nodes(engine: &Engine, now: TimestampMs) -> Result<Vec<String>, StoreError> {
    let options = &engine.inner.options;
    let mut live = vec![options.node.clone()];
    if !options.sole_owner {
        let lease_ms = options.node_lease.as_millis() as u64;
        let nodes = engine.inner.ports.store.nodes().await?;
        let fresh = nodes.into_iter().filter(|it| now.since_ms(it.seen_at) < lease_ms);
        live.extend(fresh.map(|it| it.node));
    }
    Ok(live)
}
