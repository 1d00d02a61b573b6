//! Rules of lists.

use std::collections::BTreeSet;

use stepwell_core::state::ForkedFrom;
use stepwell_core::summary::{ApprovalRow, ApprovalStatus, SessionRow};
use stepwell_core::{Seq, SessionId, Status, TimestampMs};

use super::fixtures::{Shared, append, approval, create, created, id, label, new_session};
use crate::store::{ApprovalFilter, Claim, SessionFilter, StoreError};

/// Creates a session with that row, changed.
async fn listed(store: &Shared, n: u64, change: impl FnOnce(&mut SessionRow)) -> Claim {
    let mut new = new_session(id(n));
    change(&mut new.append.row);
    create(store, new).await
}

async fn all_pages(store: &Shared, filter: &SessionFilter, limit: usize) -> Vec<SessionId> {
    let mut found = Vec::new();
    let mut page = None;
    loop {
        let next = store.sessions(filter, page.as_deref(), limit).await.expect("readable");
        assert!(next.rows.len() <= limit);
        found.extend(next.rows.iter().map(|it| it.session_id));
        match next.next_page {
            Some(token) => page = Some(token),
            None => return found,
        }
    }
}

/// In every status, with every page size; of two equal times the later creation first.
pub async fn the_newest_update_is_listed_first(store: Shared) {
    let times = [5, 9, 7, 7, 1, 9, 3, 7, 8, 2, 6, 4, 7];
    for (n, time) in (0..).zip(times) {
        listed(&store, n, |row| {
            row.updated_at = TimestampMs(time);
            row.status = Status::ALL[n as usize % Status::ALL.len()];
        })
        .await;
    }
    let mut expected: Vec<(u64, u64)> = times.into_iter().zip(0..).collect();
    expected.sort_unstable();
    let expected: Vec<SessionId> = expected.iter().rev().map(|(_, n)| id(*n)).collect();
    for limit in [1, 2, 3, 5, 12, 13, 14, 100] {
        let found = all_pages(&store, &SessionFilter::default(), limit).await;
        assert_eq!(found, expected, "pages of {limit}");
    }
    let page = store.sessions(&SessionFilter::default(), None, 13).await.expect("readable");
    assert_eq!(page.next_page, None, "the last page says so");
    let page = store.sessions(&SessionFilter::default(), None, 0).await.expect("readable");
    assert_eq!(page.rows.len(), 1, "every page moves on");
}

/// While one reads page after page, others append: what rests is seen once.
pub async fn pages_lose_and_repeat_no_session_that_rests(store: Shared) {
    const SESSIONS: u64 = 60;
    let mut claims = Vec::new();
    for n in 0..SESSIONS {
        let status = if n % 2 == 0 { Status::Thinking } else { Status::WaitingApproval };
        claims.push(
            listed(&store, n, |row| {
                row.updated_at = TimestampMs(100 + n % 10);
                row.status = status;
            })
            .await,
        );
    }
    let mut seen: Vec<SessionId> = Vec::new();
    let mut updated = BTreeSet::new();
    let mut page = None;
    for turn in 0.. {
        let filter = SessionFilter::default();
        let next = store.sessions(&filter, page.as_deref(), 7).await.expect("readable");
        seen.extend(next.rows.iter().map(|it| it.session_id));
        let Some(token) = next.next_page else { break };
        page = Some(token);
        let n = (turn * 17) % SESSIONS;
        if updated.insert(id(n)) {
            let mut write = append(id(n), 1, "x");
            write.row.updated_at = TimestampMs(500 + turn);
            write.row.status = Status::Sleeping;
            store.append(claims[n as usize], write).await.expect("appends");
        }
        created(&store, 1_000 + turn).await;
    }
    for n in (0..SESSIONS).filter(|n| !updated.contains(&id(*n))) {
        let times = seen.iter().filter(|it| **it == id(n)).count();
        assert_eq!(times, 1, "session {n} was not touched");
    }
}

/// Each filter alone and together.
pub async fn sessions_are_filtered(store: Shared) {
    listed(&store, 0, |row| row.status = Status::Completed).await;
    listed(&store, 1, |row| row.agent = "other".into()).await;
    listed(&store, 2, |row| row.labels = vec![label("team", "red"), label("env", "prod")]).await;
    listed(&store, 3, |row| row.labels = vec![label("team", "blue"), label("env", "prod")]).await;
    listed(&store, 4, |row| row.title = "Straßen 100%_done".into()).await;
    listed(&store, 5, |row| row.status = Status::WaitingApproval).await;
    let beginning = ForkedFrom { session_id: id(0), seq: Seq(1) };
    listed(&store, 6, |row| row.parent = Some(beginning)).await;
    let all = SessionFilter::default;
    let cases: Vec<(SessionFilter, Vec<u64>)> = vec![
        (all(), vec![0, 1, 2, 3, 4, 5, 6]),
        (SessionFilter { parent: Some(id(0)), ..all() }, vec![6]),
        (SessionFilter { parent: Some(id(6)), ..all() }, vec![]),
        (SessionFilter { statuses: vec![Status::Completed], ..all() }, vec![0]),
        (
            SessionFilter { statuses: vec![Status::Completed, Status::WaitingApproval], ..all() },
            vec![0, 5],
        ),
        (SessionFilter { statuses: vec![Status::Failed], ..all() }, vec![]),
        (SessionFilter { agent: Some("other".into()), ..all() }, vec![1]),
        (SessionFilter { agent: Some("oth".into()), ..all() }, vec![]),
        (SessionFilter { labels: vec![("env".into(), "prod".into())], ..all() }, vec![2, 3]),
        (
            SessionFilter {
                labels: vec![("env".into(), "prod".into()), ("team".into(), "red".into())],
                ..all()
            },
            vec![2],
        ),
        (SessionFilter { labels: vec![("team".into(), "prod".into())], ..all() }, vec![]),
        (SessionFilter { text: Some("STRASSEN".into()), ..all() }, vec![]),
        (SessionFilter { text: Some("straßEN 100%_".into()), ..all() }, vec![4]),
        (SessionFilter { text: Some("%".into()), ..all() }, vec![4]),
        (SessionFilter { text: Some("x_9".into()), ..all() }, vec![]),
        (SessionFilter { id_prefix: Some(id(3).to_string()), ..all() }, vec![3]),
        (SessionFilter { id_prefix: Some(id(3).to_string()[..9].into()), ..all() }, vec![3]),
        (SessionFilter { id_prefix: Some(String::new()), ..all() }, vec![0, 1, 2, 3, 4, 5, 6]),
        (SessionFilter { id_prefix: Some("no id ä".into()), ..all() }, vec![]),
        (
            SessionFilter {
                id_prefix: Some(id(3).to_string()[..9].into()),
                statuses: vec![Status::Completed],
                ..all()
            },
            vec![],
        ),
    ];
    for (filter, expected) in cases {
        let expected: BTreeSet<SessionId> = expected.into_iter().map(id).collect();
        for limit in [1, 100] {
            let found = all_pages(&store, &filter, limit).await;
            assert_eq!(found.len(), expected.len(), "{filter:?}");
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "{filter:?}");
        }
    }
}

/// Tokens are opaque, and checked.
pub async fn a_token_of_another_list_is_refused(store: Shared) {
    for n in 0..3 {
        let mut new = new_session(id(n));
        new.append.approvals.push(approval(id(n), 1, 10 + n));
        create(&store, new).await;
    }
    let sessions = SessionFilter::default();
    let approvals = ApprovalFilter::default();
    let page = store.sessions(&sessions, None, 1).await.expect("readable");
    let of_sessions = page.next_page.expect("there is more");
    let page = store.approvals(&approvals, None, 1).await.expect("readable");
    let of_approvals = page.next_page.expect("there is more");
    assert!(store.sessions(&sessions, Some(&of_sessions), 1).await.is_ok());
    assert!(store.approvals(&approvals, Some(&of_approvals), 1).await.is_ok());
    for token in [of_approvals.as_str(), "", "1", "nonsense", "ä"] {
        let refused = store.sessions(&sessions, Some(token), 1).await;
        assert!(matches!(refused, Err(StoreError::BadPageToken { .. })), "{token}: {refused:?}");
    }
    for token in [of_sessions.as_str(), "", "1", "nonsense", "ä"] {
        let refused = store.approvals(&approvals, Some(token), 1).await;
        assert!(matches!(refused, Err(StoreError::BadPageToken { .. })), "{token}: {refused:?}");
    }
}

async fn approvals(store: &Shared, filter: &ApprovalFilter) -> Vec<ApprovalRow> {
    store.approvals(filter, None, 100).await.expect("readable").rows
}

/// Opened with one append, closed with another: one row.
pub async fn approvals_are_replaced_by_their_ids(store: Shared) {
    let mut new = new_session(id(1));
    let mut open = approval(id(1), 1, 10);
    open.expires_at = Some(TimestampMs(99));
    new.append.approvals.push(open.clone());
    let claim = create(&store, new).await;
    assert_eq!(approvals(&store, &ApprovalFilter::default()).await, std::slice::from_ref(&open));
    let mut closed = open;
    closed.status = ApprovalStatus::Denied;
    closed.decided_by = "person:ada".into();
    closed.decided_at = Some(TimestampMs(20));
    closed.reason = "no\0 way".into();
    let mut write = append(id(1), 1, "x");
    write.approvals = vec![closed.clone(), approval(id(1), 2, 21)];
    store.append(claim, write).await.expect("appends");
    let found = approvals(&store, &ApprovalFilter::default()).await;
    assert_eq!(found, [approval(id(1), 2, 21), closed]);
}

/// Over all sessions or of one, in some statuses or all, a page at a time.
pub async fn approvals_are_listed_newest_first_and_filtered(store: Shared) {
    // Session, approval, time, status.
    let rows = [
        (1, 1, 10, ApprovalStatus::Open),
        (1, 2, 30, ApprovalStatus::Approved),
        (2, 1, 20, ApprovalStatus::Open),
        (2, 2, 20, ApprovalStatus::Void),
        (3, 1, 20, ApprovalStatus::Open),
    ];
    for n in 1..=3 {
        let mut new = new_session(id(n));
        for (_, approval_id, time, status) in rows.into_iter().filter(|it| it.0 == n) {
            let row = ApprovalRow { status, ..approval(id(n), approval_id, time) };
            new.append.approvals.push(row);
        }
        create(&store, new).await;
    }
    let filter = |session: Option<u64>, statuses: &[ApprovalStatus]| ApprovalFilter {
        statuses: statuses.to_vec(),
        session_id: session.map(id),
    };
    let cases = [
        (filter(None, &[]), vec![(1, 2), (3, 1), (2, 2), (2, 1), (1, 1)]),
        (filter(None, &[ApprovalStatus::Open]), vec![(3, 1), (2, 1), (1, 1)]),
        (filter(None, &[ApprovalStatus::Void, ApprovalStatus::Approved]), vec![(1, 2), (2, 2)]),
        (filter(Some(2), &[]), vec![(2, 2), (2, 1)]),
        (filter(Some(2), &[ApprovalStatus::Open]), vec![(2, 1)]),
        (filter(Some(9), &[]), vec![]),
    ];
    for (filter, expected) in cases {
        for limit in [1, 2, 100] {
            let mut found = Vec::new();
            let mut page: Option<String> = None;
            loop {
                let next = store.approvals(&filter, page.as_deref(), limit).await;
                let next = next.expect("readable");
                found.extend(next.rows.iter().map(|it| (it.session_id, it.approval_id.0)));
                match next.next_page {
                    Some(token) => page = Some(token),
                    None => break,
                }
            }
            let expected: Vec<_> = expected.iter().map(|(n, it)| (id(*n), *it)).collect();
            assert_eq!(found, expected, "{filter:?}, pages of {limit}");
        }
    }
}
