"""The ledger: what was used by day, source and model, whatever is removed from the store.

A message is booked once, in the transaction that stores it, and so is what a guard books. Removed
sessions stay booked, and what comes back from the trash or the archive is not booked again. Only a
session that another one replaces is taken off: then the other is what was used.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime

from holdfast.model.session import Message, Session, Tokens
from holdfast.model.usage import Usage, UsageEntry
from holdfast.policy.rules import DAY
from holdfast.stores.sqlite.content import FIELDS_ARE_PACKED, Stored, readable, text_or_torn
from holdfast.stores.sqlite.session_rows import COUNTS, UNPRICED, all_booked, counts, each, usage_of

TABLE = "ledger"
KEYS = ("day", "source", "model")
#: The fact that says up to which message the day is that of the session, see schema_2.sql.
DATED_BY_SESSION_TO = "dated_by_session_to"

Key = tuple[str, str, str]

_EPOCH = datetime.fromtimestamp(0, UTC).toordinal()
_LAST = date.max.toordinal()
#: Less than this is what taking a fraction off a sum of fractions leaves.
NO_COST = 1e-9


def _added(count: str) -> str:
    """A sum of costs may be infinite; two of those taken from each other are no number, which
    SQLite stores as NULL."""
    return f"coalesce({count} + excluded.{count}, 0)"


def _added_unpriced(count: str) -> str:
    """At least none and at most all tokens: for what an older version stored they are nearly
    right, so that taking a session off may take too many."""
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


def day(timestamp: float) -> str:
    """The UTC day of a time; '' for one outside the calendar."""
    number = _EPOCH + timestamp // DAY
    return date.fromordinal(int(number)).isoformat() if 1 <= number <= _LAST else ""


def book(db: sqlite3.Connection, session: Session, messages: Iterable[Message], now: float) -> None:
    """Add what new messages of a session used. Most appends are one message, or one day's."""
    for key, usage in used_by(session, messages, now).items():
        add(db, key, usage)


def used_by(session: Session, messages: Iterable[Message], now: float) -> Mapping[Key, Usage]:
    """What new messages of a session used, by their place in the ledger."""
    used: dict[Key, Usage] = {}
    for message in messages:
        usage = _usage(message)
        if usage is not None:
            on = day(now if message.timestamp is None else message.timestamp)
            key = on, session.source, _model(message, session.model or "")
            used[key] = used[key].plus(usage) if key in used else usage
    return used


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
    """Create missing rows from the stored messages. Existing rows stay:
    they include removed sessions."""
    for key, usage in booked(stored(db)).items():
        there = "SELECT 1 FROM ledger WHERE day = ? AND source = ? AND model = ?"
        if not db.execute(there, key).fetchone():
            add(db, key, usage)


def entries(db: sqlite3.Connection, on: str | None = None) -> list[UsageEntry]:
    """Line by line, of all days or of one."""
    names = ", ".join((*KEYS, *COUNTS))
    condition, parameters = ("1", ()) if on is None else ("day = ?", (on,))
    rows = db.execute(f"SELECT {names} FROM ledger WHERE {condition}", parameters)  # noqa: S608 - our own names
    return [
        UsageEntry(day=day or None, source=source, model=model or None, usage=usage_of(sums))
        for day, source, model, *sums in rows
    ]


def booked(used: Iterable[tuple[int, Key, Usage]]) -> Mapping[Key, Usage]:
    """What stored messages have in the ledger."""
    sums: dict[Key, Usage] = {}
    for _, key, usage in used:
        sums[key] = sums[key].plus(usage) if key in sums else usage
    return sums


def stored(db: sqlite3.Connection, only: int | None = None) -> Iterator[tuple[int, Key, Usage]]:
    """What each stored message used, and what guards booked as well, with the session and the
    place in the ledger. What cannot be read back adds nothing there."""
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
            on = day(started_at if number <= (to or 0) else timestamp)
            yield session, (on, source, used_model), usage
    for session, source, booked in all_booked(db, only):
        yield session, (booked.day, source, booked.model), booked.usage


def usage_of_row(
    model: str, number: int, role: str, timestamp: float, form: int, fields: Stored
) -> tuple[str, Usage] | None:
    """What a stored message used, and of which model; None for nothing, or what cannot be read."""
    # Usage is among the fields, so the text need not be unpacked.
    message = readable(number, role, timestamp, form & FIELDS_ARE_PACKED, None, fields)
    usage = None if message is None else _usage(message)
    return None if message is None or usage is None else (_model(message, model), usage)


def _usage(message: Message) -> Usage | None:
    """None for a message that used nothing: it must not cost a page of the ledger."""
    tokens = message.usage
    if tokens.input or tokens.output or tokens.cached or message.cost:
        return Usage(tokens=tokens, cost=message.cost or 0.0, unpriced=message.unpriced)
    return None


def _model(message: Message, of_session: str) -> str:
    """The model that was used: the session may have another one since."""
    return of_session if message.model is None else message.model


def add(db: sqlite3.Connection, key: Key, usage: Usage) -> None:
    db.execute(_BOOK, (*key, *counts(usage)))


def _minus(usage: Usage) -> Usage:
    return usage_of([-count for count in counts(usage)])


# --- Tokens that came without a cost --------------------------------------------------------------


def count_unpriced(db: sqlite3.Connection) -> None:
    """Count them in the ledger of a store that did not. Inside a transaction.

    Messages that are there say it themselves. Of those that are gone only the sums are left: nearly
    right, they came without a cost if all of them together have none."""
    before, db.text_factory = db.text_factory, text_or_torn
    try:
        by_key = booked(stored(db))
    finally:
        db.text_factory = before
    names = ", ".join((*KEYS, *COUNTS))
    for day, source, model, *sums in db.execute(f"SELECT {names} FROM ledger").fetchall():  # noqa: S608 - our own names
        here = by_key.get((day, source, model), Usage())
        gone = usage_of(sums).plus(_minus(here))
        unpriced = here.unpriced.plus(gone.tokens) if abs(gone.cost) < NO_COST else here.unpriced
        db.execute(
            "UPDATE ledger SET unpriced_in = ?, unpriced_out = ?, unpriced_cached = ? "
            "WHERE day = ? AND source = ? AND model = ?",
            (*(max(0, count) for count in each(unpriced)), day, source, model),
        )


def recount_unpriced(db: sqlite3.Connection, session: int) -> None:
    """Count those of one session that comes back from a copy which does not say."""
    sums = Tokens()
    for _, _, usage in stored(db, session):
        sums = sums.plus(usage.unpriced)
    db.execute(
        "UPDATE sessions SET unpriced_in = ?, unpriced_out = ?, unpriced_cached = ? "
        "WHERE number = ?",
        (*each(sums), session),
    )
