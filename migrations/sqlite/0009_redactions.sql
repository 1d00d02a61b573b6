-- Whether texts were taken out of a session before it came here stands in no event of it.

-- Sessions that were brought in from a redacted file, and forks of them. Of sessions that came before
-- this table was made nobody knows it any more.
CREATE TABLE redactions (
    session INTEGER PRIMARY KEY REFERENCES sessions (key),
    -- The last event that may have lost something.
    last INTEGER NOT NULL,
    -- Hash of that event in the chain of the original history, as the file said.
    original_head TEXT
) STRICT;
