"""The rows of messages: reads them page by page, adds, moves and marks them, and updates the totals
of their session."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from holdfast.model.session import USED_MODEL, Message, Session
from holdfast.stores.sessions import content
from holdfast.stores.sessions.messages import not_replaced, without_model
from holdfast.stores.sessions.session_rows import AMONG, TOTALS, counts
from holdfast.stores.sqlite import search_index
from holdfast.value import replace

_COLUMNS = "number, role, timestamp, form, body, fields"
_INSERT = (
    "INSERT INTO messages (session, role, timestamp, form, body, fields) VALUES (?, ?, ?, ?, ?, ?)"
)
_SET_TOTALS = f"""
    UPDATE sessions SET last_active_at = ?, {", ".join(f"{total} = ?" for total in TOTALS)}
    WHERE number = ?
"""  # noqa: S608 - our own names


def page(
    db: sqlite3.Connection, session: int, after: int, before: int, most: int, *, newest_first: bool
) -> list[tuple[int, str, float, int, content.Stored, content.Stored]]:
    order = "DESC" if newest_first else "ASC"
    return db.execute(
        f"SELECT {_COLUMNS} FROM messages "  # noqa: S608 - our own names
        f"WHERE session = ? AND number > ? AND number < ? ORDER BY number {order} LIMIT ?",
        (session, after, before, most),
    ).fetchall()


def insert(
    db: sqlite3.Connection, session: int, message: Message, row: content.Row, now: float
) -> int:
    return db.execute(_INSERT, _columns(session, message, row, now)).lastrowid or 0


def _columns(session: int, message: Message, row: content.Row, now: float) -> tuple[object, ...]:
    timestamp = now if message.timestamp is None else message.timestamp
    return session, content.storable(message.role), timestamp, row.form, row.body, row.fields


def insert_all(
    db: sqlite3.Connection, session: int, rows: Sequence[tuple[Message, content.Row]], now: float
) -> None:
    """Insert many messages whose numbers the caller does not need."""
    db.executemany(_INSERT, (_columns(session, message, row, now) for message, row in rows))


def update_totals(db: sqlite3.Connection, number: int, after: Session) -> None:
    said = after.last_active_at, after.message_count, after.tool_call_count
    db.execute(_SET_TOTALS, (*said, *counts(after), after.bytes, number))


def numbers_among(
    db: sqlite3.Connection, session: int, given: Sequence[tuple[Message, content.Row]]
) -> set[int]:
    """Those numbers of the given messages that belong to messages of this session."""
    numbers = json.dumps([each.number for each, _ in given])
    rows = db.execute(
        f"SELECT number FROM messages WHERE session = ? AND number {AMONG}",  # noqa: S608 - our own text
        (session, numbers),
    )
    return {number for (number,) in rows}


def current(db: sqlite3.Connection, session: int, after: int) -> dict[int, Message]:
    """The messages of a session after a number, in order, without replaced ones."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE session = ? AND number > ? ORDER BY number",  # noqa: S608 - our own names
        (session, after),
    )
    return not_replaced(rows)


def move(db: sqlite3.Connection, number: int) -> int:
    """Give a message the next number. It is inserted again, so that no number is ever reused."""
    search_index.forget(db, [number], "number")  # the reference before the data
    cursor = db.execute(
        """
        INSERT INTO messages (session, role, timestamp, form, body, fields)
        SELECT session, role, timestamp, form, body, fields FROM messages WHERE number = ?
        """,
        (number,),
    )
    moved = cursor.lastrowid or 0
    db.execute("DELETE FROM messages WHERE number = ?", (number,))
    return moved


def mark(db: sqlite3.Connection, messages: Iterable[Message], name: str, value: str | bool) -> int:
    """Set an extra field of stored messages; return by how many bytes they grew."""
    marked = [replace(each, extra={**each.extra, name: value}) for each in messages]
    numbers = [each.number or 0 for each in marked]
    search_index.forget(db, numbers, "number")
    before = _sizes(db, numbers)
    rows = [content.encode(each) for each in marked]
    db.executemany(
        "UPDATE messages SET form = ?, body = ?, fields = ? WHERE number = ?",
        [
            (row.form, row.body, row.fields, number)
            for row, number in zip(rows, numbers, strict=True)
        ],
    )
    search_index.remember(db, numbers, "number")
    return sum(row.size for row in rows) - before


def mark_model(db: sqlite3.Connection, session: int, model: str | None) -> int:
    """Record the model in messages that used something, before the session gets another model: the
    ledger has their usage under that name. Return by how many bytes the messages grew."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE session = ? AND fields IS NOT NULL",  # noqa: S608 - our own names
        (session,),
    )
    return mark(db, without_model(rows), USED_MODEL, model or "")


def _sizes(db: sqlite3.Connection, numbers: Sequence[int]) -> int:
    rows = db.execute(
        f"SELECT form, body, fields FROM messages WHERE number {AMONG}",  # noqa: S608 - our own text
        (json.dumps(numbers),),
    )
    return sum(content.size(*row) for row in rows)
