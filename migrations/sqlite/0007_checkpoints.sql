-- A past moment of a long session is found without folding all that came before it.

-- A cache: states without the texts of their prompts, one in every thousand events or so. Deleting a
-- row costs time only.
CREATE TABLE checkpoints (
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL,
    -- Size before compression.
    bytes INTEGER NOT NULL,
    -- zstd.
    state BLOB NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
