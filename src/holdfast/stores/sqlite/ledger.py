"""The ledger: usage by day, source and model, whatever is removed from the store.

A message is booked once, in the transaction that stores it, and so is what a guard books. Usage of
removed sessions stays booked, and what comes back from the trash or the archive is not booked
again. Only if another session replaces a session is the old one's usage taken off: the new one's
counts instead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from holdfast.model.guard import Booked
from holdfast.model.session import Message, Session, Tokens
from holdfast.model.usage import Usage, UsageEntry
from holdfast.model.utc_day import utc_day
from holdfast.stores.sessions.content import text_or_torn
from holdfast.stores.sessions.ledger import NO_COST, Key, booked, usage_of_row, used_by
from holdfast.stores.sessions.session_rows import (
    COUNTS,
    GUARDED,
    UNPRICED,
    counts,
    each,
    is_booked,
    load_booked,
    usage_of,
)

TABLE = "ledger"
KEYS = ("day", "source", "model")
#: Name of the fact that says up to which message usage is dated by its session, see schema_2.sql.
DATED_BY_SESSION_TO = "dated_by_session_to"


def _added(count: str) -> str:
    """A sum of costs may be infinite. The difference of two infinities is NaN, which SQLite stores
    as NULL."""
    return f"coalesce({count} + excluded.{count}, 0)"


def _added_unpriced(count: str) -> str:
    """At least 0 and at most all tokens: for what an older version stored, the counts are only
    approximate, so taking a session off may take too many."""
    return f"max(0, min({_added(count.replace('unpriced', 'tokens'))}, {_added(count)}))"


_BOOK = f"""
    INSERT INTO ledger (day, source, model, {", ".join(COUNTS)})
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (day, source, model) DO UPDATE SET
        {", ".join(f"{count} = {_added(count)}" for count in COUNTS if count not in UNPRICED)},
        {", ".join(f"{count} = {_added_unpriced(count)}" for count in UNPRICED)}
"""  # noqa: S608 - our own names
_STORED = """
    SELECT m.session, s.source, coalesce(s.model, ''), s.started_at, m.number, m.role,
           m.timestamp, m.form, m.fields
    FROM messages m JOIN sessions s ON s.number = m.session
    WHERE m.fields IS NOT NULL
"""


def book(db: sqlite3.Connection, session: Session, messages: Iterable[Message], now: float) -> None:
    """Add the usage of a session's new messages. Most appends are one message, or messages of one
    day."""
    for key, usage in used_by(session, messages, now).items():
        add(db, key, usage)


def take_off(db: sqlite3.Connection, session: int) -> None:
    """Undo what the messages of a stored session added."""
    for key, usage in booked(stored(db, session)).items():
        add(db, key, _minus(usage))
        db.execute(
            """
            DELETE FROM ledger WHERE day = ? AND source = ? AND model = ?
                AND tokens_in = 0 AND tokens_out = 0 AND tokens_cached = 0 AND abs(cost) < ?
            """,
            (*key, NO_COST),
        )


def fill(db: sqlite3.Connection) -> None:
    """Create missing rows from the stored messages. Existing rows stay: they include removed
    sessions."""
    for key, usage in booked(stored(db)).items():
        there = "SELECT 1 FROM ledger WHERE day = ? AND source = ? AND model = ?"
        if not db.execute(there, key).fetchone():
            add(db, key, usage)


def entries(db: sqlite3.Connection, on: str | None = None) -> list[UsageEntry]:
    """The entries of all days, or of one."""
    names = ", ".join((*KEYS, *COUNTS))
    condition, parameters = ("1", ()) if on is None else ("day = ?", (on,))
    rows = db.execute(f"SELECT {names} FROM ledger WHERE {condition}", parameters)  # noqa: S608 - our own names
    return [
        UsageEntry(day=day or None, source=source, model=model or None, usage=usage_of(sums))
        for day, source, model, *sums in rows
    ]


def stored(db: sqlite3.Connection, only: int | None = None) -> Iterator[tuple[int, Key, Usage]]:
    """The usage of each stored message and what guards booked, with the session and the key in the
    ledger. Data that cannot be read back adds nothing."""
    [to] = db.execute(
        "SELECT max(value) FROM facts WHERE name = ?", (DATED_BY_SESSION_TO,)
    ).fetchone()
    rows = (
        db.execute(_STORED) if only is None else db.execute(f"{_STORED} AND m.session = ?", (only,))
    )
    for session, source, model, started_at, *columns in rows:
        number, _, timestamp, _, _ = columns
        found = usage_of_row(model, *columns)
        if found is not None:
            used_model, usage = found
            on = utc_day(started_at if number <= (to or 0) else timestamp)
            yield session, (on, source, used_model), usage
    for session, source, guarded in all_booked(db, only):
        yield session, (guarded.day, source, guarded.model), guarded.usage


def add(db: sqlite3.Connection, key: Key, usage: Usage) -> None:
    db.execute(_BOOK, (*key, *counts(usage)))


def _minus(usage: Usage) -> Usage:
    return usage_of([-count for count in counts(usage)])


# --- Tokens that came without a cost --------------------------------------------------------------


def count_unpriced(db: sqlite3.Connection) -> None:
    """Count unpriced tokens in the ledger of a store that did not. Call it inside a transaction.

    Stored messages say themselves whether they have a cost. Of removed ones only the sums are left;
    as an approximation, they came without a cost if all of them together have none.
    """
    before, db.text_factory = db.text_factory, text_or_torn
    try:
        by_key = booked(stored(db))
    finally:
        db.text_factory = before
    names = ", ".join((*KEYS, *COUNTS))
    for on, source, model, *sums in db.execute(f"SELECT {names} FROM ledger").fetchall():  # noqa: S608 - our own names
        here = by_key.get((on, source, model), Usage())
        gone = usage_of(sums).plus(_minus(here))
        unpriced = here.unpriced.plus(gone.tokens) if abs(gone.cost) < NO_COST else here.unpriced
        db.execute(
            "UPDATE ledger SET unpriced_in = ?, unpriced_out = ?, unpriced_cached = ? "
            "WHERE day = ? AND source = ? AND model = ?",
            (*(max(0, count) for count in each(unpriced)), on, source, model),
        )


def recount_unpriced(db: sqlite3.Connection, session: int) -> None:
    """Count the unpriced tokens of a session restored from a copy without that count."""
    sums = Tokens()
    for _, _, usage in stored(db, session):
        sums = sums.plus(usage.unpriced)
    db.execute(
        "UPDATE sessions SET unpriced_in = ?, unpriced_out = ?, unpriced_cached = ? "
        "WHERE number = ?",
        (*each(sums), session),
    )


def all_booked(
    db: sqlite3.Connection, only: int | None = None
) -> Iterator[tuple[int, str, Booked]]:
    """What guards booked in each session, with its number and source. A store of an older version
    has none. Data that cannot be read back is left out."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (GUARDED,)).fetchone():
        return
    condition, values = ("", ()) if only is None else (" AND g.session = ?", (only,))
    rows = db.execute(
        f"""
        SELECT g.session, s.source, g.booked
        FROM guarded g JOIN sessions s ON s.number = g.session
        WHERE g.booked IS NOT NULL{condition}
        """,  # noqa: S608 - our own text
        values,
    )
    for session, source, text in rows:
        if is_booked(text):
            for each in load_booked(text):
                yield session, source, each
