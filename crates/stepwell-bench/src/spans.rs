//! The span tree of a long session: the first look, and windows of it.

use std::hint::black_box;

use anyhow::Context as _;
use stepwell_core::event::{
    FinishReason, ModelReplied, ModelRequested, ToolCall, ToolFinished, ToolOutcome, ToolScheduled,
    Usage,
};
use stepwell_core::spans::{Row, SpanIndex};
use stepwell_core::summary::SessionRow;
use stepwell_core::{Actor, CallId, Event, Seq, SessionId, Status, Text, TimestampMs, codec};
use stepwell_ports::store::Created;
use stepwell_ports::{Append, NewSession, Store};
use stepwell_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::runtime::Runtime;

use crate::Bench;
use crate::report::{Goal, Measure};
use crate::time::Stopwatch;
use crate::workload::{reply_text, result_text};

/// Events of the session.
const EVENTS: u64 = 100_000;
/// Events of a step.
const STEP_EVENTS: u64 = 4;
/// Events of one append or read.
const PART: u64 = 1_000;
/// Rows of a window.
const WINDOW: u32 = 100;
/// Windows that are taken, spread over the session.
const WINDOWS: u32 = 100;
/// Spans that are collapsed.
const COLLAPSED: u32 = 1_000;

/// `spans`.
pub(crate) fn windows(bench: &Bench, runtime: &Runtime) -> anyhow::Result<Vec<Measure>> {
    let count = EVENTS / bench.scale as u64;
    let folder = bench.scratch()?;
    let store = SqliteStore::open(folder.path(), &SqliteOptions::default())?;
    let session_id = runtime.block_on(fill(&store, count))?;
    let watch = Stopwatch::start();
    let index = runtime.block_on(first_look(&store, session_id))?;
    let look_ms = ms(&watch);
    let events: Vec<Event> = (1..=count).map(event).collect();
    let watch = Stopwatch::start();
    let again = SpanIndex::of(&events);
    let build_ms = ms(&watch);
    anyhow::ensure!(again.len() == index.len(), "the store gave another session");
    let watch = Stopwatch::start();
    let mut one_by_one = SpanIndex::default();
    for event in &events {
        one_by_one.push(event);
    }
    let push_us = ms(&watch) * 1_000.0 / count as f64;
    let spread = |step: u32| index.len() / WINDOWS * step;
    let steps: Vec<String> =
        (1..=COLLAPSED).map(|it| format!("step:{}", it * index.len() / 3 / COLLAPSED)).collect();
    let window = |collapsed: usize, depth_max: Option<u32>| -> anyhow::Result<f64> {
        let watch = Stopwatch::start();
        for step in 0..WINDOWS {
            let collapsed = steps.iter().take(collapsed).map(String::as_str);
            let view = index.view(collapsed, depth_max)?;
            let rows: Vec<Row> = view.rows(spread(step).min(view.len() - WINDOW), WINDOW);
            anyhow::ensure!(black_box(rows).len() == WINDOW as usize, "a window is short");
        }
        Ok(ms(&watch) * 1_000.0 / f64::from(WINDOWS))
    };
    let named = |name: String, value: f64, unit: &'static str, goal: Goal| Measure {
        name,
        value,
        unit,
        limit: None,
        ratio: None,
        goal,
    };
    let rows = index.len();
    Ok(vec![
        named(
            format!("first look at {count} events, {rows} spans"),
            look_ms,
            "ms",
            Goal::ValueAtMost(300.0),
        ),
        named("of that making the index".into(), build_ms, "ms", Goal::None),
        named("an event more".into(), push_us, "us", Goal::None),
        named(format!("a window of {WINDOW} spans"), window(0, None)?, "us", Goal::None),
        named("the same, steps only".into(), window(0, Some(1))?, "us", Goal::None),
        named(
            format!("the same, {COLLAPSED} collapsed"),
            window(COLLAPSED as usize, None)?,
            "us",
            Goal::None,
        ),
        named("memory of the index".into(), index.bytes() as f64 / 1e6, "MB", Goal::None),
    ])
}

fn ms(watch: &Stopwatch) -> f64 {
    watch.elapsed().as_secs_f64() * 1_000.0
}

/// What the server does when somebody looks for the first time.
async fn first_look(store: &SqliteStore, session_id: SessionId) -> anyhow::Result<SpanIndex> {
    let mut index = SpanIndex::default();
    index.expect_many();
    loop {
        let page = store.read(session_id, index.head(), PART as usize).await?;
        if page.events.is_empty() {
            index.settle();
            return Ok(index);
        }
        for stored in page.events {
            index.push(&Event {
                seq: stored.seq,
                time: stored.time,
                cause: stored.cause,
                actor: stored.actor.parse()?,
                body: codec::decode(&stored.kind, stored.schema, &stored.body)?,
            });
        }
    }
}

/// A session whose every step asks for one call.
async fn fill(store: &SqliteStore, count: u64) -> anyhow::Result<SessionId> {
    let session_id = SessionId::from_random([7; 16]);
    let new = NewSession {
        beginning: None,
        session_id,
        client_key: None,
        request_digest: String::new(),
        owner: "bench".into(),
        append: part(session_id, 1, 1),
    };
    let Created::New(claim) = store.create(new).await? else {
        anyhow::bail!("the scratch store has a session")
    };
    let mut from = 2;
    while from <= count {
        let to = (from + PART - 1).min(count);
        store.append(claim, part(session_id, from, to)).await.context("an append")?;
        from = to + 1;
    }
    Ok(session_id)
}

fn part(session_id: SessionId, from: u64, to: u64) -> Append {
    let row = SessionRow {
        parent: None,
        session_id,
        status: Status::Thinking,
        title: "long".into(),
        agent: "bench".into(),
        agent_version: 1,
        labels: Vec::new(),
        head_seq: Seq(to),
        step: 1,
        usage: Usage::default(),
        created_at: TimestampMs(1),
        updated_at: TimestampMs(to),
        explain: String::new(),
    };
    let events = (from..=to).map(event).collect();
    Append {
        expected: Seq(from - 1),
        events,
        row,
        wake_at: None,
        approvals: Vec::new(),
        blobs: Vec::new(),
    }
}

fn event(seq: u64) -> Event {
    let step = ((seq - 1) / STEP_EVENTS) as u32 + 1;
    let call_id = CallId { step, index: 1 };
    let body = match (seq - 1) % STEP_EVENTS {
        0 => ModelRequested {
            step,
            attempt: 1,
            prompt_digest: "0".repeat(64),
            prompt_bytes: 1,
            fallback: None,
        }
        .into(),
        1 => ModelReplied {
            step,
            attempt: 1,
            content: Text::from(reply_text()),
            reasoning: Text::default(),
            tool_calls: vec![ToolCall {
                call_id,
                wire_id: "call".into(),
                name: "look_up".into(),
                arguments: Text::from("{\"item\":9}"),
                repaired: None,
                problem: None,
            }],
            answer_problem: None,
            finish_reason: FinishReason::ToolCalls,
            finish_word: None,
            usage: Usage {
                prompt_tokens: 900,
                cached_tokens: 800,
                completion_tokens: 30,
                ..Usage::default()
            },
            endpoint: "http://127.0.0.1:1/v1".into(),
            first_token_ms: 1,
            duration_ms: 2,
            tokens: None,
        }
        .into(),
        2 => ToolScheduled { call_id, attempt: 1, approval_id: None }.into(),
        _ => ToolFinished {
            call_id,
            attempt: 1,
            outcome: ToolOutcome::Ok,
            output: Text::from(result_text()),
            full_output: None,
            duration_ms: 1,
            late: false,
        }
        .into(),
    };
    Event { seq: Seq(seq), time: TimestampMs(seq), cause: Seq(seq), actor: Actor::Engine, body }
}
