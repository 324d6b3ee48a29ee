-- Schema 2: the ledger. Usage by UTC day, source and model, updated in the transaction of each
-- append. Usage of sessions that leave the store stays here. A day is 'YYYY-MM-DD', or '' for a
-- time outside the calendar; model is '' if a session has none.

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

-- Usage from before there was a ledger, as an approximation: a session's totals are not split by
-- day, so all of it is dated by the start of the session. The bounds are the years 1 to 9999; times
-- are rounded down like in ledger.py.
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

-- Messages up to here are in the ledger under the day on which their session began, not their own.
-- A new store has no such messages.
INSERT INTO facts (name, value)
SELECT 'dated_by_session_to', max(number) FROM messages HAVING max(number) > 0;
