//! Takes over sessions that nobody owns, wakes those whose timer is due, and comes back to those that
//! their owners left with work to do.
//!
//! It never looks at the store without a reason: a sign of life is due, the earliest timer is due, or
//! there is room for something that waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stepwell_core::{SessionId, Status, TimestampMs};
use stepwell_ports::store::PAGE_ROWS_MAX;
use stepwell_ports::{NodeInfo, SessionFilter, StoreError};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::stall::{Absent, Stalled};

/// Sessions that are taken over in one write.
const BATCH: usize = 256;

/// How long to wait before a store that failed is asked again.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// How long after an owner left in doubt somebody looks at the session again: an append whose outcome
/// was unknown has become durable by then, or never will.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long a full batch of due sessions gets before the next one is looked for: until then the store
/// shows the same ones.
const BATCH_TIME: Duration = Duration::from_millis(20);

/// What the rest of the engine tells the scheduler.
#[derive(Default)]
pub(crate) struct Planner {
    plans: Mutex<Plans>,
    changed: Notify,
}

#[derive(Default)]
struct Plans {
    /// The earliest time at which a session needs an owner.
    next: Option<TimestampMs>,
    /// Sessions with work to do that wait for a place in memory.
    waiting: VecDeque<SessionId>,
    /// Sessions with work to do that nobody could do.
    stalled: Stalled,
    /// Sessions that somebody has to look at, and when.
    later: BTreeSet<(Instant, SessionId)>,
    /// Due sessions are left in the store, because there was no room or they were too many at once.
    has_backlog: bool,
    /// An owner left since the backlog was looked at.
    has_moved: bool,
    /// A write that takes sessions over has failed: they may be this node's and in nobody's hands.
    may_have_lost: bool,
}

impl Planner {
    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session needs an owner at that time at the latest.
    pub(crate) fn wake_by(&self, at: TimestampMs) {
        if self.plans().wake_by(at) {
            self.changed.notify_one();
        }
    }

    /// A session has work to do and no place in memory.
    pub(crate) fn wait_for_room(&self, session_id: SessionId) {
        self.plans().waiting.push_back(session_id);
        self.changed.notify_one();
    }

    /// A session has work to do that nobody can do now.
    pub(crate) fn wait_for_worker(&self, session_id: SessionId, absent: Absent) {
        self.plans().stalled.insert(session_id, absent);
        self.changed.notify_one();
    }

    /// The tool that a session waits for out of memory.
    pub(crate) fn absent_tool(&self, session_id: SessionId) -> Option<String> {
        self.plans().stalled.tool_of(session_id).map(str::to_owned)
    }

    /// Somebody has to look at a session a little later.
    pub(crate) fn look_later(&self, session_id: SessionId) {
        self.plans().later.insert((Instant::now() + LOOK_AGAIN, session_id));
        self.changed.notify_one();
    }

    /// Whether others wait for a place already.
    pub(crate) fn is_queue(&self) -> bool {
        !self.plans().waiting.is_empty()
    }

    fn may_have_lost(&self) -> bool {
        self.plans().may_have_lost
    }

    /// An owner left, and perhaps a place in memory is free.
    pub(crate) fn owner_left(&self) {
        let mut plans = self.plans();
        plans.has_moved = true;
        if plans.has_backlog || !plans.waiting.is_empty() {
            drop(plans);
            self.changed.notify_one();
        }
    }
}

impl Plans {
    fn wake_by(&mut self, at: TimestampMs) -> bool {
        let is_earlier = self.next.is_none_or(|it| at < it);
        if is_earlier {
            self.next = Some(at);
        }
        is_earlier
    }

    /// Sessions that are to be looked at now.
    fn take_later(&mut self, now: Instant) -> Vec<SessionId> {
        let end = now + Duration::from_nanos(1);
        let rest = self.later.split_off(&(end, SessionId::from_random([0; 16])));
        let due = std::mem::replace(&mut self.later, rest);
        due.into_iter().map(|(_, session_id)| session_id).collect()
    }
}

/// Runs until `shutdown`.
pub(crate) async fn run(engine: &Engine, shutdown: &CancellationToken) {
    let inner = &engine.inner;
    let beat_every = (inner.options.node_lease / 3).max(Duration::from_millis(1));
    let mut beat_at = Instant::now();
    let mut look_at = Some(beat_at);
    let mut neighbours = Neighbours::default();
    while !shutdown.is_cancelled() {
        let now = Instant::now();
        let seen = inner.ports.tools.changes();
        let turn = async {
            let is_beat = now >= beat_at;
            if is_beat {
                beat(engine).await;
            }
            recall(engine);
            revisit(engine, now);
            if is_beat || look_at.is_some_and(|it| now >= it) || is_due(engine) {
                look(engine, &mut neighbours).await
            } else {
                look_at
            }
        };
        look_at = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            look_at = turn => look_at,
        };
        if now >= beat_at {
            beat_at = now + beat_every;
        }
        let (due_at, later, has_stalled) = {
            let plans = inner.planner.plans();
            let due_at = [plans.next, plans.stalled.next_due()].into_iter().flatten().min();
            (due_at, plans.later.first().map(|(at, _)| *at), !plans.stalled.is_empty())
        };
        let wake_at = [Some(beat_at), look_at, later].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = inner.planner.changed.notified() => {}
            () = inner.ports.tools.changed_since(seen), if has_stalled => {}
            () = wait_until(engine, due_at) => {}
            () = tokio::time::sleep_until(wake_at.unwrap_or(beat_at)) => {}
        }
    }
}

async fn wait_until(engine: &Engine, at: Option<TimestampMs>) {
    match at {
        Some(at) => engine.inner.ports.clock.wait_until(at).await,
        None => std::future::pending().await,
    }
}

/// Writes a sign of life.
async fn beat(engine: &Engine) {
    let inner = &engine.inner;
    let now = inner.ports.clock.now();
    if let Err(error) = inner.ports.store.beat(&inner.options.node, now).await {
        tracing::warn!(%error, "no sign of life could be written");
    }
}

/// Whether the store has something that can be taken into memory now.
fn is_due(engine: &Engine) -> bool {
    let now = engine.inner.ports.clock.now();
    let plans = engine.inner.planner.plans();
    plans.next.is_some_and(|it| it <= now) || (plans.has_backlog && plans.has_moved)
}

/// Lets sessions that waited for a worker wait for a place, once there is one.
fn recall(engine: &Engine) {
    let Engine { inner } = engine;
    let now = inner.ports.clock.now();
    let mut plans = inner.planner.plans();
    let Plans { stalled, waiting, .. } = &mut *plans;
    waiting.extend(stalled.take(now, |tool| inner.ports.tools.offers(tool)));
}

/// Gives places to sessions that wait for one, and owners to those that were left in doubt.
fn revisit(engine: &Engine, now: Instant) {
    let planner = &engine.inner.planner;
    let later = planner.plans().take_later(now);
    for session_id in later {
        if !engine.revisit(session_id, None) {
            // Its owner may believe in a state that is not the last one. Once it has left …
            planner.look_later(session_id);
        }
    }
    while let Some(place) = engine.place() {
        let Some(session_id) = planner.plans().waiting.pop_front() else { return };
        // One that is in memory asks for a place itself when it has work.
        engine.revisit(session_id, Some(place));
    }
}

/// Looks what is due and says when to look again, if that is not for a timer.
async fn look(engine: &Engine, neighbours: &mut Neighbours) -> Option<Instant> {
    match pass(engine, neighbours).await {
        Ok(Pass::Done | Pass::NoRoom) => None,
        Ok(Pass::Full { is_new: true }) => Some(Instant::now() + BATCH_TIME),
        // All of them are in memory already, and do not get on.
        Ok(Pass::Full { is_new: false }) => Some(Instant::now() + STORE_RETRY),
        Err(error) => {
            tracing::warn!(%error, "the store cannot say which sessions are due");
            Some(Instant::now() + STORE_RETRY)
        }
    }
}

enum Pass {
    /// Everything that is due is in memory.
    Done,
    /// There may be more than was looked for at once.
    Full {
        /// Some of what was found came into memory.
        is_new: bool,
    },
    /// As many sessions are in memory as may be.
    NoRoom,
}

/// Brings what is due now into memory, as far as there is room.
async fn pass(engine: &Engine, neighbours: &mut Neighbours) -> Result<Pass, StoreError> {
    let inner = &engine.inner;
    let (store, node) = (&inner.ports.store, &inner.options.node);
    let now = inner.ports.clock.now();
    {
        // Forgotten before the store is asked, so that a timer that is set meanwhile is not lost.
        let mut plans = inner.planner.plans();
        plans.next = None;
        plans.has_moved = false;
        plans.has_backlog = false;
    }
    if inner.planner.may_have_lost() {
        search(engine).await?;
    }
    let live = neighbours.alive(engine, now).await?;
    loop {
        let room = inner.active.available_permits().min(BATCH);
        if room == 0 {
            inner.planner.plans().has_backlog = true;
            return Ok(Pass::NoRoom);
        }
        // What is taken over is not found again, so a full batch of it needs no wait.
        inner.planner.plans().may_have_lost = true;
        let claims = store.claim_due(node, &live, now, room).await?;
        inner.planner.plans().may_have_lost = false;
        let is_full = claims.len() >= room;
        for claim in claims {
            engine.activate(claim);
        }
        if !is_full {
            break;
        }
    }
    let room = inner.active.available_permits().min(BATCH);
    let claims = if room > 0 { store.due(node, now, room).await? } else { Vec::new() };
    let is_full = claims.len() >= room;
    let new = claims.into_iter().filter(|claim| engine.activate(*claim)).count();
    if is_full {
        inner.planner.plans().has_backlog = true;
        return Ok(if room > 0 { Pass::Full { is_new: new > 0 } } else { Pass::NoRoom });
    }
    if let Some(at) = store.next_wake(now).await? {
        inner.planner.plans().wake_by(at);
    }
    Ok(Pass::Done)
}

/// Looks for sessions with work to do that nobody works on, though they may be this node's.
async fn search(engine: &Engine) -> Result<(), StoreError> {
    let inner = &engine.inner;
    let busy = SessionFilter {
        statuses: vec![Status::Thinking, Status::ExecutingTools],
        ..SessionFilter::default()
    };
    let mut page: Option<String> = None;
    loop {
        let found = inner.ports.store.sessions(&busy, page.as_deref(), PAGE_ROWS_MAX).await?;
        for row in found.rows {
            if !engine.live(row.session_id).in_memory {
                inner.planner.wait_for_room(row.session_id);
            }
        }
        page = found.next_page;
        if page.is_none() {
            inner.planner.plans().may_have_lost = false;
            return Ok(());
        }
    }
}

/// What this node knows of the others.
#[derive(Default)]
struct Neighbours {
    /// The last sign of life of each, and since when it is the last.
    seen: BTreeMap<String, (TimestampMs, Instant)>,
}

impl Neighbours {
    /// Nodes that must be left their sessions. One is dead when its last sign of life is older than
    /// the lease by the wall clock, and also when no new one came for that long: a clock that was set
    /// back must not keep a dead node alive. If the judgement is wrong, fences keep the peace.
    async fn alive(
        &mut self,
        engine: &Engine,
        now: TimestampMs,
    ) -> Result<Vec<String>, StoreError> {
        let options = &engine.inner.options;
        let mut alive = vec![options.node.clone()];
        if options.sole_owner {
            return Ok(alive);
        }
        let lease_ms = options.node_lease.as_millis() as u64;
        let moment = Instant::now();
        let mut seen = BTreeMap::new();
        for NodeInfo { node, seen_at } in engine.inner.ports.store.nodes().await? {
            let since = match self.seen.get(&node) {
                Some((last, since)) if *last == seen_at => *since,
                Some(_) | None => moment,
            };
            if now.since_ms(seen_at) < lease_ms && moment - since < options.node_lease {
                alive.push(node.clone());
            }
            seen.insert(node, (seen_at, since));
        }
        self.seen = seen;
        Ok(alive)
    }
}
