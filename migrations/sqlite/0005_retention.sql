-- Sessions can be deleted: the row goes first, the rest of it in pieces.

-- Sessions whose row is gone while events, approvals or payloads of theirs may still be here. The
-- writer removes those when it has nothing else to do, and then the row in this table.
CREATE TABLE deletions (
    session INTEGER PRIMARY KEY
) STRICT;

-- Keys of clients whose session was deleted. They stay, so that a create that is repeated late does
-- not run its task again.
CREATE TABLE deleted_keys (
    client_key TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    request_digest TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Deleting a session finds its key by it.
CREATE INDEX client_keys_by_session ON client_keys (session);

-- Which session refers to which payload. A payload goes with the last row that names it, so nobody
-- ever has to read events to find out. Written with the events, and only for payloads.
CREATE TABLE blob_refs (
    session INTEGER NOT NULL,
    address TEXT NOT NULL,
    PRIMARY KEY (session, address)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_refs_by_address ON blob_refs (address, session);

-- What was stored before: every address is the member "blob" of an object in an event. An event that
-- is no JSON is damaged; payloads that only it names are kept for ever.
INSERT OR IGNORE INTO blob_refs (session, address)
SELECT events.session, member.value
FROM events, json_tree(CASE WHEN json_valid(events.body) THEN events.body ELSE '{}' END) AS member
WHERE instr(events.body, '"blob":') > 0 AND member.key = 'blob' AND member.type = 'text';

-- Approvals of a deleted session are removed after its row, so they may not refer to it.
CREATE TABLE approvals_kept (
    session INTEGER NOT NULL,
    -- Seq of the event that asked.
    approval_id INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    question TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    action_digest TEXT NOT NULL,
    rule TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    expires_at INTEGER,
    status TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_at INTEGER,
    reason TEXT NOT NULL,
    PRIMARY KEY (session, approval_id)
) STRICT;

INSERT INTO approvals_kept SELECT * FROM approvals;
DROP TABLE approvals;
ALTER TABLE approvals_kept RENAME TO approvals;
CREATE INDEX approvals_by_status ON approvals (status, requested_at, session, approval_id);
