//! Rules of sessions that are brought in from elsewhere.

use stepwell_core::codec::{self, EVENT_SCHEMA};
use stepwell_core::state::ForkedFrom;
use stepwell_core::{Fence, Seq, SessionId, TimestampMs};

use super::fixtures::{
    Shared, append, approval, created, event, id, message, new_session, read_all, row, whole,
};
use crate::import::{Checkpoint, Import, ImportPage, Imported, Redaction};
use crate::retention::{DeleteOnly, Deleted};
use crate::store::{AppendError, ApprovalFilter, Claim, Created, SessionFilter, StoredEvent};

/// Events `after + 1` to `head` of a history from elsewhere; every tenth has a large text.
fn page(after: u64, head: u64) -> ImportPage {
    let mut page = ImportPage { after: Seq(after), ..ImportPage::default() };
    for seq in after + 1..=head {
        let text = if seq % 10 == 0 { "many words ".repeat(2_000) } else { format!("event {seq}") };
        let event = event(seq, message(&text));
        let mut body = event.body;
        codec::detach(&mut body, &mut |address, payload| {
            page.blobs.push((address.to_owned(), payload.as_bytes().to_vec()));
        });
        if seq % 20 == 0 {
            let state = format!("outline {seq}").into_bytes();
            page.checkpoints.push(Checkpoint { seq: event.seq, version: 1, state });
        }
        page.events.push(StoredEvent {
            seq: event.seq,
            time: event.time,
            cause: event.cause,
            actor: event.actor.to_string(),
            kind: body.kind().as_str().to_owned(),
            schema: EVENT_SCHEMA,
            // Not what this release would write: bytes from elsewhere stay as they are.
            body: format!(" {}", codec::encode(&body).expect("an event can be encoded")),
        });
    }
    page
}

fn imported(session_id: SessionId, head: u64) -> Imported {
    Imported {
        row: row(session_id, head),
        wake_at: None,
        approvals: vec![approval(session_id, 3, 1_003)],
        redaction: None,
    }
}

async fn begin(store: &Shared, session_id: SessionId) -> Import {
    store.import_begin(session_id).await.expect("an import can begin")
}

async fn bring(store: &Shared, import: Import, after: u64, head: u64) {
    let got = store.import_events(import, page(after, head)).await.expect("a page is taken");
    assert_eq!(got, Seq(head));
}

/// Nobody sees a half of it, and it comes as it was.
pub async fn a_session_that_is_brought_in_is_seen_at_its_end(store: Shared) {
    let import = begin(&store, id(1)).await;
    bring(&store, import, 0, 25).await;
    bring(&store, import, 25, 25).await;
    bring(&store, import, 25, 40).await;
    assert_eq!(store.session(id(1)).await.expect("readable"), None);
    assert!(read_all(&store, id(1)).await.is_empty());
    let all = store.sessions(&SessionFilter::default(), None, 10).await.expect("readable");
    assert!(all.rows.is_empty());

    store.import_finish(import, imported(id(1), 40)).await.expect("it ends");
    let events = read_all(&store, id(1)).await;
    assert_eq!(events, page(0, 40).events);
    let large = events.get(9).expect("the tenth event");
    assert_eq!(whole(&store, large).await, message(&"many words ".repeat(2_000)).into());
    let info = store.session(id(1)).await.expect("readable").expect("it is there");
    assert_eq!((info.row, info.wake_at), (row(id(1), 40), None));
    let approvals = store.approvals(&ApprovalFilter::default(), None, 10).await.expect("readable");
    assert_eq!(approvals.rows, [approval(id(1), 3, 1_003)]);
    // A cache: a store may have none, but no other.
    if let Some(outline) = store.checkpoint(id(1), Seq(39), 1).await.expect("readable") {
        assert_eq!(outline, (Seq(20), b"outline 20".to_vec()));
    }
    let again = store.import_finish(import, imported(id(1), 40)).await;
    assert!(matches!(again, Err(AppendError::NotFound { .. })), "{again:?}");
}

/// It is a session as any other.
pub async fn what_was_brought_in_is_owned_by_nobody_and_goes_on(store: Shared) {
    let import = begin(&store, id(1)).await;
    bring(&store, import, 0, 2).await;
    let mut end = imported(id(1), 2);
    end.wake_at = Some(TimestampMs(5));
    store.import_finish(import, end).await.expect("it ends");
    let info = store.session(id(1)).await.expect("readable").expect("it is there");
    assert_eq!((info.owner.as_str(), info.fence), ("", Fence(1)));
    let live = ["node-b".to_owned()];
    let claims = store.claim_due("node-b", &live, TimestampMs(9), 10).await.expect("claims");
    assert_eq!(claims, [Claim { session_id: id(1), fence: Fence(2) }]);
    store.append(claims[0], append(id(1), 2, "more")).await.expect("it goes on");
    assert_eq!(read_all(&store, id(1)).await.len(), 3);
}

/// Nothing in its events says that they lost something, so the store keeps it: for the session, for
/// its forks, and for no other.
pub async fn what_was_taken_out_of_a_session_stays_known(store: Shared) {
    let import = begin(&store, id(1)).await;
    bring(&store, import, 0, 5).await;
    let redaction = Redaction { last: Seq(4), original_head: Some("0f".repeat(32)) };
    let end = Imported { redaction: Some(redaction.clone()), ..imported(id(1), 5) };
    store.import_finish(import, end).await.expect("it ends");
    let claim = store.claim(id(1), "node-b").await.expect("it is claimed");
    store.append(claim, append(id(1), 5, "more")).await.expect("it goes on");
    for (n, of, seq) in [(2, 1, 6), (3, 1, 2), (4, 3, 3)] {
        let mut new = new_session(id(n));
        new.beginning = Some(ForkedFrom { session_id: id(of), seq: Seq(seq) });
        new.append = append(id(n), seq, "mine");
        new.append.row.parent = new.beginning;
        let made = store.create(new).await.expect("it is forked");
        assert!(matches!(made, Created::New(_)), "{made:?}");
    }
    created(&store, 5).await;
    let forked = |last| Some(Redaction { last: Seq(last), original_head: None });
    for (n, expected) in
        [(1, Some(redaction)), (2, forked(4)), (3, forked(2)), (4, forked(2)), (5, None)]
    {
        let info = store.session(id(n)).await.expect("readable").expect("it is there");
        assert_eq!(info.redaction, expected, "session {n}");
    }
    for n in 1..=5 {
        let deleted = store.delete(id(n), &DeleteOnly::default()).await.expect("it is deleted");
        assert_eq!(deleted, Deleted::Yes);
    }
}

/// As if it had never begun, and it may begin again.
pub async fn an_import_that_is_dropped_leaves_nothing(store: Shared) {
    let import = begin(&store, id(1)).await;
    bring(&store, import, 0, 2_500).await;
    store.import_drop(import).await.expect("it is dropped");
    store.import_drop(import).await.expect("twice is once");
    let late = store.import_events(import, page(2_500, 2_501)).await;
    assert!(matches!(late, Err(AppendError::NotFound { .. })), "{late:?}");
    let late = store.import_finish(import, imported(id(1), 2_500)).await;
    assert!(matches!(late, Err(AppendError::NotFound { .. })), "{late:?}");

    let import = begin(&store, id(1)).await;
    bring(&store, import, 0, 3).await;
    store.import_finish(import, imported(id(1), 3)).await.expect("it ends");
    store.import_drop(import).await.expect("what is over is left alone");
    assert_eq!(read_all(&store, id(1)).await, page(0, 3).events);
}

/// What is not whole does not become visible.
pub async fn an_import_refuses_gaps_and_what_is_no_session(store: Shared) {
    let import = begin(&store, id(1)).await;
    let empty = store.import_finish(import, imported(id(1), 0)).await;
    assert!(matches!(empty, Err(AppendError::Conflict { .. })), "{empty:?}");
    bring(&store, import, 0, 3).await;
    for after in [0, 2, 4] {
        let gap = store.import_events(import, page(after, after + 1)).await;
        assert!(matches!(gap, Err(AppendError::Conflict { .. })), "{gap:?}");
    }
    let mut torn = page(3, 6);
    torn.events.remove(1);
    let torn = store.import_events(import, torn).await;
    assert!(matches!(torn, Err(AppendError::Malformed { .. })), "{torn:?}");
    let mut wrong = page(9, 10);
    wrong.after = Seq(3);
    wrong.events.clear();
    wrong.blobs[0].1.push(b'!');
    let wrong = store.import_events(import, wrong).await;
    assert!(matches!(wrong, Err(AppendError::Malformed { .. })), "{wrong:?}");
    let other_head = store.import_finish(import, imported(id(1), 4)).await;
    assert!(matches!(other_head, Err(AppendError::Conflict { .. })), "{other_head:?}");
    let other_row = store.import_finish(import, imported(id(2), 3)).await;
    assert!(matches!(other_row, Err(AppendError::Malformed { .. })), "{other_row:?}");
    assert_eq!(store.session(id(1)).await.expect("readable"), None);
}

/// What is there is never touched, whoever came first.
pub async fn a_session_that_exists_is_not_brought_in(store: Shared) {
    created(&store, 1).await;
    let begun = store.import_begin(id(1)).await;
    assert!(matches!(begun, Err(AppendError::Conflict { .. })), "{begun:?}");

    let import = begin(&store, id(2)).await;
    bring(&store, import, 0, 3).await;
    created(&store, 2).await;
    let finished = store.import_finish(import, imported(id(2), 3)).await;
    assert!(matches!(finished, Err(AppendError::Conflict { .. })), "{finished:?}");
    assert_eq!(read_all(&store, id(2)).await.len(), 1);
    store.import_drop(import).await.expect("it is dropped");
    assert_eq!(read_all(&store, id(2)).await.len(), 1);
}

/// Neither hurts the other.
pub async fn sessions_are_created_while_one_is_brought_in(store: Shared) {
    let first = begin(&store, id(1)).await;
    let second = begin(&store, id(2)).await;
    assert_ne!(first.key, second.key);
    for n in 3..6 {
        created(&store, n).await;
        bring(&store, first, n - 3, n - 2).await;
        bring(&store, second, n - 3, n - 2).await;
    }
    store.import_drop(second).await.expect("it is dropped");
    let created = store.create(new_session(id(6))).await.expect("it is created");
    assert!(matches!(created, Created::New(_)));
    store.import_finish(first, imported(id(1), 3)).await.expect("it ends");
    assert_eq!(read_all(&store, id(1)).await, page(0, 3).events);
    for n in 3..=6 {
        assert_eq!(read_all(&store, id(n)).await.len(), 1, "session {n}");
    }
    let page = store.sessions(&SessionFilter::default(), None, 10).await.expect("readable");
    assert_eq!(page.rows.len(), 5);
}
