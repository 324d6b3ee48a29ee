"""The rows of messages: reads them page by page, adds, moves and marks them, and updates the totals
of their session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.model.session import Message, Session
from holdfast.stores.postgres import search_index
from holdfast.stores.postgres.database import Database, Db
from holdfast.stores.postgres.rows import MESSAGE_COLUMNS, array, as_bytes
from holdfast.stores.sessions import content
from holdfast.stores.sessions.ledger import used_by
from holdfast.stores.sessions.messages import with_totals
from holdfast.stores.sessions.session_rows import TOTALS, counts, each
from holdfast.value import replace

#: A message and its columns.
Encoded = tuple[Message, content.Row]

#: Stands for the session's model, which only the server knows. No model has such a name.
_OF_SESSION = "\ufdd0"
_TOTALS = ", ".join(f"{total} = %s" for total in TOTALS)
_SET_TOTALS = f"UPDATE sessions SET last_active_at = %s, {_TOTALS} WHERE number = %s"  # noqa: S608
#: See `append_messages` in schema_1.sql.
_APPEND = """
    SELECT * FROM append_messages(
        %s, %s::bigint, %s::smallint, %s, %s, %s, {texts}, %s::float8[], %s::smallint[], {bytes},
        {bytes}, %s::bigint[], %s, %s::text[], {models}, %s::bigint[], %s::float8[])
"""
_SEVERAL = _APPEND.format(texts="%s::text[]", bytes="%s::bytea[]", models="%s::text[]")
# Most appends are one message: working out how to format a list takes as long as sending it.
_ONE = _APPEND.format(texts="ARRAY[%s]::text[]", bytes="ARRAY[%s]::bytea[]", models="%s::text[]")
_ONE_USED = _APPEND.format(
    texts="ARRAY[%s]::text[]", bytes="ARRAY[%s]::bytea[]", models="ARRAY[%s]::text[]"
)


def appended(
    session_id: str, rows: Sequence[Encoded], now: float, *, book: bool
) -> tuple[str, Sequence[Any]]:
    """The statement that calls `append_messages`, and its values for these messages."""
    zero = Session(id="", source="", started_at=now, last_active_at=now, model=_OF_SESSION)
    sums = with_totals(zero, rows, now)
    used = used_by(zero, [message for message, _ in rows], now) if book else {}
    totals = (
        sums.message_count,
        sums.tool_call_count,
        *each(sums.tokens),
        *each(sums.unpriced),
        sums.bytes,
    )
    roles, times, forms, bodies, fields = _columns(rows, now)
    models = [None if model == _OF_SESSION else content.storable(model) for _, _, model in used]
    statement = _SEVERAL
    if len(rows) == 1:
        [roles], [bodies], [fields] = roles, bodies, fields
        statement = _ONE_USED if models else _ONE
    return statement, (
        session_id,
        now,
        max(times),
        roles,
        array(times),
        array(forms),
        bodies,
        fields,
        array(totals),
        sums.cost,
        "{" + ",".join(f'"{day}"' for day, _, _ in used) + "}",
        (models[0] if len(rows) == 1 else models) if models else "{}",
        array(
            count
            for usage in used.values()
            for count in (*each(usage.tokens), *each(usage.unpriced))
        ),
        array(usage.cost for usage in used.values()),
    )


def insert(db: Db, session: int, message: Message, row: content.Row, now: float) -> int:
    columns = _columns([(message, row)], now)
    [[number]] = db.execute(
        """
        INSERT INTO messages (session, role, timestamp, form, body, fields)
        VALUES (%s, %s, %s, %s, %s, %s) RETURNING number
        """,
        (session, *(column[0] for column in columns)),
    ).rows
    search_index.wait(db, [number])
    return int(number)


def update_totals(db: Db, session: int, after: Session) -> None:
    db.execute(_SET_TOTALS, _totals(session, after))


def current(db: Db, session: int, after: int) -> Iterable[Sequence[Any]]:
    return db.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages m WHERE m.session = %s AND m.number > %s "  # noqa: S608
        "ORDER BY m.number",
        (session, after),
    )


def numbers_among(db: Db, session: int, given: Sequence[Encoded]) -> set[int]:
    """Those numbers of the given messages that belong to messages of this session."""
    rows = db.execute(
        "SELECT number FROM messages WHERE session = %s AND number = ANY(%s::bigint[])",
        (session, [each.number for each, _ in given]),
    )
    return {number for (number,) in rows}


def move(db: Db, number: int) -> int:
    """Give a message the next number. It is inserted again, so that no number is ever reused."""
    [[moved]] = db.execute(
        """
        INSERT INTO messages (session, role, timestamp, form, body, fields)
        SELECT session, role, timestamp, form, body, fields FROM messages WHERE number = %s
        RETURNING number
        """,
        (number,),
    ).rows
    search_index.forget(db, [number])
    db.execute("DELETE FROM messages WHERE number = %s", (number,))
    search_index.wait(db, [moved])
    return int(moved)


def mark(db: Db, messages: Iterable[Message], name: str, value: str | bool) -> int:
    """Set an extra field of stored messages; return by how many bytes they grew."""
    marked = [replace(each, extra={**each.extra, name: value}) for each in messages]
    if not marked:
        return 0
    numbers = [each.number or 0 for each in marked]
    sizes = db.execute(
        "SELECT form, body, fields FROM messages WHERE number = ANY(%s::bigint[])", (numbers,)
    )
    before = sum(content.size(*row) for row in sizes)
    rows = [content.encode(each) for each in marked]
    db.execute(
        """
        UPDATE messages m SET form = g.form, body = g.body, fields = g.fields
        FROM unnest(%s::bigint[], %s::smallint[], %s::bytea[], %s::bytea[])
            AS g (number, form, body, fields)
        WHERE m.number = g.number
        """,
        (
            numbers,
            [row.form for row in rows],
            [as_bytes(row.body) for row in rows],
            [as_bytes(row.fields) for row in rows],
        ),
    )
    search_index.forget(db, numbers)
    search_index.wait(db, numbers)
    return sum(row.size for row in rows) - before


def page(
    database: Database, session: int, after: int, before: int, most: int, *, newest_first: bool
) -> Sequence[Sequence[Any]]:
    order = "DESC" if newest_first else "ASC"
    return database.query(
        f"SELECT {MESSAGE_COLUMNS} FROM messages m "  # noqa: S608 - our own names
        f"WHERE m.session = %s AND m.number > %s AND m.number < %s "
        f"ORDER BY m.number {order} LIMIT %s",
        (session, after, before, most),
    ).rows


def _columns(rows: Sequence[Encoded], now: float) -> tuple[list[Any], ...]:
    return (
        [content.storable(message.role) for message, _ in rows],
        [now if message.timestamp is None else message.timestamp for message, _ in rows],
        [row.form for _, row in rows],
        [as_bytes(row.body) for _, row in rows],
        [as_bytes(row.fields) for _, row in rows],
    )


def _totals(session: int, after: Session) -> tuple[Any, ...]:
    said = after.last_active_at, after.message_count, after.tool_call_count
    return *said, *counts(after), after.bytes, session
