-- People look for open questions over all sessions; reading every log for them would be slow.

CREATE TABLE approvals (
    session INTEGER NOT NULL REFERENCES sessions (key),
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

CREATE INDEX approvals_by_status ON approvals (status, requested_at, session, approval_id);
