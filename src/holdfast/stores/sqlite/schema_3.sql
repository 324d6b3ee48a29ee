-- Schema 3: the tables of guards, and the tokens that came without a cost.

-- Tokens of messages that came without a cost: they cost an unknown amount, not 0. Updated in the
-- transaction that adds messages, like the other totals.
ALTER TABLE sessions ADD COLUMN unpriced_in INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN unpriced_out INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN unpriced_cached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN unpriced_in INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN unpriced_out INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN unpriced_cached INTEGER NOT NULL DEFAULT 0;

-- Data stored before, approximated from the sums: reading every message would block the opening of
-- a large store for minutes. If a session has no cost, all its tokens came without one.
UPDATE sessions SET
    unpriced_in = tokens_in, unpriced_out = tokens_out, unpriced_cached = tokens_cached
WHERE cost = 0 AND (tokens_in <> 0 OR tokens_out <> 0 OR tokens_cached <> 0);

-- The same for a row of the ledger. If a row has a cost, its unpriced tokens are those of the
-- sessions without a cost that began on its day. Days are computed as in schema 2.
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

-- Up to here tokens were not counted message by message. A new store has no such messages.
INSERT INTO facts (name, value)
SELECT 'unpriced_by_session_to', max(number) FROM messages HAVING max(number) > 0;

-- Finds the few open sessions among many ended ones. By source, which does not change: an index on
-- activity would be written by every append.
CREATE INDEX sessions_open ON sessions (source) WHERE ended_at IS NULL;

-- Guards' records about sessions; see guard_book.py. `booked` is a JSON list of usage in the
-- session that no message carries, by UTC day and model; it is also in the session's totals and in
-- the ledger. `boot` and `ticked` are the last reading of the session's clock, on that machine.
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

-- Calls in flight: their process, and their expected usage. Numbers are never reused, so a call
-- that was given up cannot be taken for a later one.
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
