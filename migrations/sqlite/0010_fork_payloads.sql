-- A fork refers to the payloads of its own events. Before, it was given all those of its parent, so that
-- what the parent came to later outlived the parent.

CREATE TEMP TABLE unneeded AS
SELECT refs.session, refs.address
FROM sessions JOIN blob_refs AS refs ON refs.session = sessions.key
WHERE sessions.parent IS NOT NULL
    -- An event that is no JSON is damaged: what it named cannot be known, and is kept.
    AND NOT EXISTS (
        SELECT 1 FROM events WHERE events.session = refs.session AND NOT json_valid(events.body))
    AND refs.address NOT IN (
        SELECT member.value FROM events, json_tree(events.body) AS member
        WHERE events.session = refs.session
            -- An imported event is kept as it was written: the name may have escapes.
            AND (instr(events.body, '"blob"') > 0 OR instr(events.body, '\u006') > 0)
            AND member.key = 'blob' AND member.type = 'text');

DELETE FROM blob_refs WHERE (session, address) IN (SELECT session, address FROM unneeded);

DELETE FROM blobs
WHERE address IN (SELECT address FROM unneeded)
    AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob_refs.address = blobs.address);

DROP TABLE unneeded;
