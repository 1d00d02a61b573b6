//! All workers, their free places, and who waits for one.
//!
//! Fair: waiters of one tool are served in their order; a place that could serve several tools goes
//! to whoever waits longest. A new request never overtakes, because a place stays free only while
//! nobody waits who could use it.
//!
//! Invariant: plain data under one lock. No await, no clock (`now` comes in), and no callback.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use stepwell_core::{Effect, TimestampMs};
use stepwell_proto::v1::AttachResponse;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::Status;

use super::catalogue::is_stronger;
use super::hello::{CallKey, Registration};
use super::info::WorkerInfo;
use super::options::{OUTBOUND_MAX, WORKERS_MAX};
use super::split_label;
use super::standing::Awaited;
use super::worker::{Link, Moment, Opening, Worker, WorkerId};

/// Times after which a worker counts as gone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) lease: Duration,
    pub(super) reconnect_grace: Duration,
    pub(super) orphan_grace: Duration,
}

/// Fences begin with the wall time of the start, so that they grow over restarts. This many bits
/// are left for the calls of one millisecond.
const FENCE_BITS: u32 = 20;

/// The workers of this server.
pub(super) struct Fleet {
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    /// The process that has a name now.
    pub(super) names: HashMap<String, WorkerId>,
    queues: HashMap<String, VecDeque<Waiter>>,
    /// Calls whose worker has not come back since this server process began.
    pub(super) awaited: BTreeMap<CallKey, Awaited>,
    pub(super) patience: Patience,
    last_id: u64,
    last_fence: u64,
}

struct Waiter {
    ticket: u64,
    granted: oneshot::Sender<WorkerId>,
}

/// The stream's ends of a connection.
pub(super) struct LinkEnds {
    pub(super) worker_id: WorkerId,
    pub(super) link_id: u64,
    pub(super) outbound: mpsc::Receiver<AttachResponse>,
    /// Says with which status the stream must end.
    pub(super) closed: oneshot::Receiver<Status>,
}

/// What became of a wish for a place.
pub(super) enum Reserved {
    Now(WorkerId),
    Later { ticket: u64, granted: oneshot::Receiver<WorkerId> },
}

impl Fleet {
    pub(super) fn new(patience: Patience, started_at: TimestampMs) -> Self {
        Self {
            workers: BTreeMap::new(),
            names: HashMap::new(),
            queues: HashMap::new(),
            awaited: BTreeMap::new(),
            patience,
            last_id: 0,
            last_fence: started_at.0.saturating_mul(1 << FENCE_BITS),
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    pub(super) fn next_fence(&mut self) -> u64 {
        self.last_fence = self.last_fence.saturating_add(1);
        self.last_fence
    }

    /// How the log names the worker.
    pub(super) fn label(&self, worker_id: WorkerId) -> String {
        self.workers.get(&worker_id).map(Worker::label).unwrap_or_default()
    }

    /// The process that the log names so, if it has its name still.
    pub(super) fn by_label(&mut self, label: &str) -> Option<&mut Worker> {
        let (name, instance) = split_label(label);
        let worker = self.workers.get_mut(self.names.get(name)?)?;
        (instance == Some(worker.instance.as_str())).then_some(worker)
    }

    /// Refuses a worker whose name belongs to a living one, before anything of it is stored.
    ///
    /// # Errors
    /// `ALREADY_EXISTS`.
    pub(super) fn check_name(
        &self,
        registration: &Registration,
        now: Instant,
    ) -> Result<(), Status> {
        let known = self.names.get(&registration.name).and_then(|id| self.workers.get(id));
        let is_other = |it: &&Worker| it.instance != registration.instance;
        match known.filter(is_other) {
            Some(other) if other.is_alive(now, self.patience.lease) => {
                Err(name_taken(&registration.name))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Lets a worker in, or back in.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` while another process of that name is alive, `RESOURCE_EXHAUSTED` when
    /// there are too many workers.
    pub(super) fn attach(
        &mut self,
        registration: Registration,
        at: Moment,
    ) -> Result<LinkEnds, Status> {
        self.prune(at.now);
        let (outbound_sender, outbound) = mpsc::channel(OUTBOUND_MAX);
        let (close, closed) = oneshot::channel();
        let link_id = self.next_id();
        let link = Link::new(link_id, outbound_sender, close);
        let known = self.names.get(&registration.name).copied();
        let worker_id = match known.and_then(|id| Some((id, self.workers.get_mut(&id)?))) {
            Some((worker_id, worker)) if worker.instance == registration.instance => {
                let Registration { tools, capacity, held, .. } = registration;
                worker.open(Opening { tools, capacity, held }, link, at);
                worker_id
            }
            Some((_, worker)) if worker.is_alive(at.now, self.patience.lease) => {
                return Err(name_taken(&registration.name));
            }
            Some((_, worker)) => {
                worker.is_replaced = true;
                if let Some(mut old) = worker.link.take() {
                    old.close(Status::aborted("another process has this worker's name now"));
                }
                worker.wake_followers();
                self.join(registration, link, at)?
            }
            None => self.join(registration, link, at)?,
        };
        self.prune(at.now);
        Ok(LinkEnds { worker_id, link_id, outbound, closed })
    }

    fn join(
        &mut self,
        registration: Registration,
        link: Link,
        at: Moment,
    ) -> Result<WorkerId, Status> {
        if self.workers.len() >= WORKERS_MAX {
            return Err(Status::resource_exhausted(format!(
                "{WORKERS_MAX} workers are connected, more than that are not taken"
            )));
        }
        let worker_id = self.next_id();
        self.names.insert(registration.name.clone(), worker_id);
        let worker = Worker::new(registration, link, self.patience.orphan_grace, at);
        self.workers.insert(worker_id, worker);
        Ok(worker_id)
    }

    /// The stream ended. Says nothing when the worker has a newer one.
    pub(super) fn detach(&mut self, worker_id: WorkerId, link_id: u64, now: Instant) {
        let Some(worker) = self.workers.get_mut(&worker_id) else {
            return;
        };
        if worker.link.as_ref().is_some_and(|link| link.id == link_id) {
            worker.link = None;
            worker.left_at = now;
            worker.fell_silent =
                now.saturating_duration_since(worker.seen.now) >= self.patience.lease;
            worker.wake_followers();
        }
        self.prune(now);
    }

    /// Forgets workers that are gone and that nobody asks about any more.
    pub(super) fn prune(&mut self, now: Instant) {
        let grace = self.patience.reconnect_grace;
        let names = &mut self.names;
        self.workers.retain(|worker_id, worker| {
            let is_late = now.saturating_duration_since(worker.left_at) >= grace;
            let is_needed = worker.link.is_some()
                || worker.reserved > 0
                || worker.is_followed()
                || !(worker.calls.is_empty() || worker.is_replaced || is_late);
            if !is_needed && names.get(&worker.name) == Some(worker_id) {
                names.remove(&worker.name);
            }
            is_needed
        });
    }

    /// A sign of life on this connection. False when the worker has a newer one.
    pub(super) fn touch(&mut self, worker_id: WorkerId, link_id: u64, at: Moment) -> bool {
        let Some(worker) = self.workers.get_mut(&worker_id) else {
            return false;
        };
        if worker.link.as_ref().is_none_or(|link| link.id != link_id) {
            return false;
        }
        let was_alive = worker.is_alive(at.now, self.patience.lease);
        worker.seen = at;
        if !was_alive {
            self.serve(worker_id, at.now);
        }
        true
    }

    /// Takes a grant in. More than the worker's own limit is not believed.
    pub(super) fn credit(&mut self, worker_id: WorkerId, calls: u32, now: Instant) {
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            worker.credits = worker.credits.saturating_add(calls).min(worker.capacity);
            self.serve(worker_id, now);
        }
    }

    /// No new call goes to this worker.
    pub(super) fn drain(&mut self, worker_id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            worker.is_draining = true;
        }
    }

    /// Takes the place of the least busy worker, or a place in the queue.
    pub(super) fn reserve(&mut self, tool: &str, now: Instant) -> Reserved {
        let lease = self.patience.lease;
        let free = |worker: &Worker| match worker.offers.get(tool) {
            Some(offer) if offer.has_room() => worker.free_places(now, lease),
            Some(_) | None => 0,
        };
        let best =
            self.workers.iter().map(|(id, it)| (free(it), *id)).filter(|(free, _)| *free > 0);
        // Of equals the one that came first, so that the choice does not depend on a hash.
        let best = best.max_by_key(|(free, id)| (*free, std::cmp::Reverse(*id)));
        if let Some((_, worker_id)) = best
            && let Some(worker) = self.workers.get_mut(&worker_id)
        {
            worker.take_place(tool);
            return Reserved::Now(worker_id);
        }
        let ticket = self.next_id();
        let (sender, granted) = oneshot::channel();
        let queue = self.queues.entry(tool.to_owned()).or_default();
        queue.push_back(Waiter { ticket, granted: sender });
        Reserved::Later { ticket, granted }
    }

    /// Leaves the queue. False when a place was granted already.
    pub(super) fn leave_queue(&mut self, tool: &str, ticket: u64) -> bool {
        let Some(queue) = self.queues.get_mut(tool) else {
            return false;
        };
        let before = queue.len();
        queue.retain(|waiter| waiter.ticket != ticket);
        let was_there = queue.len() < before;
        if queue.is_empty() {
            self.queues.remove(tool);
        }
        was_there
    }

    /// A reserved place is not needed after all.
    pub(super) fn give_back(&mut self, worker_id: WorkerId, tool: &str, now: Instant) {
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            worker.give_place_back(tool);
            self.serve(worker_id, now);
            self.prune(now);
        }
    }

    /// Gives the free places of a worker to those who wait longest.
    pub(super) fn serve(&mut self, worker_id: WorkerId, now: Instant) {
        while let Some(tool) = self.next_tool(worker_id, now) {
            let Some(queue) = self.queues.get_mut(&tool) else {
                return;
            };
            let waiter = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&tool);
            }
            // A waiter that is leaving does not take it.
            let is_taken = waiter.is_some_and(|it| it.granted.send(worker_id).is_ok());
            if is_taken && let Some(worker) = self.workers.get_mut(&worker_id) {
                worker.take_place(&tool);
            }
        }
    }

    /// The tool whose first waiter waits longest, of those that the worker has room for.
    fn next_tool(&self, worker_id: WorkerId, now: Instant) -> Option<String> {
        let worker = self.workers.get(&worker_id)?;
        if worker.free_places(now, self.patience.lease) == 0 {
            return None;
        }
        let with_room = worker.offers.iter().filter(|(_, offer)| offer.has_room());
        let waiting = with_room.filter_map(|(tool, _)| {
            let first = self.queues.get(tool)?.front()?;
            Some((first.ticket, tool))
        });
        waiting.min().map(|(_, tool)| tool.clone())
    }

    /// The strongest class with which a connected worker of another name offers the tool.
    pub(super) fn strongest_effect(&self, tool: &str, except: &str) -> Option<Effect> {
        let others = self.workers.values().filter(|it| it.link.is_some() && it.name != except);
        let effects = others.filter_map(|it| Some(it.offers.get(tool)?.effect));
        effects.reduce(|left, right| if is_stronger(right, left) { right } else { left })
    }

    /// Names of the connected workers that offer the tool and take calls.
    pub(super) fn workers_of(&self, tool: &str, now: Instant) -> Vec<String> {
        let lease = self.patience.lease;
        let takes = |it: &&Worker| it.is_alive(now, lease) && !it.is_draining;
        let offering =
            self.workers.values().filter(takes).filter(|it| it.offers.contains_key(tool));
        let mut names: Vec<String> = offering.map(|it| it.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// All connected workers, by name.
    pub(super) fn infos(&self) -> Vec<WorkerInfo> {
        let connected = self.workers.values().filter(|it| it.link.is_some());
        let mut infos: Vec<WorkerInfo> = connected.map(WorkerInfo::of).collect();
        infos.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        infos
    }
}

fn name_taken(name: &str) -> Status {
    Status::already_exists(format!(
        "a worker named {name:?} is connected: give this one another name, or stop the other"
    ))
}
