-- The log is the truth, and everything else here finds or shows a part of it.
--
-- Names in the schema are read by people in the sqlite3 shell: `select * from events_readable`.
-- Times are milliseconds since 1970-01-01 UTC.

-- Who wrote this file: `created_by` and `written_by` hold releases. Kept in this form by every later
-- schema, so that an older release can say which newer one it met.
CREATE TABLE store_info (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per session: what lists show, who may write, when it must be woken.
-- All of it but owner and fence is a projection of the session's events.
CREATE TABLE sessions (
    -- Short name inside this file; also the order of creation.
    key INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL,
    -- 1 while each step writes this row (thinking, executing_tools). Such rows stand in no sorted
    -- index, so a step touches no index of this table; there are few of them at any time.
    busy INTEGER NOT NULL,
    head INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    owner TEXT NOT NULL,
    wake_at INTEGER,
    step INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    agent TEXT NOT NULL,
    agent_version INTEGER NOT NULL,
    -- JSON array of {"key", "value"}.
    labels TEXT NOT NULL,
    title TEXT NOT NULL,
    explain TEXT NOT NULL
) STRICT;

-- Lists go through it, one status at a time. The agent stands in it so that a filter on the agent
-- reads no rows that do not fit.
CREATE INDEX sessions_parked ON sessions (status, updated_at, key, agent) WHERE busy = 0;
CREATE INDEX sessions_busy ON sessions (key) WHERE busy = 1;
CREATE INDEX sessions_wake ON sessions (wake_at) WHERE busy = 0 AND wake_at IS NOT NULL;

-- A client's key gives the same session for ever.
CREATE TABLE client_keys (
    client_key TEXT PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (key),
    request_digest TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Append-only, in the order of writing: all sessions write to the same last page.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    -- Seq of the input that caused it.
    cause INTEGER NOT NULL,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    schema INTEGER NOT NULL,
    -- JSON. A payload above 16 KiB is {"blob": address, "bytes": size, "preview": text}.
    body TEXT NOT NULL
) STRICT;

-- Finds a session's events, and is the backstop against two events with one number.
CREATE UNIQUE INDEX events_by_session ON events (session, seq);

-- Large payloads, by BLAKE3 of their bytes, shared by all events that hold the same.
CREATE TABLE blobs (
    address TEXT PRIMARY KEY,
    -- Size before compression.
    bytes INTEGER NOT NULL,
    -- zstd.
    data BLOB NOT NULL
) STRICT;

-- A cache: the latest known state of a session. Deleting a row costs time only.
CREATE TABLE snapshots (
    session INTEGER PRIMARY KEY REFERENCES sessions (key),
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL,
    -- Size before compression.
    bytes INTEGER NOT NULL,
    -- zstd.
    state BLOB NOT NULL
) STRICT;

CREATE VIEW events_readable AS
SELECT
    sessions.session_id,
    events.seq,
    strftime('%Y-%m-%dT%H:%M:%fZ', events.time / 1000.0, 'unixepoch') AS time,
    events.kind,
    events.actor,
    events.cause,
    events.body
FROM events
JOIN sessions ON sessions.key = events.session;
