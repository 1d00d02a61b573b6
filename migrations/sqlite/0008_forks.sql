-- The forks of a session are found without looking at every session.

CREATE INDEX sessions_forks ON sessions (parent, updated_at, key) WHERE parent IS NOT NULL;
