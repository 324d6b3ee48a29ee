-- Schema 4: lists go by when a session was last used, and its end counts. Spelled as in
-- session_rows.py: SQLite takes an index on an expression for the same expression alone.
CREATE INDEX sessions_by_last_use
    ON sessions (max(last_active_at, coalesce(ended_at, last_active_at)));
