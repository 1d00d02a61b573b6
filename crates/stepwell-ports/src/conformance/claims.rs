//! Rules of waking and taking over.

use stepwell_core::{Fence, Seq, TimestampMs};

use super::fixtures::{OWNER, Shared, append, create, id, new_session};
use crate::store::{AppendError, Claim};

/// Creates a session that must be woken then.
async fn sleeping(store: &Shared, n: u64, owner: &str, wake_at: Option<u64>) -> Claim {
    let mut new = new_session(id(n));
    owner.clone_into(&mut new.owner);
    new.append.wake_at = wake_at.map(TimestampMs);
    // Statuses with and without a place in an index of their own.
    new.append.row.status =
        [stepwell_core::Status::Sleeping, stepwell_core::Status::Thinking][(n % 2) as usize];
    create(store, new).await
}

fn sessions_of(claims: &[Claim]) -> Vec<stepwell_core::SessionId> {
    claims.iter().map(|it| it.session_id).collect()
}

/// Only what is due, only of owners that are gone, the earliest first, with a new fence.
pub async fn due_sessions_of_the_dead_are_claimed_earliest_first(store: Shared) {
    sleeping(&store, 1, "dead-1", Some(30)).await;
    sleeping(&store, 2, "dead-2", Some(10)).await;
    let old = sleeping(&store, 3, "dead-1", Some(20)).await;
    sleeping(&store, 4, "dead-1", Some(41)).await;
    sleeping(&store, 5, "dead-1", None).await;
    sleeping(&store, 6, "alive", Some(5)).await;
    sleeping(&store, 7, OWNER, Some(5)).await;
    sleeping(&store, 8, "", Some(40)).await;
    sleeping(&store, 9, "dead-2", Some(20)).await;
    // They had work when their owner died.
    sleeping(&store, 10, "dead-2", Some(0)).await;
    sleeping(&store, 11, "dead-1", Some(0)).await;
    let alive = [OWNER.to_owned(), "alive".to_owned()];
    let claims = store.claim_due(OWNER, &alive, TimestampMs(40), 100).await.expect("claims");
    assert_eq!(sessions_of(&claims), [10, 11, 2, 3, 9, 1, 8].map(id));
    assert!(claims.iter().all(|it| it.fence == Fence(2)), "{claims:?}");
    let refused = store.append(old, append(id(3), 1, "x")).await;
    assert!(matches!(refused, Err(AppendError::Fenced { .. })), "{refused:?}");
    assert_eq!(store.append(claims[3], append(id(3), 1, "x")).await.expect("appends"), Seq(2));
    let info = store.session(id(2)).await.expect("readable").expect("is there");
    assert_eq!((info.owner.as_str(), info.fence), (OWNER, Fence(2)));
    // They are owned now.
    let again = store.claim_due(OWNER, &alive, TimestampMs(40), 100).await.expect("claims");
    assert_eq!(again, []);
    // A caller that forgot itself among the living does not take from itself.
    let again = store.claim_due(OWNER, &[], TimestampMs(40), 100).await.expect("claims");
    assert_eq!(sessions_of(&again), [id(6)]);
}

/// The bound is kept, and the next call goes on.
pub async fn at_most_so_many_are_claimed(store: Shared) {
    for n in 0..7 {
        sleeping(&store, n, "dead", Some(10 + n)).await;
    }
    let mut seen = Vec::new();
    for expected in [3, 3, 1, 0] {
        let claims = store.claim_due(OWNER, &[], TimestampMs(99), 3).await.expect("claims");
        assert_eq!(claims.len(), expected);
        seen.extend(sessions_of(&claims));
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6].map(id));
}

/// The owner finds its own without losing its claims.
pub async fn own_due_sessions_are_found_and_not_fenced(store: Shared) {
    let first = sleeping(&store, 1, OWNER, Some(20)).await;
    let second = sleeping(&store, 2, OWNER, Some(10)).await;
    sleeping(&store, 3, "other", Some(10)).await;
    sleeping(&store, 4, OWNER, Some(21)).await;
    sleeping(&store, 5, OWNER, None).await;
    // In the owner's memory: it knows.
    sleeping(&store, 6, OWNER, Some(0)).await;
    sleeping(&store, 7, OWNER, Some(0)).await;
    let due = store.due(OWNER, TimestampMs(20), 100).await.expect("readable");
    assert_eq!(due, [second, first]);
    assert_eq!(store.due(OWNER, TimestampMs(20), 1).await.expect("readable"), [second]);
    assert_eq!(store.due(OWNER, TimestampMs(9), 100).await.expect("readable"), []);
    store.append(first, append(id(1), 1, "x")).await.expect("the claim still holds");
    assert_eq!(store.due(OWNER, TimestampMs(20), 100).await.expect("readable"), [second]);
}

/// Whoever waits knows how long.
pub async fn the_next_wake_up_is_the_earliest_later_one(store: Shared) {
    assert_eq!(store.next_wake(TimestampMs(0)).await.expect("readable"), None);
    for (n, wake_at) in
        [(1, Some(30)), (2, Some(10)), (3, Some(20)), (4, None), (6, Some(25)), (7, Some(0))]
    {
        sleeping(&store, n, OWNER, wake_at).await;
    }
    let waits = [(0, Some(10)), (9, Some(10)), (10, Some(20)), (20, Some(25)), (25, Some(30))];
    for (after, expected) in waits.into_iter().chain([(30, None)]) {
        let found = store.next_wake(TimestampMs(after)).await.expect("readable");
        assert_eq!(found, expected.map(TimestampMs), "after {after}");
    }
}

/// Times saturate instead of turning into the past.
pub async fn a_time_beyond_all_clocks_is_kept_as_never(store: Shared) {
    sleeping(&store, 1, OWNER, Some(u64::MAX)).await;
    let never = TimestampMs(crate::memory::NUMBER_MAX);
    let info = store.session(id(1)).await.expect("readable").expect("is there");
    assert_eq!(info.wake_at, Some(never));
    assert_eq!(store.due(OWNER, TimestampMs(1 << 60), 9).await.expect("readable"), []);
    assert_eq!(store.next_wake(TimestampMs(5)).await.expect("readable"), Some(never));
}
