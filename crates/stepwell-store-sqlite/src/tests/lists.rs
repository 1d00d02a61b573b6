//! Lists of very many sessions, measured in steps of SQLite's machine: time is not for tests.

use rusqlite::{Connection, StatementStatus, params_from_iter};
use stepwell_core::{SessionId, Status};
use stepwell_ports::SessionFilter;

use super::common::{database, open};
use crate::read::{self, Walk};

/// Rows in the store.
const SESSIONS: u64 = 100_000;
/// What a page of 50 may cost: some 40 steps for each row that a walk looks at, in each of the few
/// statuses that have rows. A walk over all rows takes more than a million.
const STEPS_MAX: i64 = 20_000;

/// Writes the rows directly: what is tested is how they are read.
fn fill(conn: &Connection) {
    conn.execute(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
         INSERT INTO sessions (session_id, status, busy, head, fence, owner, wake_at, step,
             prompt_tokens, cached_tokens, completion_tokens, created_at, updated_at, agent,
             agent_version, labels, title, explain)
         SELECT printf('%026d', n), iif(n % 10 = 0, 'waiting_approval', 'completed'), 0, 40, 1,
             'node', NULL, 20, 1, 2, 3, n, (n * 7919) % 1000003, iif(n % 9999 = 0, 'rare', 'usual'),
             1, '[]', 'title ' || n, 'completed in 20 steps' FROM numbers",
        [SESSIONS as i64],
    )
    .unwrap();
}

/// Steps and sorts that all walks took on this connection.
fn spent(conn: &Connection, filter: &SessionFilter) -> (i64, i64) {
    let mut sum = (0, 0);
    let mut queries: Vec<String> = read::walks(filter).iter().map(Walk::query).collect();
    queries.dedup();
    for query in queries {
        let statement = conn.prepare_cached(&query).unwrap();
        sum.0 += i64::from(statement.reset_status(StatementStatus::VmStep));
        sum.1 += i64::from(statement.reset_status(StatementStatus::Sort));
    }
    sum
}

#[test]
fn a_page_of_a_hundred_thousand_costs_what_the_page_costs() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let mut conn = Connection::open(database(folder.path())).unwrap();
    fill(&conn);
    let all = SessionFilter::default;
    let filters = [
        ("all", all()),
        ("in one status", SessionFilter { statuses: vec![Status::WaitingApproval], ..all() }),
        ("in a status without rows", SessionFilter { statuses: vec![Status::Failed], ..all() }),
        ("of a full id", SessionFilter { id_prefix: Some(format!("{:026}", 4_711)), ..all() }),
        ("forks of one", SessionFilter { parent: Some(SessionId::from_random([1; 16])), ..all() }),
        ("of a frequent agent", SessionFilter { agent: Some("usual".into()), ..all() }),
    ];
    for (name, filter) in filters {
        let mut page = None;
        for turn in 0..4 {
            let transaction = conn.transaction().unwrap();
            let next = read::sessions(&transaction, &filter, page.as_deref(), 50).unwrap();
            drop(transaction);
            let (steps, sorts) = spent(&conn, &filter);
            assert!(steps < STEPS_MAX, "{name}, page {turn}: {steps} steps");
            // Busy sessions are sorted on the fly; there are none. A full id is one row.
            assert!(sorts <= 1, "{name}, page {turn}: {sorts} sorts");
            page = next.next_page;
            if page.is_none() {
                break;
            }
        }
        // Somewhere in the middle.
        let transaction = conn.transaction().unwrap();
        let token = format!("s{:x}-{:x}", 500_000, 1);
        read::sessions(&transaction, &filter, Some(&token), 50).unwrap();
        drop(transaction);
        let (steps, _) = spent(&conn, &filter);
        assert!(steps < STEPS_MAX, "{name}, from the middle: {steps} steps");
    }
}

#[test]
fn a_rare_agent_is_found_in_the_index_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let mut conn = Connection::open(database(folder.path())).unwrap();
    fill(&conn);
    let filter = SessionFilter { agent: Some("rare".into()), ..SessionFilter::default() };
    let transaction = conn.transaction().unwrap();
    let page = read::sessions(&transaction, &filter, None, 50).unwrap();
    drop(transaction);
    assert_eq!(page.rows.len(), 10);
    let (steps, _) = spent(&conn, &filter);
    assert!(steps < 12 * SESSIONS as i64, "{steps} steps");
}

/// What has no sessions to wake looks at no session.
#[test]
fn the_wake_index_answers_for_many_resting_sessions() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let conn = Connection::open(database(folder.path())).unwrap();
    fill(&conn);
    for (query, index, bounds) in [
        (read::NEXT_PARKED, "sessions_wake", 1),
        (read::NEXT_BUSY, "sessions_busy", 1),
        (read::DUE_PARKED, "sessions_wake", 2),
        (read::DUE_BUSY, "sessions_busy", 2),
    ] {
        let explain = format!("EXPLAIN QUERY PLAN {query}");
        let mut statement = conn.prepare(&explain).unwrap();
        let plan: Vec<String> = statement
            .query_map(params_from_iter(vec![0; bounds]), |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(plan[0].contains(index), "{query}: {plan:?}");
        assert!(!plan.iter().any(|it| it.contains("TEMP B-TREE")), "{query}: {plan:?}");
    }
}
