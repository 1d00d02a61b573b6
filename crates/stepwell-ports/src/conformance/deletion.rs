//! Rules of deleting: gone at once, nothing of others touched, nothing comes back.

use stepwell_core::codec::blob_ref;
use stepwell_core::state::ForkedFrom;
use stepwell_core::{Seq, Status, TimestampMs};

use super::fixtures::{
    OWNER, Shared, append, append_all, approval, create, created, id, message, new_session,
    read_all, swept, whole,
};
use crate::retention::{DeleteOnly, Deleted};
use crate::store::{AppendError, ApprovalFilter, Claim, Created, EventPage, Keyed, SessionFilter};

/// A text that stands beside its event.
fn large(letter: &str) -> String {
    letter.repeat(30_000)
}

async fn deleted(store: &Shared, n: u64) {
    let outcome = store.delete(id(n), &DeleteOnly::default()).await.expect("can be deleted");
    assert_eq!(outcome, Deleted::Yes);
}

/// A session with one event that has a large payload.
async fn created_with(store: &Shared, n: u64, text: &str) -> Claim {
    let append = append_all(id(n), 0, vec![message(text).into()]);
    create(store, crate::store::NewSession { append, ..new_session(id(n)) }).await
}

async fn has_payload(store: &Shared, text: &str) -> bool {
    store.blob(&blob_ref(text).blob).await.expect("readable").is_some()
}

/// Reads, lists, claims and appends find nothing, before and after the rest of it is removed.
pub async fn a_deleted_session_is_gone_for_everyone(store: Shared) {
    let claim = created(&store, 1).await;
    created(&store, 2).await;
    let mut write = append(id(1), 1, "x");
    write.wake_at = Some(TimestampMs(5));
    write.approvals = vec![approval(id(1), 2, 7)];
    store.append(claim, write).await.expect("appends");
    store.put_snapshot(id(1), Seq(2), 1, b"state".to_vec()).await.expect("is taken");
    store.beat(OWNER, TimestampMs(1)).await.expect("the next write");
    deleted(&store, 1).await;
    for _ in 0..2 {
        is_gone(&store, claim).await;
        swept(&store).await;
    }
    assert_eq!(read_all(&store, id(2)).await.len(), 1, "the other one stays");
    let again = store.delete(id(1), &DeleteOnly::default()).await.expect("answers");
    assert_eq!(again, Deleted::NotFound);
}

async fn is_gone(store: &Shared, claim: Claim) {
    assert_eq!(store.session(id(1)).await.expect("readable"), None);
    assert_eq!(store.read(id(1), Seq(0), 9).await.expect("readable"), EventPage::default());
    assert_eq!(store.snapshot(id(1), 1).await.expect("readable"), None);
    assert_eq!(store.size(id(1)).await.expect("readable"), None);
    let page = store.sessions(&SessionFilter::default(), None, 9).await.expect("readable");
    assert_eq!(page.rows.iter().map(|it| it.session_id).collect::<Vec<_>>(), [id(2)]);
    for session_id in [None, Some(id(1))] {
        let filter = ApprovalFilter { session_id, ..ApprovalFilter::default() };
        let page = store.approvals(&filter, None, 9).await.expect("readable");
        assert_eq!(page.rows, []);
    }
    let now = TimestampMs(9);
    assert_eq!(store.due(OWNER, now, 9).await.expect("readable"), []);
    assert_eq!(store.claim_due("other", &[], now, 9).await.expect("claims"), []);
    assert_eq!(store.next_wake(TimestampMs(0)).await.expect("readable"), None);
    let late = store.append(claim, append(id(1), 2, "late")).await;
    assert!(matches!(late, Err(AppendError::NotFound { .. })), "{late:?}");
    let claimed = store.claim(id(1), "other").await;
    assert!(matches!(claimed, Err(AppendError::NotFound { .. })), "{claimed:?}");
    assert!(store.quarantine(id(1), "why").await.is_err());
    store.put_snapshot(id(1), Seq(2), 1, b"late".to_vec()).await.expect("is dropped");
    store.beat(OWNER, TimestampMs(1)).await.expect("the next write");
}

/// What changed since somebody looked is left alone, and the answer says what it is now.
pub async fn only_a_session_that_fits_is_deleted(store: Shared) {
    let claim = created(&store, 1).await;
    let mut write = append(id(1), 1, "x");
    write.row.status = Status::Completed;
    write.row.updated_at = TimestampMs(100);
    store.append(claim, write).await.expect("appends");
    let kept = Deleted::Kept { status: Status::Completed, updated_at: TimestampMs(100) };
    let only = |statuses: &[Status], before: Option<u64>| DeleteOnly {
        statuses: statuses.to_vec(),
        updated_before: before.map(TimestampMs),
    };
    for (only, expected) in [
        (only(&[Status::Failed, Status::Cancelled], None), kept),
        (only(&[Status::Completed], Some(100)), kept),
        (only(&[Status::Failed], Some(101)), kept),
        (only(&[Status::Failed, Status::Completed], Some(101)), Deleted::Yes),
        (only(&[Status::Completed], None), Deleted::NotFound),
    ] {
        let outcome = store.delete(id(1), &only).await.expect("answers");
        assert_eq!(outcome, expected, "{only:?}");
        let is_there = store.session(id(1)).await.expect("readable").is_some();
        assert_eq!(is_there, expected == kept, "{only:?}");
    }
}

/// A create that is repeated after its session was deleted does not run the task again.
pub async fn a_client_key_remembers_that_its_session_was_deleted(store: Shared) {
    let keyed = |n: u64, key: &str| crate::store::NewSession {
        client_key: Some(key.into()),
        ..new_session(id(n))
    };
    create(&store, keyed(1, "order-1")).await;
    create(&store, keyed(2, "order-2")).await;
    deleted(&store, 1).await;
    for _ in 0..2 {
        let again = store.create(keyed(3, "order-1")).await.expect("answers");
        assert_eq!(again, Created::Deleted(id(1)));
        let mut other = keyed(3, "order-1");
        other.request_digest = "request 2".into();
        let other = store.create(other).await.expect("answers");
        assert_eq!(other, Created::KeyTaken(id(1)));
        let request_digest = new_session(id(1)).request_digest;
        let found = store.keyed("order-1").await.expect("readable");
        assert_eq!(found, Some(Keyed { session_id: id(1), request_digest, is_deleted: true }));
        let alive = store.keyed("order-2").await.expect("readable").expect("is there");
        assert!(!alive.is_deleted);
        swept(&store).await;
    }
    assert_eq!(store.session(id(3)).await.expect("readable"), None);
}

/// A payload stays as long as one session refers to it, and goes with the last one.
pub async fn others_keep_what_they_share_with_a_deleted_session(store: Shared) {
    let (shared, own) = (large("s"), large("o"));
    let first = created_with(&store, 1, &shared).await;
    store.append(first, append(id(1), 1, &own)).await.expect("appends");
    store.append(first, append(id(1), 2, &shared)).await.expect("appends");
    created_with(&store, 2, &shared).await;
    deleted(&store, 1).await;
    swept(&store).await;
    assert!(!has_payload(&store, &own).await, "nobody else refers to it");
    let events = read_all(&store, id(2)).await;
    assert_eq!(whole(&store, &events[0]).await, message(&shared).into());
    deleted(&store, 2).await;
    swept(&store).await;
    assert!(!has_payload(&store, &shared).await);
}

/// A fork refers to the payloads of the events that it has: what its parent came to later goes with
/// the parent.
pub async fn a_fork_keeps_only_the_payloads_of_its_own_events(store: Shared) {
    let (early, late, own) = (large("e"), large("l"), large("o"));
    let parent = created_with(&store, 1, &early).await;
    store.append(parent, append(id(1), 1, "small")).await.expect("appends");
    store.append(parent, append(id(1), 2, &late)).await.expect("appends");
    for (n, seq) in [(2, 1), (3, 2), (4, 3)] {
        let mut fork = new_session(id(n));
        fork.beginning = Some(ForkedFrom { session_id: id(1), seq: Seq(seq) });
        fork.append = append(id(n), seq, &own);
        create(&store, fork).await;
    }
    let sizes = async || (has_payload(&store, &early).await, has_payload(&store, &late).await);
    for (n, expected) in [(1, (true, true)), (4, (true, false)), (2, (true, false))] {
        deleted(&store, n).await;
        swept(&store).await;
        assert_eq!(sizes().await, expected, "after {n} was deleted");
    }
    let events = read_all(&store, id(3)).await;
    assert_eq!(whole(&store, &events[0]).await, message(&early).into());
    assert_eq!(whole(&store, &events[2]).await, message(&own).into());
    deleted(&store, 3).await;
    swept(&store).await;
    assert_eq!((sizes().await, has_payload(&store, &own).await), ((false, false), false));
}

/// An append brings what it refers to, whatever was removed just before, or is removed just after.
pub async fn a_payload_that_was_removed_can_come_back(store: Shared) {
    let text = large("x");
    created_with(&store, 1, &text).await;
    let second = created(&store, 2).await;
    deleted(&store, 1).await;
    let ((), appended) = tokio::join!(swept(&store), store.append(second, append(id(2), 1, &text)));
    appended.expect("appends");
    swept(&store).await;
    let events = read_all(&store, id(2)).await;
    assert_eq!(whole(&store, &events[1]).await, message(&text).into());
    deleted(&store, 2).await;
    swept(&store).await;
    assert!(!has_payload(&store, &text).await);
    created_with(&store, 3, &text).await;
    assert!(has_payload(&store, &text).await);
}

/// As an import of what was exported before does. What the first one left never reaches the second.
pub async fn a_deleted_id_can_be_created_again(store: Shared) {
    let claim = created(&store, 1).await;
    let many = (0..300).map(|n| message(&format!("old {n}")).into()).collect();
    let mut write = append_all(id(1), 1, many);
    write.approvals = vec![approval(id(1), 2, 7)];
    store.append(claim, write).await.expect("appends");
    store.put_snapshot(id(1), Seq(2), 1, b"old".to_vec()).await.expect("is taken");
    store.beat(OWNER, TimestampMs(1)).await.expect("the next write");
    deleted(&store, 1).await;
    created_with(&store, 1, "new").await;
    for _ in 0..2 {
        let events = read_all(&store, id(1)).await;
        assert_eq!(events.len(), 1);
        assert_eq!(whole(&store, &events[0]).await, message("new").into());
        assert_eq!(store.snapshot(id(1), 1).await.expect("readable"), None);
        let page = store.approvals(&ApprovalFilter::default(), None, 9).await.expect("readable");
        assert_eq!(page.rows, []);
        swept(&store).await;
    }
    let listed = store.sessions(&SessionFilter::default(), None, 9).await.expect("readable");
    assert_eq!(listed.rows.len(), 1);
}

/// Payloads that others refer to would stay, so they do not count.
pub async fn the_size_of_a_session_counts_what_would_go(store: Shared) {
    let claim = created(&store, 1).await;
    let size = async || store.size(id(1)).await.expect("readable").expect("is there");
    let small = size().await;
    assert!(small.events == 1 && small.bytes > 0, "{small:?}");
    // Text that compresses badly, so that stored bytes can be told from references.
    let mut draw = super::fixtures::Draw::new(1);
    let words: Vec<String> = (0..3_000).map(|_| draw.number().to_string()).collect();
    let text = words.concat();
    store.append(claim, append(id(1), 1, &text)).await.expect("appends");
    let alone = size().await;
    assert!(alone.events == 2 && alone.bytes > small.bytes + 10_000, "{alone:?}");
    created_with(&store, 2, &text).await;
    let sharing = size().await;
    assert!(sharing.bytes + 10_000 < alone.bytes, "{sharing:?} {alone:?}");
}
