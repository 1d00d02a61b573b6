//! Looks for sessions that cannot be read again: an event or a payload is gone, or is not what this
//! release could have written; or that lists show otherwise than their history is.
//!
//! SQLite finds a file that contradicts itself; a row that is gone, or changed by hand, contradicts
//! nothing there. Each page is a read transaction of its own, so a server that writes is not held up.

mod payloads;
mod row;

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction};
use stepwell_core::codec;
use stepwell_core::{Actor, Seq, SessionId};
use stepwell_ports::{StoreError, StoredEvent};

use self::payloads::Payloads;
use self::row::Said;
use crate::error::About;
use crate::read::{self, ReadError};

/// Events of a page.
const PAGE_EVENTS: usize = 500;

/// So many damaged sessions are named; all are counted.
const NAMED_MAX: usize = 10;

/// A session that cannot be read to its end, or whose row does not follow from its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedSession {
    /// Its id, as it stands in the file.
    pub session_id: String,
    /// What is wrong first.
    pub reason: String,
}

/// What was read so far, and what was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionsCheck {
    /// Sessions that were read.
    pub sessions: u64,
    /// Events that were read.
    pub events: u64,
    /// Payloads beside the events that were read.
    pub payloads: u64,
    /// Sessions of them that are damaged.
    pub damaged: u64,
    /// The first of these, in the order of their creation.
    pub named: Vec<DamagedSession>,
}

/// What SQLite finds first in a file that contradicts itself, on one line; `None` when it does not.
pub(crate) fn contradiction(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let said: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    // A line with stars says which database, and there is one.
    let lines: Vec<&str> = said.lines().filter(|it| !it.starts_with("***")).collect();
    Ok((said != "ok").then(|| lines.join("; ")))
}

/// Reads every payload, and every event of every session. `see` is told after each page.
pub(crate) fn sessions(
    folder: &Path,
    conn: &Connection,
    see: &mut dyn FnMut(&SessionsCheck),
) -> Result<SessionsCheck, StoreError> {
    let mut check = SessionsCheck::default();
    let mut last = i64::MIN;
    let failed = |error| About::all("check").error(folder, &error);
    let payloads = Payloads::read_all(folder, conn, &mut check, see)?;
    let store = Reading { folder, conn, payloads };
    while let Some((key, name)) = after(conn, last).map_err(failed)? {
        last = key;
        let damage = match name.parse() {
            Ok(session_id) => store.damage_of(session_id, &mut check, see)?,
            Err(_) => Some("its id is none".to_owned()),
        };
        check.sessions += 1;
        if let Some(reason) = damage {
            check.damaged += 1;
            if check.named.len() < NAMED_MAX {
                check.named.push(DamagedSession { session_id: name, reason });
            }
        }
        see(&check);
    }
    Ok(check)
}

/// The session after `last`, by its short name.
fn after(conn: &Connection, last: i64) -> rusqlite::Result<Option<(i64, String)>> {
    conn.prepare_cached("SELECT key, session_id FROM sessions WHERE key > ?1 ORDER BY key LIMIT 1")?
        .query_row([last], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// What a page of a session came to.
struct Page {
    /// Its last event; `None` after the end.
    last: Option<Seq>,
    events: u64,
    damage: Option<String>,
}

/// The store that is read.
struct Reading<'a> {
    folder: &'a Path,
    conn: &'a Connection,
    payloads: Payloads,
}

impl Reading<'_> {
    /// What is wrong with a session; an error only when the store cannot be read at all.
    fn damage_of(
        &self,
        session_id: SessionId,
        check: &mut SessionsCheck,
        see: &mut dyn FnMut(&SessionsCheck),
    ) -> Result<Option<String>, StoreError> {
        let (mut read, mut said) = (Seq(0), Said::default());
        loop {
            let failed = match self.page(session_id, read, &mut said) {
                Ok(Page { last: Some(last), events, damage: None }) => {
                    read = last;
                    check.events += events;
                    see(check);
                    continue;
                }
                Ok(Page { damage, .. }) => return Ok(damage),
                Err(ReadError::Damaged(reason)) => return Ok(Some(reason)),
                Err(ReadError::Sqlite(error)) => {
                    About::session("check", session_id).error(self.folder, &error)
                }
                Err(ReadError::Store(error)) => error,
            };
            return match failed {
                StoreError::Corrupt { reason, .. } => Ok(Some(reason)),
                other => Err(other),
            };
        }
    }

    fn page(&self, session_id: SessionId, after: Seq, said: &mut Said) -> Result<Page, ReadError> {
        let transaction = self.conn.unchecked_transaction()?;
        let events = read::events(&transaction, session_id, after, PAGE_EVENTS)?.events;
        let mut damage = None;
        for event in &events {
            if let Some(reason) = self.unreadable(&transaction, event, said)? {
                damage = Some(format!("event {}: {reason}", event.seq));
                break;
            }
        }
        let last = events.last().map(|it| it.seq);
        if last.is_none() {
            damage = said.contradiction(&transaction, session_id, after)?;
        }
        Ok(Page { last, events: events.len() as u64, damage })
    }

    /// Why this release cannot read an event; notes what it says.
    fn unreadable(
        &self,
        transaction: &Transaction<'_>,
        event: &StoredEvent,
        said: &mut Said,
    ) -> Result<Option<String>, StoreError> {
        if let Err(error) = event.actor.parse::<Actor>() {
            return Ok(Some(error.to_string()));
        }
        let mut body = match codec::decode(&event.kind, event.schema, &event.body) {
            Ok(body) => body,
            Err(error) => return Ok(Some(error.to_string())),
        };
        said.see(&body);
        for payload in codec::payloads(&mut body) {
            let reason = self.payloads.unusable(self.folder, transaction, &payload.blob.blob)?;
            if reason.is_some() {
                return Ok(reason);
            }
        }
        Ok(None)
    }
}
