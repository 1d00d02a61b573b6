//! The world: one time, one store, one model, one fleet of workers, and nodes that come and go.

use std::sync::Arc;
use std::time::Duration;

use stepwell_core::codec::{attach, decode};
use stepwell_core::event::Event;
use stepwell_core::summary::{ApprovalStatus, SessionRow};
use stepwell_core::{Actor, Agent, Input, Seq, SessionId, SessionState, Status, Text, fold};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::{ApprovalFilter, Clock, SessionFilter, SessionInfo, Store};
use stepwell_runtime::task::Tasks;
use stepwell_runtime::{CreateSession, Engine, EngineError, EngineOptions, Ports, Submitted};
use tokio_util::sync::CancellationToken;

use crate::clock::{NodeClock, Time};
use crate::dice::Dice;
use crate::fleet::{Fleet, NodeTools};
use crate::gate::Gate;
use crate::model::{NodeModel, SimModel};
use crate::store::{SimStore, StoreSky};

/// Everything but the nodes.
pub struct World {
    /// Time.
    pub time: Arc<Time>,
    /// The events. Reading it here costs no simulated time and never fails.
    pub store: Arc<MemoryStore>,
    /// How the store behaves towards nodes.
    pub sky: Arc<StoreSky>,
    /// The model.
    pub model: Arc<SimModel>,
    /// The workers.
    pub fleet: Arc<Fleet>,
    /// Chance.
    pub dice: Dice,
    /// Tasks of the world, the engines' own apart.
    pub tasks: Tasks,
}

/// A server process.
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its engine.
    pub engine: Engine,
    /// Its way to the store.
    pub store: Arc<SimStore>,
    /// Its life.
    pub gate: Arc<Gate>,
    shutdown: CancellationToken,
    ended: CancellationToken,
    fleet: Arc<Fleet>,
}

impl World {
    /// A world with one worker `w1` that has room for 64 calls. Must be made inside of a runtime
    /// whose time is paused.
    pub fn new(seed: u64) -> Self {
        let store = Arc::new(MemoryStore::new());
        let tasks = Tasks::new();
        let dice = Dice::new(seed);
        let fleet = Fleet::new(store.clone(), tasks.clone(), dice.fork("fleet"));
        fleet.add_worker("w1", 64, None);
        Self {
            time: Time::new(),
            sky: Arc::default(),
            model: SimModel::new(store.clone()),
            fleet,
            dice,
            tasks,
            store,
        }
    }

    /// Starts a node that is the store's only owner.
    pub fn start(&self, name: &str) -> Node {
        self.start_with(EngineOptions::for_node(name), 0)
    }

    /// Starts a node whose clock is ahead by `skew_ms`.
    pub fn start_with(&self, options: EngineOptions, skew_ms: i64) -> Node {
        let gate = Arc::<Gate>::default();
        let name = options.node.clone();
        let dice = self.dice.fork(&name);
        let store = Arc::new(SimStore::new(
            self.store.clone(),
            self.sky.clone(),
            gate.clone(),
            dice.fork("store"),
            self.tasks.clone(),
        ));
        let ports = Ports {
            store: store.clone(),
            model: Arc::new(NodeModel {
                model: self.model.clone(),
                node: name.clone(),
                gate: gate.clone(),
            }),
            tools: Arc::new(NodeTools {
                fleet: self.fleet.clone(),
                node: name.clone(),
                gate: gate.clone(),
            }),
            clock: Arc::new(NodeClock { time: self.time.clone(), skew_ms, gate: gate.clone() }),
            random: Arc::new(dice.fork("ids")),
        };
        let engine = Engine::new(ports, options);
        let (shutdown, ended) = (CancellationToken::new(), CancellationToken::new());
        let (runner, stop, done) = (engine.clone(), shutdown.clone(), ended.clone());
        self.tasks.spawn(async move {
            runner.run(stop).await;
            done.cancel();
        });
        // Whatever ends a node ends the workers that live in it.
        let (died, fleet, host) = (gate.clone(), self.fleet.clone(), name.clone());
        self.tasks.spawn(async move {
            died.died().await;
            fleet.node_died(&host);
        });
        Node { name, engine, store, gate, shutdown, ended, fleet: self.fleet.clone() }
    }

    /// Lets time pass.
    pub async fn pass_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// The events of a session, payloads in their places.
    ///
    /// # Panics
    /// When an event cannot be decoded: then the world itself is broken.
    pub async fn log(&self, session_id: SessionId) -> Vec<Event> {
        self.log_after(session_id, Seq(0)).await
    }

    /// The events of a session after `after`.
    ///
    /// # Panics
    /// When an event cannot be decoded: then the world itself is broken.
    pub async fn log_after(&self, session_id: SessionId, after: Seq) -> Vec<Event> {
        let mut log: Vec<Event> = Vec::new();
        loop {
            let from = log.last().map_or(after, |event| event.seq);
            let page = self.store.read(session_id, from, 1_000).await.expect("memory");
            for stored in &page.events {
                let mut body = decode(&stored.kind, stored.schema, &stored.body).expect("decodes");
                let mut addresses = Vec::new();
                attach(&mut body, &mut |address| {
                    addresses.push(address.to_string());
                    None
                });
                let mut payloads = Vec::new();
                for address in addresses {
                    let bytes = self.store.blob(&address).await.expect("memory").expect("kept");
                    payloads.push((address, String::from_utf8(bytes).expect("text")));
                }
                attach(&mut body, &mut |address| {
                    payloads.iter().find(|(it, _)| it == address).map(|(_, text)| text.clone())
                });
                let actor: Actor = stored.actor.parse().expect("an actor");
                let (seq, time, cause) = (stored.seq, stored.time, stored.cause);
                log.push(Event { seq, time, cause, actor, body });
            }
            if page.events.is_empty() {
                return log;
            }
        }
    }

    /// The state that the events of a session fold to.
    ///
    /// # Panics
    /// When they do not fold.
    pub async fn state(&self, session_id: SessionId) -> SessionState {
        fold(SessionState::default(), &self.log(session_id).await).expect("the history folds")
    }

    /// What the store knows of a session.
    ///
    /// # Panics
    /// When there is no such session.
    pub async fn info(&self, session_id: SessionId) -> SessionInfo {
        self.store.session(session_id).await.expect("memory").expect("the session exists")
    }

    /// The status in a session's row.
    pub async fn status(&self, session_id: SessionId) -> Status {
        self.info(session_id).await.row.status
    }

    /// The rows of all sessions.
    ///
    /// # Panics
    /// Never: the store is in memory.
    pub async fn rows(&self) -> Vec<SessionRow> {
        let mut rows = Vec::new();
        let mut page: Option<String> = None;
        loop {
            let filter = SessionFilter::default();
            let found = self.store.sessions(&filter, page.as_deref(), 1_000).await.expect("memory");
            rows.extend(found.rows);
            page = found.next_page;
            if page.is_none() {
                return rows;
            }
        }
    }

    /// How many approvals of a session are listed as open.
    ///
    /// # Panics
    /// Never: the store is in memory.
    pub async fn open_approvals(&self, session_id: SessionId) -> usize {
        let filter =
            ApprovalFilter { statuses: vec![ApprovalStatus::Open], session_id: Some(session_id) };
        self.store.approvals(&filter, None, 1_000).await.expect("memory").rows.len()
    }

    /// Lets time pass until `is_so`, or says no after `ms_max`.
    pub async fn until_ms(&self, ms_max: u64, mut is_so: impl AsyncFnMut() -> bool) -> bool {
        let end = self.time.elapsed_ms() + ms_max;
        loop {
            if is_so().await {
                return true;
            }
            if self.time.elapsed_ms() >= end {
                return false;
            }
            self.pass_ms(1).await;
        }
    }

    /// Lets time pass until a session has a status.
    ///
    /// # Panics
    /// When it does not get there within ten simulated minutes.
    pub async fn until_status(&self, session_id: SessionId, wanted: Status) {
        let is_there = self.until_ms(600_000, async || self.status(session_id).await == wanted);
        if !is_there.await {
            let row = self.info(session_id).await.row;
            panic!("{wanted:?} is awaited, but: {:?}, {}", row.status, row.explain);
        }
    }
}

impl Node {
    /// Creates a session.
    ///
    /// # Errors
    /// As [`Engine::create`].
    pub async fn create(&self, agent: &Agent) -> Result<SessionId, EngineError> {
        self.engine.create(create(agent)).await.map(|it| it.session_id)
    }

    /// Gives a session an input.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub async fn submit(
        &self,
        session_id: SessionId,
        input: Input,
    ) -> Result<Submitted, EngineError> {
        self.engine.submit(session_id, input).await
    }

    /// Ends the process at once, wherever it is.
    pub fn crash(&self) {
        self.gate.kill();
        self.fleet.node_died(&self.name);
    }

    /// Asks the process to go down and waits until it has.
    pub async fn shut_down(&self) {
        self.shutdown.cancel();
        self.ended.cancelled().await;
        self.crash();
    }

    /// Asks the process to go down.
    pub fn begin_to_shut_down(&self) {
        self.shutdown.cancel();
    }

    /// Whether the engine's run has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// The node's wall clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.engine.clock().clone()
    }
}

/// A person of that name.
pub fn person(name: &str) -> Actor {
    Actor::Person(name.to_string())
}

/// A request for a session.
pub fn create(agent: &Agent) -> CreateSession {
    CreateSession {
        paused: false,
        agent: agent.clone(),
        task: Text::from("Do it."),
        title: String::new(),
        workspace: String::new(),
        labels: Vec::new(),
        client_key: None,
        request_digest: String::new(),
        by: person("ann"),
    }
}
