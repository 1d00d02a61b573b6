//! Sessions that are put into the store without an engine.

use stepwell_core::event::{Actor, Event, MessageReceived, Usage};
use stepwell_core::summary::SessionRow;
use stepwell_core::{Seq, SessionId, Text, TimestampMs};
use stepwell_ports::memory::MemoryStore;
use stepwell_ports::store::Created;
use stepwell_ports::{Append, NewSession, Store};

/// Events of the long session: far more bytes than sockets take.
pub(crate) const MANY: u64 = 100_000;

/// A session of `MANY` messages, owned by nobody who lives.
pub(crate) async fn long_session(store: &MemoryStore, id: [u8; 16]) -> SessionId {
    messages(store, id, MANY).await
}

/// A session of `count` messages, owned by nobody who lives.
pub(crate) async fn messages(store: &MemoryStore, id: [u8; 16], count: u64) -> SessionId {
    let session_id = SessionId::from_random(id);
    let row = |head: u64| SessionRow {
        parent: None,
        session_id,
        status: stepwell_core::Status::WaitingInput,
        title: "long".into(),
        agent: "a".into(),
        agent_version: 1,
        labels: vec![],
        head_seq: Seq(head),
        step: 1,
        usage: Usage::default(),
        created_at: TimestampMs(1),
        updated_at: TimestampMs(1),
        explain: "waits".into(),
    };
    let message = |seq: u64| Event {
        seq: Seq(seq),
        time: TimestampMs(1),
        cause: Seq(seq),
        actor: Actor::Person("ann".into()),
        body: MessageReceived {
            content: Text::from("x".repeat(100)),
            answers: None,
            client_key: None,
        }
        .into(),
    };
    let part = |from: u64, to: u64| Append {
        expected: Seq(from - 1),
        events: (from..=to).map(message).collect(),
        row: row(to),
        wake_at: None,
        approvals: vec![],
        blobs: vec![],
    };
    let new = NewSession {
        beginning: None,
        session_id,
        client_key: None,
        request_digest: String::new(),
        owner: "nobody".into(),
        append: part(1, 1),
    };
    let Created::New(claim) = store.create(new).await.unwrap() else { panic!("it exists") };
    let mut from = 2;
    while from <= count {
        let to = (from + 3_999).min(count);
        store.append(claim, part(from, to)).await.unwrap();
        from = to + 1;
    }
    session_id
}
