//! Measures that need a process of their own: killed half-way, memory at rest, start.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use stepwell_core::{Effect, Status};
use stepwell_ports::{
    ModelAnswer, ModelFailure, ModelPort, ModelRequest, ModelSink, SessionFilter,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use crate::inproc::{STEPS, start as start_world};
use crate::memory::{cpu_ticks, resident_mb};
use crate::raw::Raw;
use crate::report::{Goal, Measure};
use crate::time::{Stopwatch, median, ms};
use crate::workload::{StubModel, StubTools, agent};
use crate::world::World;

/// Sessions that are killed half-way.
const KILLED: usize = 1_000;

/// What a child process does.
pub(crate) async fn child(what: &str, folder: &Path) -> anyhow::Result<()> {
    match what.split_once('=').unwrap_or((what, "0")) {
        ("half", count) => child_half(folder, count.parse()?).await,
        ("waiting", count) => child_waiting(folder, count.parse()?).await,
        ("first", _) => child_first(folder).await,
        ("first-raw", _) => child_first_raw(folder),
        (other, _) => anyhow::bail!("no such child: {other}"),
    }
}

fn spawn(
    what: &str,
    folder: &Path,
) -> anyhow::Result<(Child, BufReader<std::process::ChildStdout>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--child", what, "--folder"])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().context("no output")?;
    Ok((child, BufReader::new(stdout)))
}

fn line(output: &mut BufReader<std::process::ChildStdout>) -> anyhow::Result<String> {
    let mut text = String::new();
    output.read_line(&mut text)?;
    anyhow::ensure!(!text.is_empty(), "the child ended without a word");
    Ok(text.trim().to_string())
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn say(text: &str) {
    println!("{text}");
}

/// Answers the first half of the steps and then never again.
struct HalfModel {
    inner: StubModel,
    reached: tokio::sync::Semaphore,
}

#[async_trait]
impl ModelPort for HalfModel {
    async fn ask(
        &self,
        request: ModelRequest,
        sink: Arc<dyn ModelSink>,
        cancel: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure> {
        if request.step > STEPS / 2 {
            self.reached.add_permits(1);
            std::future::pending::<()>().await;
        }
        self.inner.ask(request, sink, cancel).await
    }
}

async fn child_half(folder: &Path, count: usize) -> anyhow::Result<()> {
    let inner = StubModel { steps: STEPS };
    let model = Arc::new(HalfModel { inner, reached: tokio::sync::Semaphore::new(0) });
    let world = World::start(folder, model.clone(), Arc::default())?;
    let agent = allowed_writer();
    for _ in 0..count {
        world.create(&agent).await?;
    }
    let reached = model.reached.acquire_many(count as u32).await?;
    reached.forget();
    say("half");
    std::future::pending::<()>().await;
    Ok(())
}

/// An agent whose tool writes and needs no approval.
fn allowed_writer() -> stepwell_core::Agent {
    use stepwell_core::agent::{ApprovalRule, Verdict};
    let mut agent = agent(Effect::Write, STEPS);
    agent.approval_rules.push(ApprovalRule {
        tool: "*".to_string(),
        arguments: Vec::new(),
        commands: Vec::new(),
        verdict: Verdict::Allow,
    });
    agent
}

/// 1,000 sessions, killed half-way: from the restart until all are done.
pub(crate) fn restart(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    /// A machine is not as fast at every moment.
    const ROUNDS: usize = 3;
    let count = KILLED / bench.scale;
    let (mut ours, mut limits, mut calls) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let round = restart_once(bench, runtime, count)?;
        ours.push(round.ours);
        limits.push(round.limit);
        calls = round.calls;
    }
    let (value, limit) = (median(ours), median(limits));
    Ok(vec![Measure {
        name: format!(
            "{count} sessions killed half-way, restart to all done ({calls} calls, 0 twice)"
        ),
        value,
        unit: "ms",
        limit: Some(limit),
        ratio: Some(value / limit),
        goal: Goal::RatioAtMost(3.0),
    }])
}

/// One restart, in milliseconds.
struct Restart {
    ours: f64,
    limit: f64,
    calls: u64,
}

fn restart_once(bench: &Bench, runtime: &Runtime, count: usize) -> anyhow::Result<Restart> {
    let folder = bench.scratch()?;
    let (mut child, mut output) = spawn(&format!("half={count}"), folder.path())?;
    line(&mut output)?;
    child.kill()?;
    child.wait()?;

    let raw_folder = bench.scratch()?;
    let mut raw = Raw::open(raw_folder.path())?;
    let (half, all) = (u64::from(STEPS) / 2, u64::from(STEPS));
    raw.steps(&(0..count as u64), 0..half)?;
    let (read, _) = raw.read_all(0..count as u64)?;
    let finish = raw.steps(&(0..count as u64), half..all)?;
    let limit = ms(read + finish);

    let tools = Arc::new(StubTools::counting());
    let watch = Stopwatch::start();
    let world_tools = tools.clone();
    let folder_path = folder.path();
    runtime
        .block_on(async {
            let world =
                World::start(folder_path, Arc::new(StubModel { steps: STEPS }), world_tools)?;
            // The list is read only when it may be the last time, so that the watching is no part of
            // what is measured: each session killed half-way still makes its last calls.
            let calls = count as u64 * (all - half);
            loop {
                let filter =
                    SessionFilter { statuses: vec![Status::Completed], ..SessionFilter::default() };
                if tools.total() < calls {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                }
                let done = count_all(&world, &filter).await?;
                if done >= count {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(world)
        })
        .map(|world| runtime.block_on(world.stop()))?;
    let ours = ms(watch.elapsed());
    let twice = tools.started_twice();
    anyhow::ensure!(twice == 0, "{twice} write calls ran twice");
    Ok(Restart { ours, limit, calls: tools.total() })
}

async fn count_all(world: &World, filter: &SessionFilter) -> anyhow::Result<usize> {
    let mut count = 0;
    let mut token: Option<String> = None;
    loop {
        let page = world.engine.store().sessions(filter, token.as_deref(), 1_000).await?;
        count += page.rows.len();
        match page.next_page {
            Some(next) => token = Some(next),
            None => return Ok(count),
        }
    }
}

async fn child_waiting(folder: &Path, count: usize) -> anyhow::Result<()> {
    let world = start_world(folder, STEPS)?;
    let asker = agent(Effect::Write, STEPS);
    for _ in 0..256 {
        world.create(&asker).await?;
    }
    world.idle().await;
    let empty = resident_mb()?;
    for _ in 0..count.saturating_sub(256) {
        world.create(&asker).await?;
    }
    world.idle().await;
    let resident = resident_mb()?;
    let before = cpu_ticks()?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cpu_percent = (cpu_ticks()? - before) / 500.0 * 100.0;
    say(&format!("{} {cpu_percent}", resident - empty));
    Ok(())
}

/// Sessions that wait for a person: memory above an engine without them, and processor time.
pub(crate) fn waiting(bench: &Bench, _runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for (count, goal_mb) in [(10_000 / bench.scale, 5.0), (100_000 / bench.scale, 50.0)] {
        let folder = bench.scratch()?;
        let (mut child, mut output) = spawn(&format!("waiting={count}"), folder.path())?;
        let said = line(&mut output)?;
        child.wait()?;
        let (memory, cpu) = said.split_once(' ').context("two numbers")?;
        measures.push(Measure {
            name: format!("{count} sessions waiting for a person, memory above empty"),
            value: memory.parse()?,
            unit: "MB",
            limit: None,
            ratio: None,
            goal: Goal::ValueAtMost(goal_mb),
        });
        measures.push(Measure {
            name: format!("{count} sessions waiting for a person, processor"),
            value: cpu.parse()?,
            unit: "%",
            limit: None,
            ratio: None,
            goal: Goal::ValueAtMost(0.5),
        });
    }
    Ok(measures)
}

async fn child_first(folder: &Path) -> anyhow::Result<()> {
    let world = start_world(folder, STEPS)?;
    world.run_one(&agent(Effect::Read, STEPS), STEPS).await?;
    say("done");
    world.stop().await;
    Ok(())
}

fn child_first_raw(folder: &Path) -> anyhow::Result<()> {
    let mut raw = Raw::open(folder)?;
    raw.steps(&(0..1), 0..u64::from(STEPS))?;
    say("done");
    Ok(())
}

/// From the start of the process to the end of its first session.
pub(crate) fn start(bench: &Bench, _runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..(9 / bench.scale).max(3) {
        for (what, times) in [("first-raw", &mut limit), ("first", &mut ours)] {
            let folder = bench.scratch()?;
            let watch = Stopwatch::start();
            let (mut child, mut output) = spawn(what, folder.path())?;
            line(&mut output)?;
            times.push(ms(watch.elapsed()));
            child.wait()?;
        }
    }
    let (value, limit) = (median(ours), median(limit));
    Ok(vec![Measure {
        name: "process start to first 20-step session done".to_string(),
        value,
        unit: "ms",
        limit: Some(limit),
        ratio: Some(value / limit),
        goal: Goal::RatioAtMost(60.0 / 17.0),
    }])
}
