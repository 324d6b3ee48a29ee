-- Schema 2: the ledger. What was used, by UTC day, source and model, kept in the transaction of
-- each append. Sessions that leave the store leave their usage here. A day is 'YYYY-MM-DD', or ''
-- for a time that no calendar has; model is '' where a session has none.

CREATE TABLE ledger (
    day           TEXT NOT NULL,
    source        TEXT NOT NULL,
    model         TEXT NOT NULL,
    tokens_in     INTEGER NOT NULL,
    tokens_out    INTEGER NOT NULL,
    tokens_cached INTEGER NOT NULL,
    cost          REAL NOT NULL,
    PRIMARY KEY (day, source, model)
) WITHOUT ROWID;

-- What was used before there was a ledger. Nearly right: a session's totals say nothing of days, so
-- all of it goes to the day on which the session began. The bounds are the years 1 to 9999; the
-- time is rounded down as ledger.py does it.
INSERT INTO ledger (day, source, model, tokens_in, tokens_out, tokens_cached, cost)
SELECT
    CASE WHEN started_at >= -62135596800 AND started_at < 253402300800 THEN
        date(
            CAST(started_at AS INTEGER) - (started_at < CAST(started_at AS INTEGER)), 'unixepoch'
        )
    ELSE '' END AS begun,
    source, coalesce(model, '') AS used,
    sum(tokens_in), sum(tokens_out), sum(tokens_cached), sum(cost)
FROM sessions
WHERE tokens_in <> 0 OR tokens_out <> 0 OR tokens_cached <> 0 OR cost <> 0
GROUP BY begun, source, used;

-- Up to here messages are in the ledger on the day on which their session began, and not on their
-- own. A new store has no such messages.
INSERT INTO facts (name, value)
SELECT 'dated_by_session_to', max(number) FROM messages HAVING max(number) > 0;
