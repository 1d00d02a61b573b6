//! Measures inside one process: the runtime as a library with stub ports.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use stepwell_core::{Effect, SessionState, apply};
use stepwell_ports::{ModelAnswer, ModelFailure, ModelPort, ModelRequest, ModelSink, Store as _};
use stepwell_store_sqlite::SqliteStore;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use crate::raw::Raw;
use crate::report::{Goal, Measure};
use crate::time::{Stopwatch, median, ms};
use crate::workload::{StubModel, StubTools, agent};
use crate::world::World;

/// Steps of a session of the workload.
pub(crate) const STEPS: u32 = 20;

/// One session after the other.
pub(crate) fn one_at_a_time(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let folder = bench.scratch()?;
    let mut raw = Raw::open(folder.path())?;
    let rounds = (20 / bench.scale).max(3);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let world = start(folder.path(), STEPS)?;
        let agent = agent(Effect::Read, STEPS);
        world.run_one(&agent, STEPS).await?;
        for round in 0..rounds as u64 {
            let elapsed = raw.steps(&(round..round + 1), 0..u64::from(STEPS))?;
            limit.push(ms(elapsed) / f64::from(STEPS));
            let watch = Stopwatch::start();
            // In a task, as a watcher in the server is: the main thread would have to be woken at
            // every commit.
            world.run_many((&agent, STEPS), 1, 1).await?;
            ours.push(ms(watch.elapsed()) / f64::from(STEPS));
        }
        world.stop().await;
        anyhow::Ok(())
    })?;
    let (value, limit) = (median(ours), median(limit));
    Ok(vec![Measure {
        name: "one session at a time, time per step".to_string(),
        value,
        unit: "ms",
        limit: Some(limit),
        ratio: Some(value / limit),
        goal: Goal::RatioAtMost(1.5),
    }])
}

/// 64 sessions side by side.
pub(crate) fn many_at_once(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    const AT_ONCE: u64 = 64;
    let folder = bench.scratch()?;
    let mut raw = Raw::open(folder.path())?;
    let rounds = (16 / bench.scale).max(3) as u64;
    // Turn by turn, because a disk is not as fast at every moment.
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let world = start(folder.path(), STEPS)?;
        let agent = agent(Effect::Read, STEPS);
        world.run_many((&agent, STEPS), AT_ONCE as usize, AT_ONCE as usize).await?;
        for round in 0..rounds {
            let range = round * AT_ONCE..(round + 1) * AT_ONCE;
            let seconds = raw.steps(&range, 0..u64::from(STEPS))?.as_secs_f64();
            limit.push((AT_ONCE * u64::from(STEPS)) as f64 / seconds);
            let sessions = 2 * AT_ONCE as usize;
            let watch = Stopwatch::start();
            world.run_many((&agent, STEPS), sessions, AT_ONCE as usize).await?;
            let seconds = watch.elapsed().as_secs_f64();
            ours.push((sessions * STEPS as usize) as f64 / seconds);
        }
        world.stop().await;
        anyhow::Ok(())
    })?;
    let (value, limit) = (median(ours), median(limit));
    Ok(vec![Measure {
        name: "64 sessions at a time, steps per second".to_string(),
        value,
        unit: "steps/s",
        limit: Some(limit),
        ratio: Some(value / limit),
        goal: Goal::RatioAtLeast(0.5),
    }])
}

/// Notes when each step asked.
struct TimedModel {
    inner: StubModel,
    watch: Stopwatch,
    asked: Mutex<Vec<f64>>,
}

#[async_trait]
impl ModelPort for TimedModel {
    async fn ask(
        &self,
        request: ModelRequest,
        sink: Arc<dyn ModelSink>,
        cancel: CancellationToken,
    ) -> Result<ModelAnswer, ModelFailure> {
        let now = ms(self.watch.elapsed());
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(now);
        self.inner.ask(request, sink, cancel).await
    }
}

/// Step 500 against step 10 of the same session.
pub(crate) fn growth(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    const LONG: u32 = 520;
    let folder = bench.scratch()?;
    let sessions = (5 / bench.scale).max(2);
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for session in 0..sessions {
        let inner = StubModel { steps: LONG };
        let asked = Mutex::default();
        let model = Arc::new(TimedModel { inner, watch: Stopwatch::start(), asked });
        let store = folder.path().join(session.to_string());
        runtime.block_on(async {
            let world = World::start(&store, model.clone(), Arc::default())?;
            world.run_one(&agent(Effect::Read, LONG), LONG).await?;
            world.stop().await;
            anyhow::Ok(())
        })?;
        let asked = model.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let took: Vec<f64> =
            asked.windows(2).filter_map(|it| Some(it.get(1)? - it.first()?)).collect();
        early.extend(took.iter().skip(4).take(16));
        late.extend(took.iter().skip(500).take(16));
    }
    let (value, limit) = (median(late), median(early));
    Ok(vec![Measure {
        name: "step 500 against step 10 of one session".to_string(),
        value,
        unit: "ms",
        limit: Some(limit),
        ratio: Some(value / limit),
        goal: Goal::RatioAtMost(1.1),
    }])
}

/// A store with 100,000 finished sessions against an empty one.
pub(crate) fn full_store(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let finished = 100_000 / bench.scale;
    let (full_folder, empty_folder) = (bench.scratch()?, bench.scratch()?);
    runtime.block_on(async {
        let filling = start(full_folder.path(), 0)?;
        filling.run_many((&agent(Effect::Read, 0), 0), finished, 512).await?;
        filling.stop().await;
        let (full, empty) = (start(full_folder.path(), STEPS)?, start(empty_folder.path(), STEPS)?);
        let agent = agent(Effect::Read, STEPS);
        let (mut in_full, mut in_empty) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            for (world, times) in [(&full, &mut in_full), (&empty, &mut in_empty)] {
                let watch = Stopwatch::start();
                world.run_one(&agent, STEPS).await?;
                times.push(ms(watch.elapsed()) / f64::from(STEPS));
            }
        }
        let watch = Stopwatch::start();
        let page = full
            .engine
            .store()
            .sessions(&stepwell_ports::SessionFilter::default(), None, 100)
            .await?;
        let page_ms = ms(watch.elapsed());
        anyhow::ensure!(page.rows.len() == 100.min(finished), "the page is short");
        full.stop().await;
        empty.stop().await;
        let (value, limit) = (median(in_full), median(in_empty));
        Ok(vec![
            Measure {
                name: format!("time per step with {finished} finished sessions"),
                value,
                unit: "ms",
                limit: Some(limit),
                ratio: Some(value / limit),
                goal: Goal::RatioAtMost(1.2),
            },
            Measure {
                name: format!("first page of {finished} sessions"),
                value: page_ms,
                unit: "ms",
                limit: None,
                ratio: None,
                goal: Goal::ValueAtMost(50.0),
            },
        ])
    })
}

/// Bytes on the disk for each step.
pub(crate) fn disk(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for (steps, sessions) in [(20_u32, 200 / bench.scale), (520, (8 / bench.scale).max(2))] {
        let folder = bench.scratch()?;
        runtime.block_on(async {
            let world = start(folder.path(), steps)?;
            world.run_many((&agent(Effect::Read, steps), steps), sessions, 8).await?;
            world.stop().await;
            anyhow::Ok(())
        })?;
        let value = folder_bytes(folder.path())? / 1_000.0 / (f64::from(steps) * sessions as f64);
        let raw_folder = bench.scratch()?;
        let mut raw = Raw::open(raw_folder.path())?;
        raw.steps(&(0..sessions as u64), 0..u64::from(steps))?;
        drop(raw);
        let limit =
            folder_bytes(raw_folder.path())? / 1_000.0 / (f64::from(steps) * sessions as f64);
        measures.push(Measure {
            name: format!("bytes on disk per step, sessions of {steps} steps"),
            value,
            unit: "KB",
            limit: Some(limit),
            ratio: Some(value / limit),
            goal: Goal::ValueAtMost(4.5),
        });
    }
    Ok(measures)
}

fn folder_bytes(folder: &Path) -> anyhow::Result<f64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64)
}

/// Folding a recorded session of about 10,000 events, from the store and in memory.
pub(crate) fn fold(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let steps = (2_500 / bench.scale) as u32;
    let folder = bench.scratch()?;
    let events = runtime.block_on(async {
        let world = start(folder.path(), steps)?;
        let agent = agent(Effect::Read, steps);
        let session_id = world.create(&agent).await?;
        world.finished(session_id, steps).await?;
        world.stop().await;
        let store =
            SqliteStore::open(folder.path(), &stepwell_store_sqlite::SqliteOptions::default())?;
        let mut events = Vec::new();
        let mut after = stepwell_core::Seq(0);
        loop {
            let page = store.read(session_id, after, 1_000).await?;
            let Some(last) = page.events.last() else { return anyhow::Ok(events) };
            after = last.seq;
            events.extend(page.events);
        }
    })?;
    let count = events.len();
    let mut rates = Vec::new();
    for _ in 0..5 {
        let watch = Stopwatch::start();
        let mut state = SessionState::default();
        for stored in &events {
            let body = stepwell_core::codec::decode(&stored.kind, stored.schema, &stored.body)?;
            let actor = stored.actor.parse()?;
            let (seq, time, cause) = (stored.seq, stored.time, stored.cause);
            apply(&mut state, &stepwell_core::Event { seq, time, cause, actor, body })?;
        }
        rates.push(count as f64 / watch.elapsed().as_secs_f64());
    }
    let value = median(rates);
    Ok(vec![Measure {
        name: format!("decoding and folding a session of {count} events"),
        value,
        unit: "events/s",
        limit: None,
        ratio: None,
        goal: Goal::ValueAtLeast(200_000.0),
    }])
}

/// A world with stubs.
pub(crate) fn start(folder: &Path, steps: u32) -> anyhow::Result<World> {
    World::start(folder, Arc::new(StubModel { steps }), Arc::new(StubTools::default()))
}
