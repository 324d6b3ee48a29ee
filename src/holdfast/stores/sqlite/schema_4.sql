-- Schema 4: lists are ordered by the last use of a session, which includes its end. The expression
-- must be spelled as in session_rows.py: SQLite uses an index on an expression only for the same
-- expression.
CREATE INDEX sessions_by_last_use
    ON sessions (max(last_active_at, coalesce(ended_at, last_active_at)));
