//! An engine with stub ports on a real store, in this process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use stepwell_core::{Actor, Agent, Seq, SessionId, Status, Text};
use stepwell_ports::{ModelPort, ToolGateway};
use stepwell_runtime::system::{SystemClock, SystemRandom, random_bytes};
use stepwell_runtime::{CreateSession, Engine, EngineOptions, Ports};
use stepwell_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::workload::StubTools;

/// See the module.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) tools: Arc<StubTools>,
    shutdown: CancellationToken,
    running: JoinSet<()>,
}

/// How long a session may be silent before somebody looks whether it ended in another way.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Seq of the last event: one creates, four a step, and the answer is three.
fn head_at_end(steps: u32) -> Seq {
    Seq(1 + 4 * u64::from(steps) + 3)
}

impl World {
    /// Opens the store in `folder` and starts an engine on it.
    pub(crate) fn start(
        folder: &Path,
        model: Arc<dyn ModelPort>,
        tools: Arc<StubTools>,
    ) -> anyhow::Result<Self> {
        let store = SqliteStore::open(folder, &SqliteOptions::default())?;
        let gateway: Arc<dyn ToolGateway> = tools.clone();
        let ports = Ports {
            store: Arc::new(store),
            model,
            tools: gateway,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        };
        let node = format!("bench-{:x}", u128::from_le_bytes(random_bytes()));
        // The stub model has no limit of its own, and all sessions may wait for it at once.
        let options = EngineOptions { model_calls_max: 4_096, ..EngineOptions::for_node(node) };
        let engine = Engine::new(ports, options);
        let shutdown = CancellationToken::new();
        let mut running = JoinSet::new();
        let (runner, stop) = (engine.clone(), shutdown.clone());
        running.spawn(async move { runner.run(stop).await });
        Ok(Self { engine, tools, shutdown, running })
    }

    /// Stops the engine and closes the store.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        while self.running.join_next().await.is_some() {}
    }

    /// Creates a session.
    pub(crate) async fn create(&self, agent: &Agent) -> anyhow::Result<SessionId> {
        let create = CreateSession {
            paused: false,
            agent: agent.clone(),
            task: Text::from("Look all items up, then say that you are done."),
            title: String::new(),
            labels: Vec::new(),
            workspace: String::new(),
            client_key: None,
            request_digest: String::new(),
            by: Actor::Person("bench".to_string()),
        };
        Ok(self.engine.create(create).await?.session_id)
    }

    /// Runs one session of `steps` steps to its end.
    pub(crate) async fn run_one(&self, agent: &Agent, steps: u32) -> anyhow::Result<()> {
        let session_id = self.create(agent).await?;
        self.finished(session_id, steps).await
    }

    /// Waits until a session of `steps` steps has ended. Reads the store only when it must have, so
    /// that the watching is no part of what is measured.
    pub(crate) async fn finished(&self, session_id: SessionId, steps: u32) -> anyhow::Result<()> {
        let last = head_at_end(steps);
        let mut subscription = self.engine.subscribe(session_id);
        loop {
            let info = self.engine.store().session(session_id).await?;
            let status = info.context("the session is gone")?.row.status;
            if status.is_final() {
                anyhow::ensure!(status == Status::Completed, "a session ended as {status:?}");
                return Ok(());
            }
            let ended = subscription.head.wait_for(|head| *head >= last);
            if let Ok(waited) = tokio::time::timeout(LOOK_AGAIN, ended).await {
                waited?;
            }
        }
    }

    /// Runs `count` sessions of `steps` steps, `at_once` at a time.
    pub(crate) async fn run_many(
        &self,
        (agent, steps): (&Agent, u32),
        count: usize,
        at_once: usize,
    ) -> anyhow::Result<()> {
        let mut left = count;
        let mut running = JoinSet::new();
        loop {
            while left > 0 && running.len() < at_once {
                left -= 1;
                let (world, agent) = (self.share(), agent.clone());
                running.spawn(async move { world.run_one(&agent, steps).await });
            }
            match running.join_next().await {
                Some(result) => result??,
                None => return Ok(()),
            }
        }
    }

    /// Waits until no session is in memory.
    pub(crate) async fn idle(&self) {
        while self.engine.active_sessions() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn share(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            tools: self.tools.clone(),
            shutdown: CancellationToken::new(),
            running: JoinSet::new(),
        }
    }
}
