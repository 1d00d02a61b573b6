//! What is read from the store for a tree, and what is kept.

use stepwell_core::event::{
    Actor, Event, FinishReason, ModelReplied, ModelRequested, ToolCall, ToolFinished, ToolOutcome,
    ToolScheduled, Usage,
};
use stepwell_core::summary::SessionRow;
use stepwell_core::{CallId, Status, Text, TimestampMs};
use stepwell_ports::memory::{FaultTime, FaultyStore, MemoryStore};
use stepwell_ports::store::{Claim, Created};
use stepwell_ports::{Append, NewSession};

use super::*;

type TestStore = FaultyStore<MemoryStore>;

/// Events of one step.
const STEP_EVENTS: u64 = 4;

/// The event at `seq` of a session in which every step asks for one call.
fn event(seq: u64) -> Event {
    let step = u32::try_from((seq - 1) / STEP_EVENTS).unwrap() + 1;
    let call_id = CallId { step, index: 1 };
    let body = match (seq - 1) % STEP_EVENTS {
        0 => ModelRequested {
            step,
            attempt: 1,
            prompt_digest: String::new(),
            prompt_bytes: 1,
            fallback: None,
        }
        .into(),
        1 => ModelReplied {
            step,
            attempt: 1,
            content: Text::default(),
            reasoning: Text::default(),
            tool_calls: vec![ToolCall {
                call_id,
                wire_id: "w".into(),
                name: "find".into(),
                arguments: Text::from("{\"box\":9}"),
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
            endpoint: "http://127.0.0.1:8000/v1".into(),
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
            output: Text::from("shelf A"),
            duration_ms: 1,
            late: false,
            full_output: None,
        }
        .into(),
    };
    Event { seq: Seq(seq), time: TimestampMs(seq), cause: Seq(seq), actor: Actor::Engine, body }
}

fn part(session_id: SessionId, from: u64, to: u64) -> Append {
    let row = SessionRow {
        parent: None,
        session_id,
        status: Status::Thinking,
        title: "long".into(),
        agent: "a".into(),
        agent_version: 1,
        labels: vec![],
        head_seq: Seq(to),
        step: 1,
        usage: Usage::default(),
        created_at: TimestampMs(1),
        updated_at: TimestampMs(1),
        explain: String::new(),
    };
    let events = (from..=to).map(event).collect();
    Append { expected: Seq(from - 1), events, row, wake_at: None, approvals: vec![], blobs: vec![] }
}

async fn session(store: &dyn Store, number: u8, head: u64) -> (SessionId, Claim) {
    let session_id = SessionId::from_random([number; 16]);
    let new = NewSession {
        beginning: None,
        session_id,
        client_key: None,
        request_digest: String::new(),
        owner: "nobody".into(),
        append: part(session_id, 1, 1),
    };
    let Created::New(claim) = store.create(new).await.unwrap() else { panic!("it exists") };
    let mut from = 2;
    while from <= head {
        let to = (from + 999).min(head);
        store.append(claim, part(session_id, from, to)).await.unwrap();
        from = to + 1;
    }
    (session_id, claim)
}

/// Rows and seq of a tree, and how many reads it took.
async fn look(
    cache: &SpanCache,
    store: &TestStore,
    session_id: SessionId,
    head: u64,
    at: Option<u64>,
) -> (u32, u64, u64) {
    let before = store.calls();
    let asked = Asked { session_id, head: Seq(head), at: at.map(Seq) };
    let (rows, at) = cache.look(store, asked, |index, at| (index.len(), at.0)).await.unwrap();
    (rows, at, store.calls() - before)
}

fn plain_store() -> TestStore {
    FaultyStore::new(MemoryStore::new(), 0, FaultTime::BeforeEffect)
}

/// Three spans a step, and the session.
fn rows_at(seq: u64) -> u32 {
    let in_step = [0, 2, 3, 3][usize::try_from(seq % STEP_EVENTS).unwrap()];
    u32::try_from(seq / STEP_EVENTS).unwrap() * 3 + in_step + 1
}

#[tokio::test]
async fn a_tree_is_read_once_and_then_only_what_is_new() {
    let store = plain_store();
    let (id, claim) = session(&store, 1, 10_000).await;
    let cache = SpanCache::default();
    assert_eq!(look(&cache, &store, id, 10_000, None).await, (rows_at(10_000), 10_000, 10));
    assert_eq!(look(&cache, &store, id, 10_000, None).await, (rows_at(10_000), 10_000, 0));
    assert_eq!(look(&cache, &store, id, 10_000, Some(10_000)).await.2, 0);
    store.append(claim, part(id, 10_001, 10_003)).await.unwrap();
    assert_eq!(look(&cache, &store, id, 10_003, None).await, (rows_at(10_003), 10_003, 1));
}

#[tokio::test]
async fn a_walk_forward_through_the_past_reads_each_event_once() {
    let store = plain_store();
    let (id, _) = session(&store, 1, 5_000).await;
    let cache = SpanCache::default();
    look(&cache, &store, id, 5_000, None).await;
    let mut reads = 0;
    for at in (500..5_000).step_by(500) {
        let (rows, seq, new) = look(&cache, &store, id, 5_000, Some(at)).await;
        assert_eq!((rows, seq), (rows_at(at), at));
        reads += new;
    }
    assert_eq!(reads, 9);
    // A step back reads from the start; the tree of the head stays.
    assert_eq!(look(&cache, &store, id, 5_000, Some(1_500)).await, (rows_at(1_500), 1_500, 2));
    assert_eq!(look(&cache, &store, id, 5_000, None).await.2, 0);
}

#[tokio::test]
async fn what_is_kept_is_bounded_in_number_and_bytes() {
    let store = plain_store();
    let cache = SpanCache::with_limits(2, usize::MAX);
    for number in 1..=3 {
        session(&store, number, 40).await;
        look(&cache, &store, SessionId::from_random([number; 16]), 40, None).await;
    }
    assert_eq!(cache.lock().kept.len(), 2);
    let first = SessionId::from_random([1; 16]);
    assert_eq!(look(&cache, &store, first, 40, None).await.2, 1, "the oldest went");
    assert_eq!(look(&cache, &store, SessionId::from_random([3; 16]), 40, None).await.2, 0);
    let cache = SpanCache::with_limits(2, 1);
    assert_eq!(look(&cache, &store, first, 40, None).await.0, rows_at(40));
    assert!(cache.lock().kept.is_empty(), "too large to be kept, but answered");
}

#[tokio::test]
async fn a_read_that_fails_loses_nothing_that_was_read() {
    let inner = MemoryStore::new();
    let (id, _) = session(&inner, 1, 3_000).await;
    let store = FaultyStore::new(inner, 2, FaultTime::BeforeEffect);
    let cache = SpanCache::default();
    let asked = Asked { session_id: id, head: Seq(3_000), at: None };
    assert!(cache.look(&store, asked, |_, _| ()).await.is_err());
    assert_eq!(look(&cache, &store, id, 3_000, None).await, (rows_at(3_000), 3_000, 2));
}
