//! Lists of sessions and approvals, a page at a time.
//!
//! A page is put together from one short walk per status, each along an index in the order of the
//! list, so its cost depends on the page and not on the number of sessions. Filters on labels and
//! title are checked row by row and may walk further.

use rusqlite::{OptionalExtension as _, Params, Row, Transaction, params};
use stepwell_core::summary::{ApprovalRow, ApprovalStatus, SessionRow};
use stepwell_core::{SessionId, Status};
use stepwell_ports::memory::{APPROVALS_LIST, PageToken, SESSIONS_LIST, fits, page_rows};
use stepwell_ports::{ApprovalFilter, ListPage, SessionFilter, StoreError};

use super::ReadError;
use crate::rows::{
    self, APPROVAL_COLUMNS, APPROVAL_COLUMNS_LEN, SESSION_COLUMNS, SESSION_COLUMNS_LEN, is_busy,
    number, to_sql,
};

/// Behind every row: where the first page begins.
const BEHIND_ALL: u64 = u64::MAX;

/// The largest character of an id; an id prefix followed by these is behind all ids that have it.
const ID_TAIL: &str = "ZZZZZZZZZZZZZZZZZZZZZZZZZZ";

/// A row with its sort keys.
struct Keyed<T, const N: usize> {
    keys: [u64; N],
    row: T,
}

/// One page of sessions, newest update first.
pub(crate) fn sessions(
    transaction: &Transaction<'_>,
    filter: &SessionFilter,
    page: Option<&str>,
    limit: usize,
) -> Result<ListPage<SessionRow>, ReadError> {
    let search = SessionSearch {
        transaction,
        filter,
        before: sessions_start(filter, page)?,
        // One more than fits, to know whether there is a next page.
        wanted: page_rows(limit) + 1,
    };
    let mut found = Vec::new();
    for walk in walks(filter) {
        search.collect(&walk, &mut found)?;
    }
    Ok(page_of(SESSIONS_LIST, found, search.wanted))
}

/// The walks begin behind the last page, and behind everything that is too new.
fn sessions_start(filter: &SessionFilter, page: Option<&str>) -> Result<[u64; 2], StoreError> {
    let start = page_start(SESSIONS_LIST, page)?;
    Ok(filter.updated_before.map_or(start, |before| start.min([before.0, 0])))
}

/// A walk along one index.
pub(crate) enum Walk<'a> {
    /// Busy sessions: few, sorted on the fly.
    Busy,
    /// Sessions that rest in one status.
    Parked(Status),
    /// All whose id begins so.
    Prefix(&'a str),
    /// The forks of one session.
    Forks(SessionId),
}

pub(crate) fn walks(filter: &SessionFilter) -> Vec<Walk<'_>> {
    if let Some(prefix) = filter.id_prefix.as_deref().filter(|it| !it.is_empty()) {
        return vec![Walk::Prefix(prefix)];
    }
    if let Some(parent) = filter.parent {
        return vec![Walk::Forks(parent)];
    }
    let statuses = || Status::ALL.into_iter().filter(|it| fits_any(&filter.statuses, it));
    let busy = statuses().any(is_busy).then_some(Walk::Busy);
    busy.into_iter().chain(statuses().filter(|it| !is_busy(*it)).map(Walk::Parked)).collect()
}

/// No choice means all.
fn fits_any<T: PartialEq>(wanted: &[T], found: &T) -> bool {
    wanted.is_empty() || wanted.contains(found)
}

impl Walk<'_> {
    pub(crate) fn query(&self) -> String {
        let condition = match self {
            Self::Busy => "busy = 1",
            Self::Parked(_) => "busy = 0 AND status = ?4",
            Self::Prefix(_) => "session_id BETWEEN ?4 AND ?5",
            Self::Forks(_) => "parent = ?4",
        };
        format!(
            "SELECT {SESSION_COLUMNS}, key FROM sessions WHERE {condition}
             AND (updated_at, key) < (?1, ?2) AND (?3 IS NULL OR agent = ?3)
             ORDER BY updated_at DESC, key DESC"
        )
    }
}

/// What one page of sessions looks for.
struct SessionSearch<'a> {
    transaction: &'a Transaction<'a>,
    filter: &'a SessionFilter,
    before: [u64; 2],
    wanted: usize,
}

impl SessionSearch<'_> {
    /// Adds what a walk finds, as far as the page can need it.
    fn collect(
        &self,
        walk: &Walk<'_>,
        found: &mut Vec<Keyed<SessionRow, 2>>,
    ) -> Result<(), ReadError> {
        let [updated_at, key] = self.before.map(to_sql);
        let agent = self.filter.agent.as_deref();
        let query = walk.query();
        match walk {
            Walk::Busy => self.take_fitting(&query, params![updated_at, key, agent], found),
            Walk::Parked(status) => {
                let values = params![updated_at, key, agent, status.as_str()];
                self.take_fitting(&query, values, found)
            }
            Walk::Forks(parent) => {
                let values = params![updated_at, key, agent, parent.to_string()];
                self.take_fitting(&query, values, found)
            }
            Walk::Prefix(prefix) => {
                let end = format!("{prefix}{ID_TAIL}");
                let values = params![updated_at, key, agent, prefix, end];
                self.take_fitting(&query, values, found)
            }
        }
    }

    fn take_fitting(
        &self,
        query: &str,
        values: impl Params,
        found: &mut Vec<Keyed<SessionRow, 2>>,
    ) -> Result<(), ReadError> {
        let mut statement = self.transaction.prepare_cached(query)?;
        let mut rows = statement.query(values)?;
        let mut taken = 0;
        while taken < self.wanted
            && let Some(row) = rows.next()?
        {
            let keyed = keyed_session(row)?;
            if fits(self.filter, &keyed.row) {
                found.push(keyed);
                taken += 1;
            }
        }
        Ok(())
    }
}

fn keyed_session(row: &Row<'_>) -> rusqlite::Result<Keyed<SessionRow, 2>> {
    let session = rows::session_row(row)?;
    let key = number(row, SESSION_COLUMNS_LEN)?;
    Ok(Keyed { keys: [session.updated_at.0, key], row: session })
}

/// One page of approvals, newest first.
pub(crate) fn approvals(
    transaction: &Transaction<'_>,
    filter: &ApprovalFilter,
    page: Option<&str>,
    limit: usize,
) -> Result<ListPage<ApprovalRow>, ReadError> {
    let before = page_start(APPROVALS_LIST, page)?;
    let wanted = page_rows(limit) + 1;
    let mut found = Vec::new();
    let statuses = ApprovalStatus::ALL.into_iter().filter(|it| fits_any(&filter.statuses, it));
    match filter.session_id {
        None => {
            for status in statuses {
                approvals_of_status(transaction, status, before, wanted, &mut found)?;
            }
        }
        Some(session_id) => {
            let all = approvals_of_session(transaction, session_id, before)?;
            let statuses: Vec<_> = statuses.collect();
            found.extend(all.into_iter().filter(|it| statuses.contains(&it.row.status)));
        }
    }
    Ok(page_of(APPROVALS_LIST, found, wanted))
}

fn approvals_of_status(
    transaction: &Transaction<'_>,
    status: ApprovalStatus,
    [requested_at, session, approval_id]: [u64; 3],
    wanted: usize,
    found: &mut Vec<Keyed<ApprovalRow, 3>>,
) -> Result<(), ReadError> {
    let query = format!(
        "SELECT {APPROVAL_COLUMNS}, session,
             (SELECT session_id FROM sessions WHERE key = approvals.session)
         FROM approvals
         WHERE status = ?1 AND (requested_at, session, approval_id) < (?2, ?3, ?4)
           AND EXISTS (SELECT 1 FROM sessions WHERE key = approvals.session)
         ORDER BY requested_at DESC, session DESC, approval_id DESC LIMIT ?5"
    );
    let values = params![
        status.as_str(),
        to_sql(requested_at),
        to_sql(session),
        to_sql(approval_id),
        to_sql(wanted as u64)
    ];
    let mut statement = transaction.prepare_cached(&query)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        let session_id = rows::session_id(row, APPROVAL_COLUMNS_LEN + 1)?;
        found.push(keyed_approval(session_id, row)?);
    }
    Ok(())
}

fn approvals_of_session(
    transaction: &Transaction<'_>,
    session_id: SessionId,
    before: [u64; 3],
) -> Result<Vec<Keyed<ApprovalRow, 3>>, ReadError> {
    let key: Option<i64> = transaction
        .prepare_cached("SELECT key FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.to_string()], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(Vec::new()) };
    let query = format!("SELECT {APPROVAL_COLUMNS}, session FROM approvals WHERE session = ?1");
    let mut statement = transaction.prepare_cached(&query)?;
    let all = statement.query_map([key], |row| keyed_approval(session_id, row))?;
    let mut found = all.collect::<rusqlite::Result<Vec<_>>>()?;
    found.retain(|it| it.keys < before);
    Ok(found)
}

fn keyed_approval(session_id: SessionId, row: &Row<'_>) -> rusqlite::Result<Keyed<ApprovalRow, 3>> {
    let approval = rows::approval_row(session_id, row)?;
    let key = number(row, APPROVAL_COLUMNS_LEN)?;
    Ok(Keyed { keys: [approval.requested_at.0, key, approval.approval_id.0], row: approval })
}

fn page_start<const N: usize>(list: char, page: Option<&str>) -> Result<[u64; N], StoreError> {
    match page {
        None => Ok([BEHIND_ALL; N]),
        Some(token) => PageToken::decode(list, token).map(|it| it.keys),
    }
}

/// Merges what the walks found.
fn page_of<T, const N: usize>(
    list: char,
    mut found: Vec<Keyed<T, N>>,
    wanted: usize,
) -> ListPage<T> {
    found.sort_unstable_by_key(|it| std::cmp::Reverse(it.keys));
    let has_more = found.len() >= wanted;
    found.truncate(wanted - 1);
    let end = found.last().filter(|_| has_more);
    let next_page = end.map(|it| PageToken { list, keys: it.keys }.encode());
    ListPage { rows: found.into_iter().map(|it| it.row).collect(), next_page }
}
