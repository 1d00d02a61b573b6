-- A history that is brought in from elsewhere is longer than one transaction may be; nobody may see a
-- half of it, and a crash must leave nothing of it.

-- Sessions that are being brought in. Their events stand in `events` under a key that no row of
-- `sessions` has yet. What is still here when the store is opened was cut off by the end of its
-- process, and is deleted with its events.
CREATE TABLE imports (
    -- Will be the session's key.
    key INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    head INTEGER NOT NULL
) STRICT;
