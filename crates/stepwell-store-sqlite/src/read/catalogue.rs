//! Reads beside sessions: agents, tools, nodes.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use stepwell_core::TimestampMs;
use stepwell_ports::{AgentRecord, NodeInfo, ToolRecord};

use super::ReadError;
use crate::rows::number;

/// Reads `name, version, definition, created_at`.
pub(crate) fn agent_record(row: &Row<'_>) -> rusqlite::Result<AgentRecord> {
    Ok(AgentRecord {
        name: row.get(0)?,
        version: row.get(1)?,
        definition: row.get(2)?,
        created_at: TimestampMs(number(row, 3)?),
    })
}

/// A definition; the latest when `version` is `None`.
pub(crate) fn agent(
    transaction: &Transaction<'_>,
    name: &str,
    version: Option<u32>,
) -> Result<Option<AgentRecord>, ReadError> {
    let found = transaction
        .prepare_cached(
            "SELECT name, version, definition, created_at FROM agents
             WHERE name = ?1 AND (?2 IS NULL OR version = ?2) ORDER BY version DESC LIMIT 1",
        )?
        .query_row(params![name, version], agent_record)
        .optional()?;
    Ok(found)
}

/// The latest version of each, by name.
pub(crate) fn agents(transaction: &Transaction<'_>) -> Result<Vec<AgentRecord>, ReadError> {
    let mut statement = transaction.prepare_cached(
        "SELECT name, version, definition, created_at FROM agents AS latest
         WHERE version = (SELECT max(version) FROM agents WHERE name = latest.name)
         ORDER BY name",
    )?;
    let found = statement.query_map([], agent_record)?.collect::<rusqlite::Result<_>>()?;
    Ok(found)
}

/// Every tool, by name.
pub(crate) fn tools(transaction: &Transaction<'_>) -> Result<Vec<ToolRecord>, ReadError> {
    let mut statement = transaction
        .prepare_cached("SELECT name, spec, worker, seen_at FROM tools ORDER BY name")?;
    let tool = |row: &Row<'_>| {
        Ok(ToolRecord {
            name: row.get(0)?,
            spec: row.get(1)?,
            worker: row.get(2)?,
            seen_at: TimestampMs(number(row, 3)?),
        })
    };
    let found = statement.query_map([], tool)?.collect::<rusqlite::Result<_>>()?;
    Ok(found)
}

/// Every node that is remembered, by name.
pub(crate) fn nodes(transaction: &Transaction<'_>) -> Result<Vec<NodeInfo>, ReadError> {
    let mut statement =
        transaction.prepare_cached("SELECT node, seen_at FROM nodes ORDER BY node")?;
    let node =
        |row: &Row<'_>| Ok(NodeInfo { node: row.get(0)?, seen_at: TimestampMs(number(row, 1)?) });
    let found = statement.query_map([], node)?.collect::<rusqlite::Result<_>>()?;
    Ok(found)
}
