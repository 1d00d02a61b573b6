//! Rules of creating and appending.

use std::sync::Arc;

use stepwell_core::codec::blob_ref;
use stepwell_core::{Fence, Seq, Text, TimestampMs};
use tokio::task::JoinSet;

use super::fixtures::{
    OWNER, Shared, append, append_all, approval, create, created, event, id, message, new_session,
    read_all, row, whole,
};
use crate::store::{APPEND_EVENTS_MAX, Append, AppendError, Claim, Created, EventPage, Keyed};

/// Create is durable, gives fence 1 to its owner, and shows row and events.
pub async fn a_new_session_is_there_with_its_events(store: Shared) {
    let mut new = new_session(id(1));
    new.append.wake_at = Some(TimestampMs(77));
    let expected_row = new.append.row.clone();
    let claim = create(&store, new).await;
    assert_eq!(claim, Claim { session_id: id(1), fence: Fence(1) });
    let info = store.session(id(1)).await.expect("readable").expect("is there");
    assert_eq!(info.row, expected_row);
    assert_eq!((info.owner.as_str(), info.fence), (OWNER, Fence(1)));
    assert_eq!(info.wake_at, Some(TimestampMs(77)));
    let events = read_all(&store, id(1)).await;
    assert_eq!(events.len(), 1);
    let stored = &events[0];
    assert_eq!((stored.seq, stored.time, stored.cause), (Seq(1), TimestampMs(1_001), Seq(1)));
    assert_eq!((stored.actor.as_str(), stored.kind.as_str()), ("person:ada", "message_received"));
    assert_eq!(whole(&store, stored).await, message("first").into());
}

/// The same key and request give the session that is there; another request is told apart.
pub async fn a_client_key_gives_one_session_for_ever(store: Shared) {
    let mut first = new_session(id(1));
    first.client_key = Some("order-7".into());
    assert_eq!(store.keyed("order-7").await.expect("readable"), None);
    let request_digest = first.request_digest.clone();
    create(&store, first).await;
    let keyed = Keyed { session_id: id(1), request_digest, is_deleted: false };
    assert_eq!(store.keyed("order-7").await.expect("readable"), Some(keyed));
    assert_eq!(store.keyed("order-8").await.expect("readable"), None);
    let mut again = new_session(id(2));
    again.client_key = Some("order-7".into());
    let mut other = again.clone();
    other.request_digest = "request 2".into();
    assert_eq!(store.create(again).await.expect("answers"), Created::Existing(id(1)));
    assert_eq!(store.create(other).await.expect("answers"), Created::KeyTaken(id(1)));
    assert_eq!(store.session(id(2)).await.expect("readable"), None);
    // Without a key every request is its own.
    created(&store, 3).await;
    created(&store, 4).await;
}

/// Ids are never used twice.
pub async fn an_id_that_exists_is_not_created_again(store: Shared) {
    created(&store, 1).await;
    let again = store.create(new_session(id(1))).await;
    assert!(matches!(again, Err(AppendError::Conflict { actual: Seq(1), .. })), "{again:?}");
    assert_eq!(read_all(&store, id(1)).await.len(), 1);
}

/// One append moves all that belongs to it.
pub async fn an_append_moves_head_row_and_wake_up(store: Shared) {
    let claim = created(&store, 1).await;
    let mut two = append_all(id(1), 1, vec![message("a").into(), message("b").into()]);
    two.row.explain = "now here".into();
    two.wake_at = Some(TimestampMs(9));
    let expected_row = two.row.clone();
    assert_eq!(store.append(claim, two).await.expect("appends"), Seq(3));
    let info = store.session(id(1)).await.expect("readable").expect("is there");
    assert_eq!((info.row, info.wake_at), (expected_row, Some(TimestampMs(9))));
    let seqs: Vec<u64> = read_all(&store, id(1)).await.iter().map(|it| it.seq.0).collect();
    assert_eq!(seqs, [1, 2, 3]);
    assert_eq!(store.append(claim, append(id(1), 3, "c")).await.expect("appends"), Seq(4));
    let info = store.session(id(1)).await.expect("readable").expect("is there");
    assert_eq!(info.wake_at, None);
}

/// A writer with an old or a future head is told the true one, and nothing is written.
pub async fn an_append_at_another_place_is_refused(store: Shared) {
    let claim = created(&store, 1).await;
    for wrong in [0, 2, 9] {
        match store.append(claim, append(id(1), wrong, "x")).await {
            Err(AppendError::Conflict { session_id, expected, actual }) => {
                assert_eq!((session_id, expected, actual), (id(1), Seq(wrong), Seq(1)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(read_all(&store, id(1)).await.len(), 1);
    assert_eq!(store.append(claim, append(id(1), 1, "x")).await.expect("appends"), Seq(2));
}

/// Two appends with one expected head: one is stored, the other may re-read and try again.
pub async fn of_two_appends_at_one_place_one_is_stored(store: Shared) {
    let claim = created(&store, 1).await;
    let (x, y) = tokio::join!(
        store.append(claim, append(id(1), 1, "x")),
        store.append(claim, append(id(1), 1, "y")),
    );
    let (won, lost) = if x.is_ok() { (x, y) } else { (y, x) };
    assert_eq!(won.expect("one is stored"), Seq(2));
    assert!(matches!(lost, Err(AppendError::Conflict { actual: Seq(2), .. })), "{lost:?}");
    assert_eq!(store.append(claim, append(id(1), 2, "again")).await.expect("appends"), Seq(3));
}

/// Unknown sessions are an answer, not a failure.
pub async fn what_is_not_there_is_said_to_be_not_there(store: Shared) {
    let claim = Claim { session_id: id(1), fence: Fence(1) };
    let appended = store.append(claim, append(id(1), 0, "x")).await;
    assert!(matches!(appended, Err(AppendError::NotFound { .. })), "{appended:?}");
    let claimed = store.claim(id(1), OWNER).await;
    assert!(matches!(claimed, Err(AppendError::NotFound { .. })), "{claimed:?}");
    assert!(store.quarantine(id(1), "why").await.is_err());
    assert_eq!(store.session(id(1)).await.expect("readable"), None);
    assert_eq!(store.read(id(1), Seq(0), 9).await.expect("readable"), EventPage::default());
    assert_eq!(store.blob("00").await.expect("readable"), None);
    assert_eq!(store.snapshot(id(1), 1).await.expect("readable"), None);
    assert_eq!(store.agent("mover", None).await.expect("readable"), None);
    // A cache takes what nobody needs and forgets it.
    store.put_snapshot(id(1), Seq(1), 1, vec![1]).await.expect("is taken");
}

/// A malformed append is a bug of the caller: it is named, and nothing is written.
pub async fn malformed_appends_are_refused_whole(store: Shared) {
    let claim = created(&store, 1).await;
    let good = || append(id(1), 1, "x");
    let spoil = |change: &dyn Fn(&mut Append)| {
        let mut append = good();
        change(&mut append);
        append
    };
    let cases: Vec<(&str, Append)> = vec![
        ("no events", spoil(&|it| it.events.clear())),
        ("a gap", spoil(&|it| it.events[0].seq = Seq(3))),
        ("another session's row", spoil(&|it| it.row = row(id(2), 2))),
        ("a row of another head", spoil(&|it| it.row.head_seq = Seq(3))),
        ("another session's approval", spoil(&|it| it.approvals.push(approval(id(2), 1, 1)))),
        ("a number too large", spoil(&|it| it.events[0].cause = Seq(u64::MAX))),
        ("a detached payload", {
            let mut detached = message("");
            detached.content = Text::Detached(blob_ref("elsewhere"));
            append_all(id(1), 1, vec![detached.into()])
        }),
        ("too many events", {
            append_all(id(1), 1, vec![message("x").into(); APPEND_EVENTS_MAX + 1])
        }),
    ];
    for (name, append) in cases {
        let refused = store.append(claim, append).await;
        assert!(matches!(refused, Err(AppendError::Malformed { .. })), "{name}: {refused:?}");
    }
    let mut late = new_session(id(3));
    late.append.expected = Seq(1);
    late.append.events = vec![event(2, message("x"))];
    late.append.row.head_seq = Seq(2);
    let refused = store.create(late).await;
    assert!(matches!(refused, Err(AppendError::Malformed { .. })), "{refused:?}");
    assert_eq!(read_all(&store, id(1)).await.len(), 1);
    assert_eq!(store.append(claim, good()).await.expect("appends"), Seq(2));
}

/// Who lost a session writes nothing more to it, even at the right place.
pub async fn an_older_claim_is_fenced(store: Shared) {
    let old = created(&store, 1).await;
    let new = store.claim(id(1), "node-b").await.expect("claims");
    assert_eq!(new.fence, Fence(2));
    match store.append(old, append(id(1), 1, "old")).await {
        Err(AppendError::Fenced { session_id, held, current }) => {
            assert_eq!((session_id, held, current), (id(1), Fence(1), Fence(2)));
        }
        other => panic!("{other:?}"),
    }
    // A fence that was never given out is no right either.
    let invented = Claim { session_id: id(1), fence: Fence(9) };
    let refused = store.append(invented, append(id(1), 1, "x")).await;
    assert!(matches!(refused, Err(AppendError::Fenced { .. })), "{refused:?}");
    // The fence is looked at before the place: a fenced writer must not re-read and go on.
    let refused = store.append(old, append(id(1), 0, "x")).await;
    assert!(matches!(refused, Err(AppendError::Fenced { .. })), "{refused:?}");
    assert_eq!(store.append(new, append(id(1), 1, "new")).await.expect("appends"), Seq(2));
    let info = store.session(id(1)).await.expect("readable").expect("is there");
    assert_eq!((info.owner.as_str(), info.fence), ("node-b", Fence(2)));
}

/// Claiming what one has changes nothing.
pub async fn the_same_owner_keeps_its_fence(store: Shared) {
    let claim = created(&store, 1).await;
    assert_eq!(store.claim(id(1), OWNER).await.expect("claims"), claim);
    let other = store.claim(id(1), "node-b").await.expect("claims");
    let back = store.claim(id(1), OWNER).await.expect("claims");
    assert_eq!((other.fence, back.fence), (Fence(2), Fence(3)));
    assert!(store.append(claim, append(id(1), 1, "x")).await.is_err());
    assert_eq!(store.append(back, append(id(1), 1, "x")).await.expect("appends"), Seq(2));
}

/// Good and bad writes that arrive together: each gets its own answer.
pub async fn a_refused_append_leaves_its_neighbours_alone(store: Shared) {
    const SESSIONS: u64 = 40;
    let mut claims = Vec::new();
    for n in 0..SESSIONS {
        claims.push(created(&store, n).await);
    }
    let mut writes = JoinSet::new();
    for (n, claim) in (0..).zip(claims) {
        let store = Arc::clone(&store);
        writes.spawn(async move {
            let (claim, place) = match n % 4 {
                0 => (claim, 7),
                1 => (Claim { fence: Fence(9), ..claim }, 1),
                _ => (claim, 1),
            };
            (n, store.append(claim, append(id(n), place, "x")).await)
        });
    }
    while let Some(outcome) = writes.join_next().await {
        let (n, outcome) = outcome.expect("a write does not panic");
        match n % 4 {
            0 => assert!(matches!(outcome, Err(AppendError::Conflict { .. })), "{outcome:?}"),
            1 => assert!(matches!(outcome, Err(AppendError::Fenced { .. })), "{outcome:?}"),
            _ => assert_eq!(outcome.expect("appends"), Seq(2)),
        }
        let expected = if n % 4 < 2 { 1 } else { 2 };
        assert_eq!(read_all(&store, id(n)).await.len(), expected, "session {n}");
    }
}
