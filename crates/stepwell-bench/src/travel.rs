//! Time travel in a long session: a state in its middle, replay, export and import.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use anyhow::Context as _;
use stepwell_archive::{Form, Header, Limits, Reader, Writer};
use stepwell_core::replay::Replay;
use stepwell_core::{Effect, Event, Seq, SessionId, SessionState, TimestampMs, apply, codec};
use stepwell_ports::{Import, ImportPage, Store as _, StoredEvent};
use stepwell_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::runtime::Runtime;

use crate::Bench;
use crate::inproc::start;
use crate::memory::resident_mb;
use crate::report::{Goal, Measure};
use crate::time::{Stopwatch, median, ms};
use crate::workload::agent;

/// Events of the session, about.
const EVENTS: usize = 100_000;
/// Events of a step.
const STEP_EVENTS: usize = 4;
/// Events of one read or write.
const PART: usize = 500;

/// `travel`.
pub(crate) fn travel(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let steps = (EVENTS / STEP_EVENTS / bench.scale) as u32;
    let folder = bench.scratch()?;
    runtime.block_on(async {
        let world = start(folder.path(), steps)?;
        let session_id = world.create(&agent(Effect::Read, steps)).await?;
        world.finished(session_id, steps).await?;
        world.stop().await;
        let mut measures = vec![middle(folder.path(), session_id).await?];
        let store = open(folder.path())?;
        measures.push(replayed(&store, session_id).await?);
        let file = folder.path().join("session.stepwell");
        measures.extend(exported(&store, session_id, &file).await?);
        let elsewhere = bench.scratch()?;
        measures.extend(imported(&open(elsewhere.path())?, session_id, &file).await?);
        Ok(measures)
    })
}

fn open(folder: &Path) -> anyhow::Result<SqliteStore> {
    Ok(SqliteStore::open(folder, &SqliteOptions::default())?)
}

fn value(name: String, value: f64, unit: &'static str, goal: Goal) -> Measure {
    Measure { name, value, unit, limit: None, ratio: None, goal }
}

/// In a process that has seen nothing of the session yet.
async fn middle(folder: &Path, session_id: SessionId) -> anyhow::Result<Measure> {
    let world = start(folder, 0)?;
    let info = world.engine.store().session(session_id).await?.context("the session is gone")?;
    let head = info.row.head_seq.0;
    let watch = Stopwatch::start();
    let state = world.engine.outline_at(session_id, Seq(head / 2)).await?;
    let took = ms(watch.elapsed());
    anyhow::ensure!(state.head.0 == head / 2, "another moment");
    world.stop().await;
    Ok(value(
        format!("the state after event {} of {head}", head / 2),
        took,
        "ms",
        Goal::ValueAtMost(50.0),
    ))
}

async fn events(store: &SqliteStore, session_id: SessionId) -> anyhow::Result<Vec<StoredEvent>> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let after = events.last().map_or(Seq(0), |event| event.seq);
        let page = store.read(session_id, after, PART).await?;
        if page.events.is_empty() {
            return Ok(events);
        }
        events.extend(page.events);
    }
}

fn decoded(stored: &StoredEvent) -> anyhow::Result<Event> {
    let body = codec::decode(&stored.kind, stored.schema, &stored.body)?;
    let actor = stored.actor.parse()?;
    Ok(Event { seq: stored.seq, time: stored.time, cause: stored.cause, actor, body })
}

/// Decoding and deciding everything again.
async fn replayed(store: &SqliteStore, session_id: SessionId) -> anyhow::Result<Measure> {
    let stored = events(store, session_id).await?;
    let count = stored.len();
    let mut rates = Vec::new();
    for _ in 0..3 {
        let watch = Stopwatch::start();
        let mut replay = Replay::default();
        for event in &stored {
            let pushed = replay.push(decoded(event)?);
            pushed.map_err(|divergence| anyhow::anyhow!(divergence.in_words()))?;
        }
        rates.push(count as f64 / watch.elapsed().as_secs_f64());
        let ended = replay.end();
        ended.map_err(|divergence| anyhow::anyhow!(divergence.in_words()))?;
    }
    let per_second = median(rates);
    let name = format!("replay of {count} events");
    Ok(value(name, per_second, "events/s", Goal::ValueAtLeast(200_000.0)))
}

/// How much memory was taken at the most since the beginning.
struct Peak {
    before: f64,
    most: f64,
}

impl Peak {
    fn begin() -> anyhow::Result<Self> {
        let before = resident_mb()?;
        Ok(Self { before, most: before })
    }

    fn look(&mut self) -> anyhow::Result<()> {
        self.most = self.most.max(resident_mb()?);
        Ok(())
    }

    fn measure(&self, name: &str) -> Measure {
        let grown = self.most - self.before;
        value(format!("{name}, memory at the most"), grown, "MB", Goal::ValueAtMost(100.0))
    }
}

async fn exported(
    store: &SqliteStore,
    session_id: SessionId,
    file: &Path,
) -> anyhow::Result<[Measure; 2]> {
    let (watch, mut peak) = (Stopwatch::start(), Peak::begin()?);
    let header = Header::new(session_id, "bench", 0);
    let mut writer = Writer::new(BufWriter::new(File::create(file)?), Form::Packed, &header)?;
    let (mut after, mut count) = (Seq(0), 0);
    loop {
        let page = store.read(session_id, after, PART).await?;
        let Some(last) = page.events.last() else { break };
        after = last.seq;
        count += page.events.len();
        for event in &page.events {
            writer.event(event, &[], &[])?;
        }
        peak.look()?;
    }
    writer.finish(None)?;
    let per_second = count as f64 / watch.elapsed().as_secs_f64();
    let name = format!("export of {count} events");
    Ok([value(name, per_second, "events/s", Goal::None), peak.measure("export")])
}

async fn imported(
    store: &SqliteStore,
    session_id: SessionId,
    file: &Path,
) -> anyhow::Result<[Measure; 2]> {
    let (watch, mut peak) = (Stopwatch::start(), Peak::begin()?);
    let mut reader = Reader::open(BufReader::new(File::open(file)?), Limits::default())?;
    let import = store.import_begin(session_id).await?;
    let (mut state, mut page) = (SessionState::default(), ImportPage::default());
    while let Some(item) = reader.next_item()? {
        apply(&mut state, &item.event)?;
        if !state.prompt.is_outline() {
            state.prompt = state.prompt.outline();
        }
        page.events.push(item.stored);
        if page.events.len() >= PART {
            send(store, import, &mut page).await?;
            peak.look()?;
        }
    }
    send(store, import, &mut page).await?;
    let per_second = state.head.0 as f64 / watch.elapsed().as_secs_f64();
    store.beat("bench", TimestampMs(0)).await?;
    let name = format!("import of {} events", state.head);
    Ok([value(name, per_second, "events/s", Goal::None), peak.measure("import")])
}

async fn send(store: &SqliteStore, import: Import, page: &mut ImportPage) -> anyhow::Result<()> {
    let page = std::mem::take(page);
    if !page.events.is_empty() {
        let after = Seq(page.events.first().map_or(0, |event| event.seq.0 - 1));
        store.import_events(import, ImportPage { after, ..page }).await?;
    }
    Ok(())
}
