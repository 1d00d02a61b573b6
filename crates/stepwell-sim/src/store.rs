//! A node's way to the one store: delays, calls that fail before or after or long after they had
//! their effect, a full disk, damaged logs, and the death of the node at a chosen append.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::summary::{ApprovalRow, SessionRow};
use stepwell_core::{Seq, SessionId, TimestampMs};
use stepwell_ports::import::{Import, ImportPage, Imported};
use stepwell_ports::memory::{FaultTime, MemoryStore};
use stepwell_ports::retention::{DeleteOnly, Deleted, SessionSize, Swept};
use stepwell_ports::store::{Created, Keyed};
use stepwell_ports::{
    AgentRecord, Append, AppendError, ApprovalFilter, Claim, EventPage, ListPage, NewSession,
    NodeInfo, SessionFilter, SessionInfo, Store, StoreError, ToolRecord,
};
use stepwell_runtime::task::Tasks;

use crate::dice::Dice;
use crate::gate::Gate;

/// How the store behaves towards every node.
#[derive(Debug, Clone, Default)]
pub struct StoreWeather {
    /// Writes that fail, per 1,000; half of them after they had their effect.
    pub writes_fail: u64,
    /// Appends that fail and have their effect a while later, per 1,000.
    pub appends_late: u64,
    /// Reads that fail, per 1,000.
    pub reads_fail: u64,
    /// Shortest way there, and back, in milliseconds.
    pub latency_ms_min: u64,
    /// Longest way there, and back, in milliseconds.
    pub latency_ms_max: u64,
    /// While set, no write gets through.
    pub no_writes: Option<StoreError>,
    /// While set, no read gets through.
    pub no_reads: Option<StoreError>,
    /// While set, payloads beside the events are found to be damaged.
    pub payloads_damaged: bool,
}

/// Longest time until the effect of an append whose outcome was unknown, in milliseconds.
pub const LATE_MS_MAX: u64 = 2_000;

/// What is wrong with a stored log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The event is of a kind that nobody knows.
    UnknownKind(Seq),
    /// The event is missing, later ones are there.
    Gap(Seq),
    /// This event and all later ones are missing, the head is not.
    TailLost(Seq),
}

/// What all nodes share of the store.
#[derive(Debug, Default)]
pub struct StoreSky {
    weather: Mutex<StoreWeather>,
    damages: Mutex<BTreeMap<SessionId, Damage>>,
}

impl StoreSky {
    /// Changes the weather.
    pub fn weather(&self) -> MutexGuard<'_, StoreWeather> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Damages the log of a session, as it is read from now on.
    pub fn damage(&self, session_id: SessionId, damage: Damage) {
        self.damages().insert(session_id, damage);
    }

    /// Whether a session's log is damaged.
    pub fn is_damaged(&self, session_id: SessionId) -> bool {
        self.damages().contains_key(&session_id)
    }

    fn damages(&self) -> MutexGuard<'_, BTreeMap<SessionId, Damage>> {
        self.damages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Fail(FaultTime),
    Crash(FaultTime),
    Panic(FaultTime),
    Late,
}

#[derive(Debug, Default)]
struct Counted {
    calls: BTreeMap<&'static str, u64>,
    appends: u64,
    /// What happens at which append.
    plan: BTreeMap<u64, Fault>,
}

/// See the module.
pub struct SimStore {
    /// The store itself.
    pub inner: Arc<MemoryStore>,
    /// What all nodes share of it.
    pub sky: Arc<StoreSky>,
    /// The life of the node.
    pub gate: Arc<Gate>,
    /// Chance.
    pub dice: Dice,
    /// Where late effects run.
    pub tasks: Tasks,
    counted: Mutex<Counted>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Read,
    Write,
    Append,
}

impl SimStore {
    /// A node's way to `inner`.
    pub fn new(
        inner: Arc<MemoryStore>,
        sky: Arc<StoreSky>,
        gate: Arc<Gate>,
        dice: Dice,
        tasks: Tasks,
    ) -> Self {
        Self { inner, sky, gate, dice, tasks, counted: Mutex::default() }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls so far, by method.
    pub fn calls(&self) -> BTreeMap<&'static str, u64> {
        self.counted().calls.clone()
    }

    /// Appends and creates so far.
    pub fn appends(&self) -> u64 {
        self.counted().appends
    }

    /// Lets the `nth` append or create from now on fail, 1 being the next.
    pub fn fail_append(&self, nth: u64, time: FaultTime) {
        let mut counted = self.counted();
        let at = counted.appends + nth;
        counted.plan.insert(at, Fault::Fail(time));
    }

    /// Ends the node at the `nth` append or create from now on, 1 being the next.
    pub fn crash_at_append(&self, nth: u64, time: FaultTime) {
        let mut counted = self.counted();
        let at = counted.appends + nth;
        counted.plan.insert(at, Fault::Crash(time));
    }

    /// Lets the `nth` append or create from now on panic, 1 being the next: a bug in the store.
    pub fn panic_at_append(&self, nth: u64, time: FaultTime) {
        let mut counted = self.counted();
        let at = counted.appends + nth;
        counted.plan.insert(at, Fault::Panic(time));
    }

    /// Forgets what was planned.
    pub fn plan_nothing(&self) {
        self.counted().plan.clear();
    }

    fn count(&self, kind: Kind, name: &'static str) -> Option<Fault> {
        let mut counted = self.counted();
        *counted.calls.entry(name).or_default() += 1;
        if kind != Kind::Append {
            return None;
        }
        counted.appends += 1;
        let nth = counted.appends;
        counted.plan.remove(&nth)
    }

    fn fault_by_chance(&self, kind: Kind) -> Option<Fault> {
        let weather = self.sky.weather().clone();
        let fails = match kind {
            Kind::Read => weather.reads_fail,
            Kind::Write | Kind::Append => weather.writes_fail,
        };
        if kind == Kind::Append && self.dice.chance(weather.appends_late) {
            Some(Fault::Late)
        } else if self.dice.chance(fails) {
            let is_before = kind == Kind::Read || self.dice.chance(500);
            let time = if is_before { FaultTime::BeforeEffect } else { FaultTime::AfterEffect };
            Some(Fault::Fail(time))
        } else {
            None
        }
    }

    fn refusal(&self, kind: Kind) -> Option<StoreError> {
        let weather = self.sky.weather();
        match kind {
            Kind::Read => weather.no_reads.clone(),
            Kind::Write | Kind::Append => weather.no_writes.clone(),
        }
    }

    async fn travel(&self) {
        let (ms_min, ms_max) = {
            let weather = self.sky.weather();
            (weather.latency_ms_min, weather.latency_ms_max)
        };
        if ms_max > 0 {
            tokio::time::sleep(Duration::from_millis(self.dice.between(ms_min, ms_max))).await;
        }
    }

    async fn call<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        kind: Kind,
        name: &'static str,
        effect: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        let planned = self.count(kind, name);
        let injected =
            || StoreError::Failed { operation: name, reason: "a simulated fault".into() };
        let passage = async {
            self.travel().await;
            if let Some(refusal) = self.refusal(kind) {
                return Err(refusal.into());
            }
            match planned.or_else(|| self.fault_by_chance(kind)) {
                None => {
                    let result = effect.await;
                    self.travel().await;
                    result
                }
                Some(Fault::Fail(FaultTime::BeforeEffect)) => Err(injected().into()),
                Some(Fault::Fail(FaultTime::AfterEffect)) => {
                    // What it answers is what the caller must not learn.
                    let _ = effect.await;
                    self.travel().await;
                    Err(injected().into())
                }
                Some(Fault::Late) => {
                    let delay = Duration::from_millis(self.dice.between(1, LATE_MS_MAX));
                    self.tasks.spawn(async move {
                        tokio::time::sleep(delay).await;
                        let _ = effect.await;
                    });
                    Err(injected().into())
                }
                Some(Fault::Panic(time)) => {
                    if time == FaultTime::AfterEffect {
                        let _ = effect.await;
                    }
                    panic!("a simulated bug in the store");
                }
                Some(Fault::Crash(time)) => {
                    if time == FaultTime::AfterEffect {
                        let _ = effect.await;
                    }
                    self.gate.kill();
                    std::future::pending().await
                }
            }
        };
        self.gate.pass(passage).await
    }

    async fn read_log(
        inner: Arc<MemoryStore>,
        sky: Arc<StoreSky>,
        (session_id, after, limit): (SessionId, Seq, usize),
    ) -> Result<EventPage, StoreError> {
        let mut page = inner.read(session_id, after, limit).await?;
        let damage = sky.damages().get(&session_id).copied();
        match damage {
            None => {}
            Some(Damage::UnknownKind(seq)) => {
                for event in page.events.iter_mut().filter(|it| it.seq == seq) {
                    event.kind = "hologram_shown".to_string();
                }
            }
            Some(Damage::Gap(seq)) => page.events.retain(|it| it.seq != seq),
            Some(Damage::TailLost(seq)) => page.events.retain(|it| it.seq < seq),
        }
        Ok(page)
    }
}

/// One method: its kind, and the call on the store inside with arguments of its own.
macro_rules! pass {
    ($store:ident, $kind:ident, $method:ident, |$inner:ident| $call:expr) => {{
        let $inner = $store.inner.clone();
        $store.call(Kind::$kind, stringify!($method), async move { $call.await }).await
    }};
}

#[async_trait]
impl Store for SimStore {
    async fn create(&self, new: NewSession) -> Result<Created, AppendError> {
        pass!(self, Append, create, |inner| inner.create(new))
    }

    async fn keyed(&self, client_key: &str) -> Result<Option<Keyed>, StoreError> {
        let client_key = client_key.to_string();
        pass!(self, Read, keyed, |inner| inner.keyed(&client_key))
    }

    async fn append(&self, claim: Claim, append: Append) -> Result<Seq, AppendError> {
        pass!(self, Append, append, |inner| inner.append(claim, append))
    }

    async fn claim(&self, session_id: SessionId, owner: &str) -> Result<Claim, AppendError> {
        let owner = owner.to_string();
        pass!(self, Write, claim, |inner| inner.claim(session_id, &owner))
    }

    async fn claim_due(
        &self,
        owner: &str,
        live_owners: &[String],
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let (owner, live) = (owner.to_string(), live_owners.to_vec());
        pass!(self, Write, claim_due, |inner| inner.claim_due(&owner, &live, now, limit))
    }

    async fn due(
        &self,
        owner: &str,
        now: TimestampMs,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let owner = owner.to_string();
        pass!(self, Read, due, |inner| inner.due(&owner, now, limit))
    }

    async fn next_wake(&self, after: TimestampMs) -> Result<Option<TimestampMs>, StoreError> {
        pass!(self, Read, next_wake, |inner| inner.next_wake(after))
    }

    async fn read(
        &self,
        session_id: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        let sky = self.sky.clone();
        let what = (session_id, after, limit);
        pass!(self, Read, read, |inner| Self::read_log(inner, sky, what))
    }

    async fn blob(&self, address: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if self.sky.weather().payloads_damaged {
            let (place, reason) =
                (format!("payload {address}"), "not what was written".to_string());
            return Err(StoreError::Corrupt { place, reason });
        }
        let address = address.to_string();
        pass!(self, Read, blob, |inner| inner.blob(&address))
    }

    async fn session(&self, session_id: SessionId) -> Result<Option<SessionInfo>, StoreError> {
        pass!(self, Read, session, |inner| inner.session(session_id))
    }

    async fn sessions(
        &self,
        filter: &SessionFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<SessionRow>, StoreError> {
        let (filter, page) = (filter.clone(), page.map(str::to_string));
        pass!(self, Read, sessions, |inner| inner.sessions(&filter, page.as_deref(), limit))
    }

    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        page: Option<&str>,
        limit: usize,
    ) -> Result<ListPage<ApprovalRow>, StoreError> {
        let (filter, page) = (filter.clone(), page.map(str::to_string));
        pass!(self, Read, approvals, |inner| inner.approvals(&filter, page.as_deref(), limit))
    }

    async fn quarantine(&self, session_id: SessionId, reason: &str) -> Result<(), StoreError> {
        let reason = reason.to_string();
        pass!(self, Write, quarantine, |inner| inner.quarantine(session_id, &reason))
    }

    async fn snapshot(
        &self,
        session_id: SessionId,
        version: u32,
    ) -> Result<Option<(Seq, Vec<u8>)>, StoreError> {
        pass!(self, Read, snapshot, |inner| inner.snapshot(session_id, version))
    }

    async fn put_snapshot(
        &self,
        session_id: SessionId,
        seq: Seq,
        version: u32,
        state: Vec<u8>,
    ) -> Result<(), StoreError> {
        pass!(self, Write, put_snapshot, |inner| inner
            .put_snapshot(session_id, seq, version, state))
    }

    async fn import_begin(&self, session_id: SessionId) -> Result<Import, AppendError> {
        pass!(self, Write, import_begin, |inner| inner.import_begin(session_id))
    }

    async fn import_events(&self, import: Import, page: ImportPage) -> Result<Seq, AppendError> {
        pass!(self, Write, import_events, |inner| inner.import_events(import, page))
    }

    async fn import_finish(&self, import: Import, imported: Imported) -> Result<(), AppendError> {
        pass!(self, Write, import_finish, |inner| inner.import_finish(import, imported))
    }

    async fn import_drop(&self, import: Import) -> Result<(), StoreError> {
        pass!(self, Write, import_drop, |inner| inner.import_drop(import))
    }

    async fn put_agent(
        &self,
        name: &str,
        definition: &str,
        now: TimestampMs,
    ) -> Result<AgentRecord, StoreError> {
        let (name, definition) = (name.to_string(), definition.to_string());
        pass!(self, Write, put_agent, |inner| inner.put_agent(&name, &definition, now))
    }

    async fn agent(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<AgentRecord>, StoreError> {
        let name = name.to_string();
        pass!(self, Read, agent, |inner| inner.agent(&name, version))
    }

    async fn agents(&self) -> Result<Vec<AgentRecord>, StoreError> {
        pass!(self, Read, agents, |inner| inner.agents())
    }

    async fn put_tools(&self, tools: Vec<ToolRecord>) -> Result<(), StoreError> {
        pass!(self, Write, put_tools, |inner| inner.put_tools(tools))
    }

    async fn tools(&self) -> Result<Vec<ToolRecord>, StoreError> {
        pass!(self, Read, tools, |inner| inner.tools())
    }

    async fn beat(&self, node: &str, now: TimestampMs) -> Result<(), StoreError> {
        let node = node.to_string();
        pass!(self, Write, beat, |inner| inner.beat(&node, now))
    }

    async fn nodes(&self) -> Result<Vec<NodeInfo>, StoreError> {
        pass!(self, Read, nodes, |inner| inner.nodes())
    }

    async fn delete(
        &self,
        session_id: SessionId,
        only: &DeleteOnly,
    ) -> Result<Deleted, StoreError> {
        let only = only.clone();
        pass!(self, Write, delete, |inner| inner.delete(session_id, &only))
    }

    async fn size(&self, session_id: SessionId) -> Result<Option<SessionSize>, StoreError> {
        pass!(self, Read, size, |inner| inner.size(session_id))
    }

    async fn sweep(&self) -> Result<Swept, StoreError> {
        pass!(self, Write, sweep, |inner| inner.sweep())
    }
}
