//! The schema: forward-only migrations, each in a transaction, counted in `user_version`.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

/// Marks the file as ours, for `file(1)` and for us: the letters `Stwl`.
const APPLICATION_ID: i32 = 0x5374_776c;

/// Bytes of a page. Measured with steps of 3 KB (four events of 0.1 to 2 KB, many sessions at once):
/// a step takes 5.1 KB of the disk with pages of 4 KiB, 4.4 with 8 KiB, 4.1 with 16 KiB, because
/// fewer rows are left over at the ends of pages; the time of a commit is the same.
pub(crate) const PAGE_BYTES: u32 = 16_384;

/// What to run to reach the schemas 1, 2, 3 …
const MIGRATIONS: &[&str] = &[
    include_str!("../../../migrations/sqlite/0001_events.sql"),
    include_str!("../../../migrations/sqlite/0002_approvals.sql"),
    include_str!("../../../migrations/sqlite/0003_catalogue.sql"),
    include_str!("../../../migrations/sqlite/0004_lineage.sql"),
    include_str!("../../../migrations/sqlite/0005_retention.sql"),
    include_str!("../../../migrations/sqlite/0006_imports.sql"),
    include_str!("../../../migrations/sqlite/0007_checkpoints.sql"),
    include_str!("../../../migrations/sqlite/0008_forks.sql"),
    include_str!("../../../migrations/sqlite/0009_redactions.sql"),
    include_str!("../../../migrations/sqlite/0010_fork_payloads.sql"),
];

/// The release that this is.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The newest schema that this release knows.
pub(crate) fn newest() -> u32 {
    MIGRATIONS.len() as u32
}

/// What an older release ran to make a store of that schema.
#[cfg(test)]
pub(crate) fn up_to(version: u32) -> String {
    let migrations = MIGRATIONS.get(..version as usize).unwrap_or_default().concat();
    format!(
        "{migrations} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version};"
    )
}

/// What a database file is, as its header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// No tables: a file that was made and never used.
    Empty,
    /// A store of that schema.
    Store(u32),
    /// Somebody else's database.
    Foreign(String),
}

/// Looks at a database without changing it.
pub(crate) fn inspect(conn: &Connection) -> rusqlite::Result<Found> {
    let application: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if application == APPLICATION_ID {
        return Ok(if version == 0 { Found::Empty } else { Found::Store(version) });
    }
    let tables: u32 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(if application == 0 && tables == 0 {
        Found::Empty
    } else {
        Found::Foreign(format!("its application id is {application:#x}, it has {tables} objects"))
    })
}

/// The release that wrote the store last, for a message.
pub(crate) fn written_by(conn: &Connection) -> String {
    let found: rusqlite::Result<String> =
        conn.query_row("SELECT value FROM store_info WHERE name = 'written_by'", [], |row| {
            row.get(0)
        });
    found.unwrap_or_else(|_| "unknown, newer than this".to_owned())
}

/// Brings the schema up to date.
pub(crate) fn migrate(conn: &mut Connection) -> rusqlite::Result<()> {
    let mut version: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for migration in MIGRATIONS.iter().skip(version as usize) {
        let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        version += 1;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    note_release(conn)
}

/// Keeps who created the store and who wrote to it last. Writes only when that changed.
fn note_release(conn: &mut Connection) -> rusqlite::Result<()> {
    let last: Option<String> = conn
        .query_row("SELECT value FROM store_info WHERE name = 'written_by'", [], |row| row.get(0))
        .optional()?;
    if last.as_deref() == Some(RELEASE) {
        return Ok(());
    }
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "INSERT INTO store_info (name, value) VALUES ('created_by', ?1) ON CONFLICT DO NOTHING",
        [RELEASE],
    )?;
    transaction.execute(
        "INSERT INTO store_info (name, value) VALUES ('written_by', ?1)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [RELEASE],
    )?;
    transaction.commit()
}
