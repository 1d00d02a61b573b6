//! Tool workers of the world: processes apart from the nodes, with a ledger of everything that they
//! ever started. The ledger knows nothing of any engine, so it outlives them all.

mod gateway;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stepwell_core::event::ToolOutcome;
use stepwell_core::{CallId, Effect, Seq, SessionId};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::{Store, ToolReport, ToolRequest};
use stepwell_runtime::task::Tasks;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use gateway::NodeTools;

use crate::dice::Dice;
use crate::signal::Signal;

/// How long a gateway waits for a worker that is away, in milliseconds.
pub const LEASE_MS: u64 = 5_000;

/// How long a gateway waits for a call that was told to stop, in milliseconds.
pub const STOP_GRACE_MS: u64 = 60_000;

/// One attempt of a call.
pub type Attempt = (SessionId, CallId, u32);

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFault {
    /// Nothing.
    None,
    /// The worker does not begin it, and says so.
    NeverStarts,
    /// The connection breaks after it began; the worker goes on.
    ConnectionBreaks,
    /// The worker's process dies in the middle.
    WorkerDies,
    /// It never ends.
    Hangs,
    /// The gateway has a bug: it panics before the call began.
    Panic,
}

/// How a call goes.
#[derive(Debug, Clone)]
pub struct CallPlan {
    /// How long it takes.
    pub duration_ms: u64,
    /// How it ends.
    pub outcome: ToolOutcome,
    /// What it says.
    pub output: String,
    /// What goes wrong.
    pub fault: CallFault,
    /// It does not listen when it is told to stop.
    pub is_deaf: bool,
}

impl CallPlan {
    /// A call that ends well after `duration_ms`.
    pub fn ok(duration_ms: u64) -> Self {
        Self {
            duration_ms,
            outcome: ToolOutcome::Ok,
            output: "ok".to_string(),
            fault: CallFault::None,
            is_deaf: false,
        }
    }

    /// The same, with a fault.
    pub fn with(mut self, fault: CallFault) -> Self {
        self.fault = fault;
        self
    }

    /// The same, but it does not listen when it is told to stop.
    pub fn deaf(mut self) -> Self {
        self.is_deaf = true;
        self
    }
}

/// Decides how a call goes; the number says how often this call was started before, from 0.
pub type Plan = dyn Fn(&ToolRequest, usize) -> CallPlan + Send + Sync;

/// A tool that began to run.
#[derive(Debug, Clone)]
pub struct Start {
    /// Session, call, attempt.
    pub attempt: Attempt,
    /// The key that the tool was given.
    pub idempotency_key: String,
    /// The tool.
    pub tool: String,
    /// What it does to the world.
    pub effect: Effect,
    /// Its arguments.
    pub arguments: String,
    /// The worker.
    pub worker: String,
    /// The node whose order it was.
    pub node: String,
    /// Head of the session then.
    pub head: Seq,
    /// The node was the session's owner then.
    pub by_owner: bool,
    /// When it began.
    pub at: Instant,
}

/// A report that nobody waited for.
#[derive(Debug, Clone)]
pub struct LateReport {
    /// Session, call, attempt.
    pub attempt: Attempt,
    /// The worker.
    pub worker: String,
    /// How it ended.
    pub report: ToolReport,
}

#[derive(Debug)]
struct Running {
    /// Tells two runs of one attempt apart.
    run: u64,
    report: Option<ToolReport>,
    cancel: CancellationToken,
    is_followed: bool,
}

#[derive(Debug)]
struct Worker {
    /// The node in whose process it runs, for an embedded one.
    host: Option<String>,
    is_alive: bool,
    is_connected: bool,
    slots: usize,
    used: usize,
    calls: BTreeMap<Attempt, Running>,
    /// Attempts of which it said that they never began: they must not begin any more.
    denied: BTreeSet<Attempt>,
}

impl Worker {
    fn takes_calls_of(&self, node: &str) -> bool {
        let is_theirs = self.host.as_deref().is_none_or(|host| host == node);
        self.is_alive && self.is_connected && is_theirs
    }
}

#[derive(Debug)]
struct Inner {
    workers: BTreeMap<String, Worker>,
    starts: Vec<Start>,
    late: Vec<LateReport>,
    runs: u64,
    way_ms_max: u64,
    remembers_denials: bool,
    heeds_stops: bool,
}

/// A call that a worker has begun.
struct Job {
    place: Place,
    attempt: Attempt,
    run: u64,
    plan: CallPlan,
    cancel: CancellationToken,
}

/// See the module.
pub struct Fleet {
    store: Arc<MemoryStore>,
    inner: Mutex<Inner>,
    plan: Mutex<Arc<Plan>>,
    changed: Signal,
    tasks: Tasks,
    dice: Dice,
}

impl Fleet {
    /// A fleet without workers, whose calls take 10 ms.
    pub fn new(store: Arc<MemoryStore>, tasks: Tasks, dice: Dice) -> Arc<Self> {
        let plan: Arc<Plan> = Arc::new(|_, _| CallPlan::ok(10));
        Arc::new(Self {
            store,
            inner: Mutex::new(Inner {
                workers: BTreeMap::new(),
                starts: Vec::new(),
                late: Vec::new(),
                runs: 0,
                way_ms_max: 1,
                remembers_denials: true,
                heeds_stops: true,
            }),
            plan: Mutex::new(plan),
            changed: Signal::default(),
            tasks,
            dice,
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.raise();
    }

    /// How long messages to workers are under way, at most.
    pub fn set_way_ms_max(&self, ms: u64) {
        self.inner().way_ms_max = ms;
    }

    /// Whether a worker that said "it never began" refuses the same attempt when it comes later. Only
    /// a node that was frozen in the middle needs that; a node alone must be right without.
    pub fn set_remembers_denials(&self, remembers: bool) {
        self.inner().remembers_denials = remembers;
    }

    /// Whether a call that is told to stop on its way to the worker is not begun.
    pub fn set_heeds_stops(&self, heeds: bool) {
        self.inner().heeds_stops = heeds;
    }

    /// How long the next message is under way.
    fn way(&self) -> Duration {
        let ms_max = self.inner().way_ms_max;
        Duration::from_millis(self.dice.between(1, ms_max.max(1)))
    }

    /// Decides how calls go from now on.
    pub fn play(&self, plan: impl Fn(&ToolRequest, usize) -> CallPlan + Send + Sync + 'static) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(plan);
    }

    /// A new worker process. With a `host` it lives and dies with that node.
    pub fn add_worker(&self, name: &str, slots: usize, host: Option<&str>) {
        let worker = Worker {
            host: host.map(str::to_string),
            is_alive: true,
            is_connected: true,
            slots,
            used: 0,
            calls: BTreeMap::new(),
            denied: BTreeSet::new(),
        };
        self.inner().workers.insert(name.to_string(), worker);
        self.notify();
    }

    /// Ends a worker process and all that runs in it. Its name never comes back.
    pub fn kill_worker(&self, name: &str) {
        if let Some(worker) = self.inner().workers.get_mut(name) {
            worker.is_alive = false;
            worker.used = 0;
            worker.calls.clear();
        }
        self.notify();
    }

    /// Ends the workers that live in a node's process.
    pub fn node_died(&self, node: &str) {
        let hosted: Vec<String> = {
            let inner = self.inner();
            let hosted = inner.workers.iter().filter(|(_, it)| it.host.as_deref() == Some(node));
            hosted.map(|(name, _)| name.clone()).collect()
        };
        for name in hosted {
            self.kill_worker(&name);
        }
    }

    /// Cuts or mends the connection of a worker; what runs in it goes on.
    pub fn set_connected(&self, name: &str, is_connected: bool) {
        if let Some(worker) = self.inner().workers.get_mut(name) {
            worker.is_connected = is_connected;
        }
        self.notify();
    }

    /// Names of the worker processes that live and are nobody's part.
    pub fn free_workers(&self) -> Vec<String> {
        let inner = self.inner();
        let free = inner.workers.iter().filter(|(_, it)| it.is_alive && it.host.is_none());
        free.map(|(name, _)| name.clone()).collect()
    }

    /// Every start so far, in order.
    pub fn starts(&self) -> Vec<Start> {
        self.inner().starts.clone()
    }

    /// Starts of one call so far.
    pub fn starts_of(&self, session_id: SessionId, call_id: CallId) -> usize {
        let is_it = |it: &&Start| it.attempt.0 == session_id && it.attempt.1 == call_id;
        self.inner().starts.iter().filter(is_it).count()
    }

    /// Calls that run in workers now.
    pub fn running(&self) -> usize {
        let inner = self.inner();
        let calls = inner.workers.values().flat_map(|it| it.calls.values());
        calls.filter(|it| it.report.is_none()).count()
    }

    /// Reports that nobody waited for, since the last time.
    pub fn take_late(&self) -> Vec<LateReport> {
        std::mem::take(&mut self.inner().late)
    }

    fn plan_of(&self, request: &ToolRequest) -> CallPlan {
        let before = self.starts_of(request.session_id, request.call_id);
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        plan(request, before)
    }

    /// Begins a call in its worker; `None` when it must not begin there.
    async fn start(
        self: &Arc<Self>,
        node: &str,
        request: &ToolRequest,
        place: Place,
        plan: CallPlan,
    ) -> Option<()> {
        let info = self.store.session(request.session_id).await.ok().flatten();
        let attempt = (request.session_id, request.call_id, request.attempt);
        let cancel = CancellationToken::new();
        let job = {
            let mut inner = self.inner();
            inner.runs += 1;
            let run = inner.runs;
            let remembers = inner.remembers_denials;
            let worker = inner.workers.get_mut(&place.worker)?;
            let is_denied = remembers && worker.denied.contains(&attempt);
            if !worker.is_alive || !worker.is_connected || is_denied {
                return None;
            }
            let running = Running { run, report: None, cancel: cancel.clone(), is_followed: false };
            worker.calls.insert(attempt, running);
            inner.starts.push(Start {
                attempt,
                idempotency_key: request.idempotency_key(),
                tool: request.tool.name.clone(),
                effect: request.effect(),
                arguments: request.arguments.clone(),
                worker: place.worker.clone(),
                node: node.to_string(),
                head: info.as_ref().map_or(Seq(0), |it| it.row.head_seq),
                by_owner: info.is_some_and(|it| it.owner == node),
                at: Instant::now(),
            });
            Job { place, attempt, run, plan, cancel }
        };
        self.notify();
        let fleet = self.clone();
        self.tasks.spawn(async move { fleet.work(job).await });
        Some(())
    }

    /// A call's life in its worker, until it ends or the worker dies.
    async fn work(self: Arc<Self>, job: Job) {
        let Job { place, attempt, run, plan, cancel } = job;
        let worker = place.worker.clone();
        let duration = Duration::from_millis(plan.duration_ms);
        let report = tokio::select! {
            biased;
            () = cancel.cancelled(), if !plan.is_deaf => finished(ToolOutcome::Error, "told to stop"),
            () = tokio::time::sleep(duration), if plan.fault != CallFault::Hangs => {
                finished(plan.outcome, &plan.output)
            }
            () = self.died(&worker) => return,
        };
        {
            let mut inner = self.inner();
            let Some(process) = inner.workers.get_mut(&worker).filter(|it| it.is_alive) else {
                return;
            };
            let Some(call) = process.calls.get_mut(&attempt).filter(|it| it.run == run) else {
                return;
            };
            call.report = Some(report.clone());
            if !call.is_followed {
                inner.late.push(LateReport { attempt, worker, report });
            }
        }
        drop(place);
        self.notify();
    }

    async fn died(&self, worker: &str) {
        loop {
            let seen = self.changed.changes();
            if !self.inner().workers.get(worker).is_some_and(|it| it.is_alive) {
                return;
            }
            self.changed.changed_since(seen).await;
        }
    }
}

fn finished(outcome: ToolOutcome, output: &str) -> ToolReport {
    let output = output.to_string();
    ToolReport::Finished { outcome, output, full_output: None, duration_ms: 1 }
}

/// A place on a worker; given back when dropped.
struct Place {
    fleet: Arc<Fleet>,
    worker: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(worker) = self.fleet.inner().workers.get_mut(&self.worker) {
            worker.used = worker.used.saturating_sub(1);
        }
        self.fleet.notify();
    }
}
