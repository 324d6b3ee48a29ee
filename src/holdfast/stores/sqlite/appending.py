"""What an append does to the rows: messages in, totals of their session right."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from holdfast.errors import UsageError
from holdfast.model.given import mapping
from holdfast.model.session import Message, Session
from holdfast.policy.usage_figures import is_count
from holdfast.stores.sqlite import content

#: No clock shows more seconds and nothing costs more, and a column of whole numbers holds it.
_LARGEST = 1e18


def checked(message: Message) -> Message:
    """What a host gets wrong is said here, before anything is written."""
    if not message.role or not isinstance(message.role, str):
        raise UsageError("A message needs a role.")
    usage = message.usage
    for count in (usage.input, usage.output, usage.cached):
        if not is_count(count):
            raise UsageError(f"A message cannot have used {count!r} tokens.")
    if message.cost is not None and not _is_cost(message.cost):
        raise UsageError(f"A message cannot have cost {message.cost!r}.")
    if message.timestamp is not None and not _is_time(message.timestamp):
        raise UsageError("The time of a message must be a number of seconds.")
    mapping(message.extra, "The extra fields of a message")
    return message


def _is_cost(value: object) -> bool:
    """Larger than any budget it may be: then it passes that. What is no number fails this."""
    return _is_number(value) and 0 <= value <= _LARGEST


def _is_time(value: object) -> bool:
    return _is_number(value) and abs(value) <= _LARGEST


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def insert(
    db: sqlite3.Connection, session: int, message: Message, row: content.Row, now: float
) -> int:
    timestamp = now if message.timestamp is None else message.timestamp
    cursor = db.execute(
        "INSERT INTO messages (session, role, timestamp, form, body, fields) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (session, content.storable(message.role), timestamp, row.form, row.body, row.fields),
    )
    return cursor.lastrowid or 0


def with_totals(
    before: Session, rows: Sequence[tuple[Message, content.Row]], now: float
) -> Session:
    tokens, unpriced = before.tokens, before.unpriced
    active = before.last_active_at
    for message, _ in rows:
        tokens = tokens.plus(message.usage)
        unpriced = unpriced.plus(message.unpriced)
        timestamp = now if message.timestamp is None else message.timestamp
        # Never beyond now: a clock that jumped ahead must not keep it alive for ever.
        active = min(max(active, timestamp), now)
    return replace(
        before,
        last_active_at=active,
        message_count=before.message_count + sum(not m.taken_back for m, _ in rows),
        tool_call_count=before.tool_call_count + sum(m.tool_call_count for m, _ in rows),
        tokens=tokens,
        cost=before.cost + sum(message.cost or 0.0 for message, _ in rows),
        unpriced=unpriced,
        bytes=before.bytes + sum(row.size for _, row in rows),
    )


def used(before: Session, after: Session) -> bool:
    """Whether there is anything for the ledger: most messages of most agents use nothing, and its
    page is then not touched."""
    return after.tokens != before.tokens or after.cost != before.cost


def update_totals(db: sqlite3.Connection, number: int, after: Session) -> None:
    db.execute(
        """
        UPDATE sessions SET
            last_active_at = ?, message_count = ?, tool_call_count = ?, tokens_in = ?,
            tokens_out = ?, tokens_cached = ?, cost = ?, unpriced_in = ?, unpriced_out = ?,
            unpriced_cached = ?, bytes = ?
        WHERE number = ?
        """,
        (
            after.last_active_at,
            after.message_count,
            after.tool_call_count,
            after.tokens.input,
            after.tokens.output,
            after.tokens.cached,
            after.cost,
            after.unpriced.input,
            after.unpriced.output,
            after.unpriced.cached,
            after.bytes,
            number,
        ),
    )
