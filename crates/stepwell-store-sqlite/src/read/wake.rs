//! Which sessions need their owner, and when the next one will.

use rusqlite::Transaction;
use stepwell_core::{Fence, TimestampMs};
use stepwell_ports::Claim;
use stepwell_ports::memory::page_rows;

use super::ReadError;
use crate::rows::{self, number, to_sql};

/// Parked sessions that must be woken after the one time and until the other, earliest first.
pub(crate) const DUE_PARKED: &str = "SELECT wake_at, key, session_id, fence, owner FROM sessions \
     WHERE busy = 0 AND wake_at IS NOT NULL AND wake_at > ?1 AND wake_at <= ?2 \
     ORDER BY wake_at, key";

/// Busy sessions that must be woken after the one time and until the other; few.
pub(crate) const DUE_BUSY: &str = "SELECT wake_at, key, session_id, fence, owner FROM sessions \
     WHERE busy = 1 AND wake_at > ?1 AND wake_at <= ?2";

/// Before all times, for [`DUE_PARKED`] and [`DUE_BUSY`].
pub(crate) const BEFORE_ALL: i64 = -1;

/// The time of sessions that have work now: their owner has them in memory.
const HAS_WORK: i64 = 0;

/// The next time of a parked session.
pub(crate) const NEXT_PARKED: &str = "SELECT min(wake_at) FROM sessions \
     WHERE busy = 0 AND wake_at IS NOT NULL AND wake_at > ?1";

/// The next time of a busy session.
pub(crate) const NEXT_BUSY: &str =
    "SELECT min(wake_at) FROM sessions WHERE busy = 1 AND wake_at > ?1";

/// Parked sessions of `owner` whose timer is due at `now`, earliest first.
pub(crate) fn due(
    transaction: &Transaction<'_>,
    owner: &str,
    now: TimestampMs,
    limit: usize,
) -> Result<Vec<Claim>, ReadError> {
    let limit = page_rows(limit);
    let mut due = Vec::new();
    for (query, is_sorted) in [(DUE_PARKED, true), (DUE_BUSY, false)] {
        let mut statement = transaction.prepare_cached(query)?;
        let mut found = statement.query([HAS_WORK, to_sql(now.0)])?;
        let mut taken = 0;
        while let Some(row) = found.next()? {
            if row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)? != owner {
                continue;
            }
            let session_id = rows::session_id(row, 2)?;
            let claim = Claim { session_id, fence: Fence(number(row, 3)?) };
            due.push((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, claim));
            taken += 1;
            if is_sorted && taken == limit {
                break;
            }
        }
    }
    due.sort_unstable_by_key(|(wake_at, key, _)| (*wake_at, *key));
    Ok(due.into_iter().take(limit).map(|(_, _, claim)| claim).collect())
}

/// The earliest time after `after` at which a session needs an owner.
pub(crate) fn next_wake(
    transaction: &Transaction<'_>,
    after: TimestampMs,
) -> Result<Option<TimestampMs>, ReadError> {
    let mut earliest: Option<i64> = None;
    for query in [NEXT_PARKED, NEXT_BUSY] {
        let found: Option<i64> =
            transaction.prepare_cached(query)?.query_row([to_sql(after.0)], |row| row.get(0))?;
        earliest = [earliest, found].into_iter().flatten().min();
    }
    Ok(earliest.and_then(|it| u64::try_from(it).ok()).map(TimestampMs))
}
