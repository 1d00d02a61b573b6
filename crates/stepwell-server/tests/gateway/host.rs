//! The gateway with the real host: what both together promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::event::ToolOutcome;
use stepwell_ports::{ToolGateway, ToolReport};
use stepwell_server::gateway::GatewayOptions;
use stepwell_worker::host::{HostError, HostOptions, WorkerHost};
use stepwell_worker::{
    Effect, Tool, ToolContext, ToolDescription, ToolError, ToolOutput, ToolResult, Toolbox,
};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::proxy::Proxy;
use crate::world::{SHORT, World, assert_ok, patient, request, soon};

/// Counts its starts, says that it began, and ends when it is released (or told to stop).
#[derive(Clone)]
struct Gate {
    starts: Arc<AtomicU32>,
    release: Arc<Semaphore>,
    effect: Effect,
}

impl Gate {
    fn new() -> Self {
        let (starts, release) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
        Self { starts, release, effect: Effect::Write }
    }

    fn starts(&self) -> u32 {
        self.starts.load(Ordering::SeqCst)
    }

    fn release(&self) {
        self.release.add_permits(1);
    }
}

#[async_trait]
impl Tool for Gate {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "a".to_owned(),
            description: "Waits.".to_owned(),
            parameters: r#"{"type":"object"}"#.to_owned(),
            output_schema: None,
            effect: self.effect,
            timeout: Duration::from_secs(3_600),
            concurrency: 8,
        }
    }

    async fn call(&self, context: ToolContext, arguments: &str) -> ToolResult {
        self.starts.fetch_add(1, Ordering::SeqCst);
        context.output.send("began");
        let ToolContext { idempotency_key, workspace, cancel, .. } = context;
        tokio::select! {
            permit = self.release.acquire() => permit.unwrap().forget(),
            () = cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
        }
        assert!(workspace.is_dir() && workspace.ends_with("work"));
        Ok(ToolOutput { text: format!("{idempotency_key} {arguments}"), full: Some(vec![0xff]) })
    }
}

/// A worker process.
struct Host {
    gate: Gate,
    shutdown: CancellationToken,
    task: JoinSet<Result<(), HostError>>,
    _root: TempDir,
}

impl Host {
    fn start(url: &str, name: &str, gate: Gate) -> Self {
        Self::start_with(url, name, gate, |options| options)
    }

    fn start_with(
        url: &str,
        name: &str,
        gate: Gate,
        change: impl FnOnce(HostOptions) -> HostOptions,
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        let options = change(HostOptions::new(url, name, root.path()));
        let mut toolbox = Toolbox::new();
        toolbox.add(gate.clone()).unwrap();
        let shutdown = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(WorkerHost::new(options, toolbox).run(shutdown.clone()));
        Self { gate, shutdown, task, _root: root }
    }

    /// The process is gone without a word.
    fn kill(mut self) {
        self.task.abort_all();
    }

    async fn end(mut self) -> Result<(), HostError> {
        soon(self.task.join_next()).await.unwrap().unwrap()
    }
}

fn key(step: u32) -> String {
    format!("{} {{\"a\":1}}", request("a", step).idempotency_key())
}

#[tokio::test]
async fn a_call_runs_in_its_workspace_and_comes_back_whole() {
    let world = World::new(patient());
    let host = Host::start(&world.url(), "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    host.gate.release();
    let ended = running.end().await;
    assert_ok(&ended, &key(1));
    let ToolReport::Finished { full_output, .. } = ended else { panic!() };
    assert_eq!(full_output, Some(vec![0xff]));
    host.shutdown.cancel();
    host.end().await.unwrap();
    world.until(|it| it.workers().is_empty()).await;
}

#[tokio::test]
async fn a_call_survives_a_broken_connection() {
    let world = World::new(patient());
    let proxy = Proxy::to(world.address).await;
    let host = Host::start(&proxy.url, "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    let first_connection = world.gateway.workers()[0].connected_at;
    proxy.cut();
    world.until(|it| it.workers().is_empty()).await;
    // It ends while nobody can be told.
    host.gate.release();
    assert_ok(&running.end().await, &key(1));
    assert_eq!(host.gate.starts(), 1);
    assert!(world.gateway.workers()[0].connected_at >= first_connection);
    // The place is free again and the next call goes through.
    host.gate.release();
    assert_ok(&world.run(request("a", 2)).await.end().await, &key(2));
}

#[tokio::test]
async fn a_restarted_server_adopts_the_call_and_hears_of_it_once() {
    let mut world = World::new(patient());
    let host = Host::start(&world.url(), "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    let label = running.label.clone();
    drop(running);
    world.restart(patient());
    let running = world.probe(&label, request("a", 1));
    // Adopted. A report that comes before that is offered to the engine as a late one.
    world.until(|it| it.workers().iter().any(|worker| worker.running_calls == 1)).await;
    host.gate.release();
    assert_ok(&running.end().await, &key(1));
    assert_eq!(host.gate.starts(), 1);
    let mut late_reports = world.gateway.late_reports().unwrap();
    // Another call goes there and back: whatever was on the way before has arrived.
    host.gate.release();
    assert_ok(&world.run(request("a", 2)).await.end().await, &key(2));
    assert!(late_reports.try_recv().is_err(), "reported once");
}

#[tokio::test]
async fn a_report_that_was_handed_over_but_is_not_durable_is_told_again() {
    let mut world = World::new(patient());
    let host = Host::start(&world.url(), "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    let label = running.label.clone();
    host.gate.release();
    assert_ok(&running.end().await, &key(1));
    // The server dies before it could write that down.
    world.restart(patient());
    assert_ok(&world.probe(&label, request("a", 1)).end().await, &key(1));
    assert_eq!(host.gate.starts(), 1);
}

#[tokio::test]
async fn a_call_that_is_sent_twice_is_started_once() {
    let mut world = World::new(patient());
    let host = Host::start(&world.url(), "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    drop(running);
    // A tool that may be repeated is simply sent again by the next server.
    world.restart(patient());
    let running = world.run(request("a", 1)).await;
    host.gate.release();
    assert_ok(&running.end().await, &key(1));
    // And once more when it is over.
    assert_ok(&world.run(request("a", 1)).await.end().await, &key(1));
    assert_eq!(host.gate.starts(), 1);
}

#[tokio::test]
async fn a_killed_worker_loses_its_call_and_the_next_process_takes_new_ones() {
    let world = World::new(patient());
    let host = Host::start(&world.url(), "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    host.kill();
    let next = Host::start(&world.url(), "w", Gate::new());
    let reason = running.lost().await;
    assert!(reason.contains("started again"), "{reason}");
    next.gate.release();
    assert_ok(&world.run(request("a", 2)).await.end().await, &key(2));
    assert_eq!(next.gate.starts(), 1);
}

#[tokio::test]
async fn a_worker_behind_a_dead_line_is_lost_within_the_lease() {
    let quick = GatewayOptions { lease: 4 * SHORT, reconnect_grace: SHORT, ..patient() };
    let world = World::new(quick);
    let proxy = Proxy::to(world.address).await;
    let _host = Host::start(&proxy.url, "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    proxy.silence();
    running.lost().await;
}

#[tokio::test]
async fn a_cancel_reaches_the_tool() {
    let world = World::new(patient());
    let _host = Host::start(&world.url(), "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    running.cancel.cancel();
    let ended = running.end().await;
    assert!(
        matches!(&ended, ToolReport::Finished { outcome: ToolOutcome::Error, output, .. } if output == "cancelled"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_leaving_worker_ends_its_calls_first() {
    let world = World::new(patient());
    let host = Host::start(&world.url(), "w", Gate::new());
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    host.shutdown.cancel();
    world.until(|it| !it.offers("a")).await;
    host.gate.release();
    assert_ok(&running.end().await, &key(1));
    host.end().await.unwrap();
}

#[tokio::test]
async fn a_leaving_worker_stops_calls_that_take_too_long() {
    let world = World::new(patient());
    let hurried = |options| HostOptions { drain: Duration::ZERO, ..options };
    let host = Host::start_with(&world.url(), "w", Gate::new(), hurried);
    let running = world.run(request("a", 1)).await;
    running.until_output("began").await;
    host.shutdown.cancel();
    let ended = running.end().await;
    assert!(matches!(&ended, ToolReport::Finished { output, .. } if output == "cancelled"));
    host.end().await.unwrap();
}

#[tokio::test]
async fn a_name_that_stays_taken_is_an_error() {
    let world = World::new(patient());
    let _first = Host::start(&world.url(), "w", Gate::new());
    world.until(|it| it.workers().len() == 1).await;
    let hasty = |options| HostOptions { name_patience: Duration::ZERO, ..options };
    let second = Host::start_with(&world.url(), "w", Gate::new(), hasty);
    let error = second.end().await.unwrap_err();
    assert!(matches!(&error, HostError::NameTaken { .. }), "{error}");
}

#[tokio::test]
async fn many_calls_share_the_places() {
    let world = World::new(patient());
    let narrow = |options| HostOptions { concurrency: 2, ..options };
    let host = Host::start_with(&world.url(), "w", Gate::new(), narrow);
    host.gate.release.add_permits(50);
    let mut calls = JoinSet::new();
    for step in 1..=50 {
        let gateway = world.gateway.clone();
        calls.spawn(async move {
            let request = request("a", step);
            let slot = gateway.reserve(&request).await;
            let sink = Arc::new(crate::world::Seen::default());
            (step, gateway.run(slot, request, sink, CancellationToken::new()).await)
        });
    }
    while let Some(ended) = soon(calls.join_next()).await {
        let (step, report) = ended.unwrap();
        assert_ok(&report, &key(step));
    }
    assert_eq!(host.gate.starts(), 50);
}
