-- Sessions are created by the name of an agent and with the tools of workers that may be away.

-- Every version of every agent definition, as its author wrote it.
CREATE TABLE agents (
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    definition TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) STRICT;

-- Every tool that some worker registered; `spec` is JSON.
CREATE TABLE tools (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL,
    worker TEXT NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT;

-- Server processes and their last signs of life.
CREATE TABLE nodes (
    node TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
