-- A fork is listed with the session whose beginning it shares.

ALTER TABLE sessions ADD COLUMN parent TEXT;
ALTER TABLE sessions ADD COLUMN parent_seq INTEGER;
