"""The ledger: what was used by day, source and model, true whatever leaves the store.

A message is booked once, in the transaction that stores it. What is removed stays booked, and what
comes back from the trash or the archive is not booked again. Only a session that another one
replaces is taken off: then the other is what was used.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime

from holdfast.model.session import Message, Session, Tokens
from holdfast.model.usage import Usage, UsageShare, UsageTotals
from holdfast.policy.rules import DAY
from holdfast.stores.sqlite import content, totals

TABLE = "ledger"
KEYS = ("day", "source", "model")
#: The fact that says up to which message the day is that of the session, see schema_2.sql.
DATED_BY_SESSION_TO = "dated_by_session_to"

Key = tuple[str, str, str]

_EPOCH = datetime.fromtimestamp(0, UTC).toordinal()
_LAST = date.max.toordinal()
_DAYS_SHOWN = 30
#: Less than this is what taking a fraction off a sum of fractions leaves.
_NO_COST = 1e-9

_SUMS = "sum(tokens_in), sum(tokens_out), sum(tokens_cached), sum(cost)"
# A sum of costs may be infinite; two of those taken from each other are no number, which SQLite
# stores as NULL.
_BOOK = """
    INSERT INTO ledger (day, source, model, tokens_in, tokens_out, tokens_cached, cost)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (day, source, model) DO UPDATE SET
        tokens_in = tokens_in + excluded.tokens_in,
        tokens_out = tokens_out + excluded.tokens_out,
        tokens_cached = tokens_cached + excluded.tokens_cached,
        cost = coalesce(cost + excluded.cost, 0)
"""
_STORED = """
    SELECT s.source, coalesce(s.model, ''), s.started_at, m.number, m.role, m.timestamp, m.form,
           m.fields
    FROM messages m JOIN sessions s ON s.number = m.session
    WHERE m.fields IS NOT NULL
"""


def day(timestamp: float) -> str:
    """The UTC day of a time; '' for one that no calendar has."""
    number = _EPOCH + timestamp // DAY
    return date.fromordinal(int(number)).isoformat() if 1 <= number <= _LAST else ""


def book(db: sqlite3.Connection, session: Session, messages: Iterable[Message], now: float) -> None:
    """Add what new messages of a session used. Most appends are one message, or one day's."""
    used: dict[str, Usage] = {}
    for message in messages:
        usage = _usage(message)
        if usage is not None:
            on = day(now if message.timestamp is None else message.timestamp)
            used[on] = used[on].plus(usage) if on in used else usage
    model = session.model or ""
    for on, usage in used.items():
        _add(db, (on, session.source, model), usage)


def take_off(db: sqlite3.Connection, session: int) -> None:
    """Undo what the messages of a stored session added."""
    for key, usage in _booked(db, f"{_STORED} AND m.session = ?", session).items():
        _add(db, key, _negative(usage))
        db.execute(
            """
            DELETE FROM ledger WHERE day = ? AND source = ? AND model = ?
                AND tokens_in = 0 AND tokens_out = 0 AND tokens_cached = 0 AND abs(cost) < ?
            """,
            (*key, _NO_COST),
        )


def fill(db: sqlite3.Connection) -> None:
    """Make rows that are missing from the messages that are there. Rows that are there stay: they
    know of sessions that are gone."""
    for key, usage in _booked(db, _STORED).items():
        there = "SELECT 1 FROM ledger WHERE day = ? AND source = ? AND model = ?"
        if not db.execute(there, key).fetchone():
            _add(db, key, usage)


def usage(db: sqlite3.Connection) -> UsageTotals:
    ever = db.execute(f"SELECT {_SUMS} FROM ledger").fetchone()  # noqa: S608 - our own names
    most = "sum(tokens_in + tokens_out) DESC, sum(cost) DESC"
    return UsageTotals(
        ever=_from_sums(*(value or 0 for value in ever)),
        by_day=_shares(db, "day", f"day DESC LIMIT {_DAYS_SHOWN}"),
        by_source=_shares(db, "source", f"{most}, source"),
        by_model=_shares(db, "model", f"{most}, model"),
    )


def _shares(db: sqlite3.Connection, column: str, order: str) -> tuple[UsageShare, ...]:
    rows = db.execute(
        f"SELECT {column}, {_SUMS} FROM ledger GROUP BY {column} ORDER BY {order}"  # noqa: S608 - our own names
    )
    return tuple(UsageShare(name=name or None, usage=_from_sums(*sums)) for name, *sums in rows)


def _booked(db: sqlite3.Connection, query: str, *parameters: int) -> Mapping[Key, Usage]:
    """What stored messages have in the ledger. What cannot be read back has nothing there that
    anybody could tell."""
    [to] = db.execute(
        "SELECT max(value) FROM facts WHERE name = ?", (DATED_BY_SESSION_TO,)
    ).fetchone()
    used: dict[Key, Usage] = {}
    for source, model, started_at, number, role, timestamp, form, fields in db.execute(
        query, parameters
    ):
        # Usage is among the fields, so the text need not be unpacked.
        packed = form & content.FIELDS_ARE_PACKED
        message = totals.readable(number, role, timestamp, packed, None, fields)
        usage = None if message is None else _usage(message)
        if usage is not None:
            key = day(started_at if number <= (to or 0) else timestamp), source, model
            used[key] = used[key].plus(usage) if key in used else usage
    return used


def _usage(message: Message) -> Usage | None:
    """None for a message that used nothing: it must not cost a page of the ledger."""
    tokens = message.usage
    if tokens.input or tokens.output or tokens.cached or message.cost:
        return Usage(tokens=tokens, cost=message.cost or 0.0)
    return None


def _add(db: sqlite3.Connection, key: Key, usage: Usage) -> None:
    tokens = usage.tokens
    db.execute(_BOOK, (*key, tokens.input, tokens.output, tokens.cached, usage.cost))


def _negative(usage: Usage) -> Usage:
    tokens = usage.tokens
    return Usage(
        tokens=Tokens(input=-tokens.input, output=-tokens.output, cached=-tokens.cached),
        cost=-usage.cost,
    )


def _from_sums(tokens_in: int, tokens_out: int, tokens_cached: int, cost: float) -> Usage:
    return Usage(tokens=Tokens(input=tokens_in, output=tokens_out, cached=tokens_cached), cost=cost)
