//! Looks at the payloads beside the events: each is read once, however many events refer to it.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction};
use stepwell_ports::StoreError;

use super::SessionsCheck;
use crate::error::About;
use crate::read::{self, ReadError};

/// So many damaged payloads are remembered. Behind these each is read where an event refers to it.
const REMEMBERED_MAX: usize = 100_000;

/// What is known of the payloads.
#[derive(Debug, Default)]
pub(super) struct Payloads {
    /// Why those that were read and cannot be used are none.
    damaged: HashMap<String, String>,
    /// Not all were read, or not all that are damaged are remembered.
    is_partial: bool,
}

impl Payloads {
    /// Reads all payloads, in the order of the file, one at a time.
    pub(super) fn read_all(
        folder: &Path,
        conn: &Connection,
        check: &mut SessionsCheck,
        see: &mut dyn FnMut(&SessionsCheck),
    ) -> Result<Self, StoreError> {
        let mut payloads = Self::default();
        let mut last = i64::MIN;
        loop {
            let transaction = conn.unchecked_transaction().map_err(|it| failed(folder, &it))?;
            let (row, address) = match after(&transaction, last) {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(payloads),
                Err(error) => {
                    // A page of the table is damaged: what lies behind it is looked for by name.
                    damage(failed(folder, &error))?;
                    payloads.is_partial = true;
                    return Ok(payloads);
                }
            };
            last = row;
            if let Some(reason) = unreadable(folder, &transaction, &address)? {
                payloads.remember(address, reason);
            }
            check.payloads += 1;
            see(check);
        }
    }

    fn remember(&mut self, address: String, reason: String) {
        if self.damaged.len() < REMEMBERED_MAX {
            self.damaged.insert(address, reason);
        } else {
            self.is_partial = true;
        }
    }

    /// Why a payload that an event refers to cannot be used.
    pub(super) fn unusable(
        &self,
        folder: &Path,
        transaction: &Transaction<'_>,
        address: &str,
    ) -> Result<Option<String>, StoreError> {
        if let Some(reason) = self.damaged.get(address) {
            return Ok(Some(reason.clone()));
        }
        if self.is_partial {
            return unreadable(folder, transaction, address);
        }
        let is_there = transaction
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM blobs WHERE address = ?1)")
            .and_then(|mut it| it.query_row([address], |row| row.get::<_, bool>(0)));
        let is_there = is_there.map_err(|error| failed(folder, &error))?;
        Ok((!is_there).then(|| missing(address)))
    }
}

/// The payload after `last`, by its place in the file.
fn after(transaction: &Transaction<'_>, last: i64) -> rusqlite::Result<Option<(i64, String)>> {
    transaction
        .prepare_cached("SELECT rowid, address FROM blobs WHERE rowid > ?1 ORDER BY rowid LIMIT 1")?
        .query_row([last], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Reads a payload and compares it with its address.
fn unreadable(
    folder: &Path,
    transaction: &Transaction<'_>,
    address: &str,
) -> Result<Option<String>, StoreError> {
    let reason = match read::blob(transaction, address) {
        Ok(Some(_)) => return Ok(None),
        Ok(None) => missing(address),
        Err(ReadError::Damaged(reason)) => reason,
        Err(ReadError::Sqlite(error)) => {
            format!("payload {address}: {}", damage(failed(folder, &error))?)
        }
        Err(ReadError::Store(error)) => format!("payload {address}: {}", damage(error)?),
    };
    Ok(Some(reason))
}

fn missing(address: &str) -> String {
    format!("payload {address} is missing")
}

fn failed(folder: &Path, error: &rusqlite::Error) -> StoreError {
    About::all("check").error(folder, error)
}

/// What is damaged; the error itself when the store cannot be read at all.
fn damage(error: StoreError) -> Result<String, StoreError> {
    match error {
        StoreError::Corrupt { reason, .. } => Ok(reason),
        other => Err(other),
    }
}
