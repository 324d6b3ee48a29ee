"""Recounts the totals of sessions and finds the messages that cannot be read.

One walk over all messages, in memory that does not grow with their number: the counts are kept in
temporary tables of the connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from holdfast.stores.sessions.content import message_counts, readable, size, text_or_torn
from holdfast.stores.sessions.session_rows import TOTALS, UNPRICED, counts
from holdfast.stores.sqlite.ledger import all_booked

_MOST_IN_MEMORY = 2_000
_TELL_EVERY = 500
#: Name of the fact that says up to which message unpriced counts are derived from the sums of
#: sessions, see schema_3.sql.
UNPRICED_BY_SESSION_TO = "unpriced_by_session_to"

_MAKE = f"""
    DROP TABLE IF EXISTS temp.tally;
    DROP TABLE IF EXISTS temp.unreadable;
    CREATE TEMP TABLE unreadable (number INTEGER PRIMARY KEY);
    CREATE TEMP TABLE tally (session INTEGER PRIMARY KEY, {", ".join(TOTALS)});
"""
_ADD = f"""
    INSERT INTO temp.tally (session, {", ".join(TOTALS)})
    VALUES (?, {", ".join("?" * len(TOTALS))})
    ON CONFLICT (session) DO UPDATE SET
    {", ".join(f"{column} = {column} + excluded.{column}" for column in TOTALS)}
"""  # noqa: S608 - our own names


def tally(db: sqlite3.Connection, tell: Callable[[int], None]) -> None:
    """Count everything, for the other functions here. Call it inside a transaction."""
    for statement in _MAKE.split(";"):
        db.execute(statement)  # `executescript` would end the transaction
    db.execute(
        f"INSERT INTO temp.tally SELECT number, {', '.join('0' * len(TOTALS))} FROM sessions"  # noqa: S608 - our own names
    )
    _add_booked(db)
    before, db.text_factory = db.text_factory, text_or_torn
    try:
        _walk(db, tell)
    finally:
        db.text_factory = before


def unreadable(db: sqlite3.Connection) -> tuple[int, int | None]:
    """The number of messages that cannot be read back, and the number of the first one."""
    count, first = db.execute("SELECT count(*), min(number) FROM temp.unreadable").fetchone()
    return count, first


def wrong(db: sqlite3.Connection) -> tuple[int, str | None]:
    """The number of sessions whose totals do not match their messages, and the id of one."""
    count, first = db.execute(f"SELECT count(*), min(s.id) {_wrong(db)}").fetchone()
    return count, first


def correct(db: sqlite3.Connection) -> int:
    """Correct wrong totals; return in how many sessions."""
    columns = ", ".join(TOTALS)
    return db.execute(
        f"""
        UPDATE sessions SET ({columns}) =
            (SELECT {columns} FROM temp.tally WHERE session = sessions.number)
        WHERE number IN (SELECT s.number {_wrong(db)})
        """  # noqa: S608 - our own names
    ).rowcount


def _wrong(db: sqlite3.Connection) -> str:
    """The sessions with wrong totals. In a store of an older version, only its own columns are
    checked."""
    there = {row[1] for row in db.execute("PRAGMA table_info(sessions)")}
    differs = " OR ".join(_differs(db, column) for column in TOTALS if column in there)
    return f"FROM sessions s JOIN temp.tally t ON t.session = s.number WHERE {differs}"


def _differs(db: sqlite3.Connection, column: str) -> str:
    if column == "cost":
        # The last digits of a sum of floats depend on the order of its terms.
        return "abs(s.cost - t.cost) > 1e-6 * max(1, abs(t.cost))"
    differs = f"s.{column} IS NOT t.{column}"
    if column not in UNPRICED:
        return differs
    [to] = db.execute(
        "SELECT max(value) FROM facts WHERE name = ?", (UNPRICED_BY_SESSION_TO,)
    ).fetchone()
    if not isinstance(to, int):
        return differs
    older = f"SELECT 1 FROM messages m WHERE m.session = s.number AND m.number <= {to}"  # noqa: S608 - a number
    return f"({differs} AND NOT EXISTS ({older}))"


def _walk(db: sqlite3.Connection, tell: Callable[[int], None]) -> None:
    sums: dict[int, list[float]] = {}
    query = "SELECT session, number, role, timestamp, form, body, fields FROM messages"
    for done, (session, *row) in enumerate(db.execute(f"{query} ORDER BY number")):
        if done % _TELL_EVERY == 0:
            tell(done)
        message = readable(*row)
        if message is None:
            db.execute("INSERT INTO temp.unreadable (number) VALUES (?)", (row[0],))
            continue
        new = [*message_counts(message), size(*row[3:])]
        known = sums.get(session)
        sums[session] = new if known is None else [a + b for a, b in zip(known, new)]  # noqa: B905 - equal lengths
        if len(sums) >= _MOST_IN_MEMORY:
            _flush(db, sums)
    _flush(db, sums)


def _add_booked(db: sqlite3.Connection) -> None:
    """Add what guards booked without a message, which is part of the totals."""
    for session, _, each in all_booked(db):
        db.execute(_ADD, (session, 0, 0, *counts(each.usage), 0))


def _flush(db: sqlite3.Connection, sums: dict[int, list[float]]) -> None:
    db.executemany(_ADD, ((session, *each) for session, each in sums.items()))
    sums.clear()
