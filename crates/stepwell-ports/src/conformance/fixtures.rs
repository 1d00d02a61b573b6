//! Sessions, events and rows for tests of stores, and a seeded source of choices.

use std::sync::Arc;

use stepwell_core::codec;
use stepwell_core::event::{Actor, Event, EventBody, Label, MessageReceived, Question, Usage};
use stepwell_core::summary::{ApprovalRow, ApprovalStatus, SessionRow};
use stepwell_core::{ApprovalId, CallId, Seq, SessionId, Status, Text, TimestampMs};

use crate::store::{Append, Claim, Created, NewSession, Store, StoredEvent};

/// A store under test.
pub type Shared = Arc<dyn Store>;

/// The owner in tests that need only one.
pub const OWNER: &str = "node-a";

/// Seeded choices: the same seed gives the same test (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// Choices of that seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// True once in so many draws.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// The `n`-th test session.
pub fn id(n: u64) -> SessionId {
    let mut draw = Draw::new(n);
    let high = u128::from(draw.number()) << 64;
    SessionId::from_random((high | u128::from(draw.number())).to_be_bytes())
}

/// An event of that place with that content.
pub fn event(seq: u64, body: impl Into<EventBody>) -> Event {
    Event {
        seq: Seq(seq),
        time: TimestampMs(1_000 + seq),
        cause: Seq(seq),
        actor: Actor::Person("ada".into()),
        body: body.into(),
    }
}

/// A message with that text.
pub fn message(text: &str) -> MessageReceived {
    MessageReceived { content: Text::from(text), answers: None, client_key: None }
}

/// A list row.
pub fn row(session_id: SessionId, head: u64) -> SessionRow {
    SessionRow {
        parent: None,
        session_id,
        status: Status::Thinking,
        title: "move box 9".into(),
        agent: "mover".into(),
        agent_version: 3,
        labels: Vec::new(),
        head_seq: Seq(head),
        step: 2,
        usage: Usage {
            prompt_tokens: 5,
            cached_tokens: 4,
            completion_tokens: 3,
            ..Usage::default()
        },
        created_at: TimestampMs(1_001),
        updated_at: TimestampMs(1_000 + head),
        explain: "waits for the model".into(),
    }
}

/// A label.
pub fn label(key: &str, value: &str) -> Label {
    Label { key: key.into(), value: value.into() }
}

/// An append of one message after `expected`; nothing else happens.
pub fn append(session_id: SessionId, expected: u64, text: &str) -> Append {
    append_all(session_id, expected, vec![message(text).into()])
}

/// An append of these events after `expected`; nothing else happens.
pub fn append_all(session_id: SessionId, expected: u64, bodies: Vec<EventBody>) -> Append {
    let events: Vec<Event> = (expected + 1..).zip(bodies).map(|(seq, it)| event(seq, it)).collect();
    let head = expected + events.len() as u64;
    Append {
        expected: Seq(expected),
        events,
        row: row(session_id, head),
        wake_at: None,
        approvals: Vec::new(),
        blobs: Vec::new(),
    }
}

/// A session with one event, owned by [`OWNER`].
pub fn new_session(session_id: SessionId) -> NewSession {
    NewSession {
        beginning: None,
        session_id,
        client_key: None,
        request_digest: "request 1".into(),
        owner: OWNER.into(),
        append: append(session_id, 0, "first"),
    }
}

/// An open approval of a session.
pub fn approval(session_id: SessionId, approval_id: u64, requested_at: u64) -> ApprovalRow {
    ApprovalRow {
        session_id,
        approval_id: ApprovalId(approval_id),
        call_id: CallId { step: 1, index: 1 },
        question: Question::MayRun,
        tool: "shell".into(),
        arguments: r#"{"command":"make"}"#.into(),
        action_digest: "digest".into(),
        rule: "write tools ask".into(),
        requested_at: TimestampMs(requested_at),
        expires_at: None,
        status: ApprovalStatus::Open,
        decided_by: String::new(),
        decided_at: None,
        reason: String::new(),
    }
}

/// Creates a session that must be new.
pub async fn create(store: &Shared, new: NewSession) -> Claim {
    match store.create(new).await.expect("a session can be created") {
        Created::New(claim) => claim,
        other @ (Created::Existing(_) | Created::KeyTaken(_) | Created::Deleted(_)) => {
            panic!("not new: {other:?}")
        }
    }
}

/// Creates the `n`-th test session with one event.
pub async fn created(store: &Shared, n: u64) -> Claim {
    create(store, new_session(id(n))).await
}

/// All events of a session.
pub async fn read_all(store: &Shared, session_id: SessionId) -> Vec<StoredEvent> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let after = events.last().map_or(Seq(0), |it| it.seq);
        let page = store.read(session_id, after, 100).await.expect("events can be read");
        if page.events.is_empty() {
            assert_eq!(after, page.head, "pages end at the head");
            return events;
        }
        events.extend(page.events);
    }
}

/// Removes all that deleted sessions left behind.
pub async fn swept(store: &Shared) {
    while !store.sweep().await.expect("what was deleted can be removed").is_done {}
}

/// The content of a stored event with its payloads put back.
pub async fn whole(store: &Shared, stored: &StoredEvent) -> EventBody {
    let mut body = codec::decode(&stored.kind, stored.schema, &stored.body)
        .expect("a stored event can be decoded");
    let mut addresses = Vec::new();
    codec::attach(&mut body, &mut |address| {
        addresses.push(address.to_owned());
        None
    });
    let mut payloads = std::collections::BTreeMap::new();
    for address in addresses {
        let payload = store.blob(&address).await.expect("a payload can be read");
        let payload = String::from_utf8(payload.expect("a payload is there"));
        payloads.insert(address, payload.expect("a payload of an event is text"));
    }
    codec::attach(&mut body, &mut |address| payloads.get(address).cloned());
    body
}
