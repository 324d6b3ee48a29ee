-- Schema 1. Times are epoch seconds. Ids are checked before they are stored.

CREATE TABLE sessions (
    number          INTEGER PRIMARY KEY,
    id              TEXT NOT NULL,
    source          TEXT NOT NULL,
    parent          INTEGER REFERENCES sessions (number) ON DELETE SET NULL,
    relation        TEXT CHECK (relation IN ('branch', 'continuation', 'delegate')),
    title           TEXT,
    cwd             TEXT,
    model           TEXT,
    started_at      REAL NOT NULL,
    last_active_at  REAL NOT NULL,
    ended_at        REAL,
    end_reason      TEXT,
    pinned          INTEGER NOT NULL DEFAULT 0,
    extra           TEXT,
    -- Totals of the messages, kept right in the transaction that changes those.
    message_count   INTEGER NOT NULL DEFAULT 0,
    tool_call_count INTEGER NOT NULL DEFAULT 0,
    tokens_in       INTEGER NOT NULL DEFAULT 0,
    tokens_out      INTEGER NOT NULL DEFAULT 0,
    tokens_cached   INTEGER NOT NULL DEFAULT 0,
    cost            REAL NOT NULL DEFAULT 0,
    bytes           INTEGER NOT NULL DEFAULT 0,
    CHECK ((ended_at IS NULL) = (end_reason IS NULL))
);

CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
-- Unique regardless of case: a transcript's file name may be on a case-insensitive file system.
CREATE UNIQUE INDEX sessions_by_folded_id ON sessions (id COLLATE NOCASE);
CREATE INDEX sessions_by_source ON sessions (source);
CREATE INDEX sessions_by_activity ON sessions (last_active_at);
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;

-- A gateway's key, and the session that it points to now.
CREATE TABLE routes (
    key     TEXT PRIMARY KEY,
    session INTEGER NOT NULL UNIQUE REFERENCES sessions (number) ON DELETE CASCADE
) WITHOUT ROWID;

-- `body` is the content: text unchanged, or a blob in the form given by `form`, see content.py.
-- `fields` is a JSON object with everything that most messages do not have. Both are declared BLOB
-- because that is the only type that converts nothing: the text '7' stays text.
CREATE TABLE messages (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    session   INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    role      TEXT NOT NULL,
    timestamp REAL NOT NULL,
    form      INTEGER NOT NULL,
    body      BLOB,
    fields    BLOB
);

CREATE INDEX messages_by_session ON messages (session, number);

-- Processes that hold a session open. A released lease stays, as proof that its holder let go.
CREATE TABLE leases (
    session   INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    host      TEXT NOT NULL,
    boot      TEXT NOT NULL,
    process   INTEGER NOT NULL,
    started   TEXT NOT NULL,
    heartbeat REAL NOT NULL,
    released  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, host, boot, process, started)
) WITHOUT ROWID;

-- Small facts about the store: `indexed_to` is the last message in the search index.
CREATE TABLE facts (
    name  TEXT PRIMARY KEY,
    value BLOB
) WITHOUT ROWID;

INSERT INTO facts (name, value) VALUES ('indexed_to', 0);

-- The index stores no text of its own: it refers to the messages. `search_text` is a function of
-- Holdfast, see searchable_text.py; messages after `indexed_to` are searched without the index.
CREATE VIEW indexed_text (number, text) AS
SELECT number, search_text(form, body, fields)
FROM messages
WHERE number <= (SELECT value FROM facts WHERE name = 'indexed_to');

CREATE VIRTUAL TABLE message_index USING fts5 (
    text,
    content = 'indexed_text',
    content_rowid = 'number',
    tokenize = 'unicode61 remove_diacritics 2'
);

-- The words of the index, for finding those that contain a part.
CREATE VIRTUAL TABLE index_words USING fts5vocab (message_index, 'row');
