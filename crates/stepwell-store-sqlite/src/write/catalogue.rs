//! Writes beside sessions: agents, tools, nodes.

use rusqlite::{Connection, OptionalExtension as _, params};
use stepwell_core::TimestampMs;
use stepwell_ports::store::NODES_KEPT;
use stepwell_ports::{AgentRecord, ToolRecord};

use crate::read::agent_record;
use crate::rows::to_sql;

/// Stores a definition as the next version, unless it is the latest one.
pub(crate) fn put_agent(
    conn: &Connection,
    name: &str,
    definition: &str,
    now: TimestampMs,
) -> rusqlite::Result<AgentRecord> {
    let latest = conn
        .prepare_cached(
            "SELECT name, version, definition, created_at FROM agents
             WHERE name = ?1 ORDER BY version DESC LIMIT 1",
        )?
        .query_row([name], agent_record)
        .optional()?;
    let version = match latest {
        Some(latest) if latest.definition == definition => return Ok(latest),
        Some(latest) => latest.version.saturating_add(1),
        None => 1,
    };
    conn.prepare_cached(
        "INSERT INTO agents (name, version, definition, created_at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![name, version, definition, to_sql(now.0)])?;
    Ok(AgentRecord {
        name: name.to_owned(),
        version,
        definition: definition.to_owned(),
        created_at: now,
    })
}

/// Remembers tools.
pub(crate) fn put_tools(conn: &Connection, tools: &[ToolRecord]) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO tools (name, spec, worker, seen_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE
         SET spec = excluded.spec, worker = excluded.worker, seen_at = excluded.seen_at",
    )?;
    for tool in tools {
        statement.execute(params![tool.name, tool.spec, tool.worker, to_sql(tool.seen_at.0)])?;
    }
    Ok(())
}

/// Writes a sign of life, and forgets the oldest nodes when a new one makes them too many.
pub(crate) fn beat(conn: &Connection, node: &str, now: TimestampMs) -> rusqlite::Result<()> {
    let is_known = conn
        .prepare_cached("UPDATE nodes SET seen_at = ?2 WHERE node = ?1")?
        .execute(params![node, to_sql(now.0)])?
        > 0;
    if is_known {
        return Ok(());
    }
    conn.execute(
        "INSERT INTO nodes (node, seen_at) VALUES (?1, ?2)",
        params![node, to_sql(now.0)],
    )?;
    conn.execute(
        "DELETE FROM nodes WHERE node IN
         (SELECT node FROM nodes ORDER BY seen_at DESC, node DESC LIMIT -1 OFFSET ?1)",
        [to_sql(NODES_KEPT as u64)],
    )?;
    Ok(())
}
