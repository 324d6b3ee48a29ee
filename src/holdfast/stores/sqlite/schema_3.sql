-- Schema 3: what the guards need, and which tokens came without a cost.

-- Tokens of messages that came without a cost: they cost an unknown amount, not 0. Kept right in
-- the transaction that adds messages, as the other totals are.
ALTER TABLE sessions ADD COLUMN unpriced_in INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN unpriced_out INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN unpriced_cached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN unpriced_in INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN unpriced_out INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN unpriced_cached INTEGER NOT NULL DEFAULT 0;

-- What was stored before. Nearly right, from the sums alone: to read every message would hold up
-- whoever opens a large store for minutes. A session that has no cost was told none.
UPDATE sessions SET
    unpriced_in = tokens_in, unpriced_out = tokens_out, unpriced_cached = tokens_cached
WHERE cost = 0 AND (tokens_in <> 0 OR tokens_out <> 0 OR tokens_cached <> 0);

-- So it is with a row of the ledger. One that has a cost holds, of what sessions were told none of,
-- that of those which began on its day. The day of a time is that of schema 2.
UPDATE ledger SET
    unpriced_in = tokens_in, unpriced_out = tokens_out, unpriced_cached = tokens_cached
WHERE abs(cost) < 1e-9;

UPDATE ledger SET
    unpriced_in = max(0, min(tokens_in, s.unpriced_in)),
    unpriced_out = max(0, min(tokens_out, s.unpriced_out)),
    unpriced_cached = max(0, min(tokens_cached, s.unpriced_cached))
FROM (
    SELECT
        CASE WHEN started_at >= -62135596800 AND started_at < 253402300800 THEN
            date(
                CAST(started_at AS INTEGER) - (started_at < CAST(started_at AS INTEGER)),
                'unixepoch'
            )
        ELSE '' END AS begun,
        source, coalesce(model, '') AS used, sum(unpriced_in) AS unpriced_in,
        sum(unpriced_out) AS unpriced_out, sum(unpriced_cached) AS unpriced_cached
    FROM sessions
    WHERE unpriced_in <> 0 OR unpriced_out <> 0 OR unpriced_cached <> 0
    GROUP BY begun, source, used
) s
WHERE ledger.day = s.begun AND ledger.source = s.source AND ledger.model = s.used
    AND abs(ledger.cost) >= 1e-9;

-- Up to here it was not counted message by message. A new store has no such messages.
INSERT INTO facts (name, value)
SELECT 'unpriced_by_session_to', max(number) FROM messages HAVING max(number) > 0;

-- The open ones among many that have ended. By source, which does not change: by activity, every
-- append would have to write to it.
CREATE INDEX sessions_open ON sessions (source) WHERE ended_at IS NULL;

-- What guards keep of a session that had one; see guard_book.py. `booked` is a JSON list: what was used
-- in the session and no message carries, by UTC day and model; it is in the session's totals and in
-- the ledger too. `boot` and `ticked` are when its clock was last read, as that machine counts.
CREATE TABLE guarded (
    session    INTEGER PRIMARY KEY REFERENCES sessions (number) ON DELETE CASCADE,
    iterations INTEGER NOT NULL DEFAULT 0,
    seconds    REAL NOT NULL DEFAULT 0,
    booked     TEXT,
    boot       TEXT,
    ticked     REAL,
    samples    TEXT,
    warned     TEXT
);

-- Calls in flight: who made them, and what they are expected to use. No number is used twice, so
-- that a call which was given up on cannot be taken for a later one.
CREATE TABLE reservations (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    session    INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    host       TEXT NOT NULL,
    boot       TEXT NOT NULL,
    process    INTEGER NOT NULL,
    started    TEXT NOT NULL,
    made_at    REAL NOT NULL,
    tokens_in  INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost       REAL NOT NULL
);

CREATE INDEX reservations_by_session ON reservations (session);
