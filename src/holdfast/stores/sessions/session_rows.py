"""Conversions between rows of sessions and values, and between filters and SQL, shared by several
modules of every store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from holdfast.errors import SessionEndedError, SessionExistsError, UsageError
from holdfast.model.guard import Booked, Guarded
from holdfast.model.session import (
    Relation,
    Session,
    SessionFilter,
    SessionOrder,
    Tokens,
    id_of,
)
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Usage
from holdfast.stores.sessions.content import dump_extra, load_extra, storable
from holdfast.value import dataclass

#: Takes a list of any length, as JSON, in one parameter.
AMONG = "IN (SELECT value FROM json_each(?))"
UNPRICED = ("unpriced_in", "unpriced_out", "unpriced_cached")
#: The columns of a usage, in sessions and in the ledger.
COUNTS = ("tokens_in", "tokens_out", "tokens_cached", "cost", *UNPRICED)
#: The totals of a session.
TOTALS = ("message_count", "tool_call_count", *COUNTS, "bytes")
SESSION_COLUMNS = (
    "id",
    "source",
    "relation",
    "title",
    "cwd",
    "model",
    "started_at",
    "last_active_at",
    "ended_at",
    "end_reason",
    "pinned",
    "extra",
    *TOTALS,
)
LEASE_COLUMNS = ("session", "host", "boot", "process", "started", "heartbeat", "released")
#: The table of guards' records about sessions.
GUARDED = "guarded"
GUARDED_COLUMNS = (
    "session",
    "iterations",
    "seconds",
    "booked",
    "boot",
    "ticked",
    "samples",
    "warned",
)
#: The latest of start, last message, reopening and end. The column `last_active_at` leaves out the
#: end, so that an end can be undone.
LAST_ACTIVE = "max(s.last_active_at, coalesce(s.ended_at, s.last_active_at))"
COLUMNS = f"""
    s.id, s.source, p.id, s.relation, s.title, s.cwd, s.model, s.started_at, {LAST_ACTIVE},
    s.ended_at, s.end_reason, s.pinned, r.key, s.message_count, s.tool_call_count, s.tokens_in,
    s.tokens_out, s.tokens_cached, s.cost, s.unpriced_in, s.unpriced_out, s.unpriced_cached,
    s.bytes, s.extra, g.iterations, g.seconds, g.booked
"""
TABLES = """
    sessions s
    LEFT JOIN sessions p ON p.number = s.parent
    LEFT JOIN routes r ON r.session = s.number
    LEFT JOIN guarded g ON g.session = s.number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """The SQL dialect of a database, for conditions and orders. Conditions have a `?` for each
    value, whatever placeholder the database uses."""

    among: str = AMONG
    not_among: str = f"NOT {AMONG}"
    #: Converts a list of strings to one parameter.
    several: Callable[[Any], object] = json.dumps
    contains: str = "instr(lower({column}), lower(?)) > 0"
    #: Folds only ASCII letters, like `rank` in other stores.
    folded: str = "{column} COLLATE NOCASE"
    greatest: str = "max"
    everything: str = "1"

    @property
    def last_active(self) -> str:
        return f"{self.greatest}(s.last_active_at, coalesce(s.ended_at, s.last_active_at))"


SQLITE = Spelling()
_ORDERS = {
    SessionOrder.STARTED: "s.started_at",
    SessionOrder.MESSAGES: "s.message_count",
    SessionOrder.TOKENS: "s.tokens_in + s.tokens_out",
    SessionOrder.COST: "s.cost",
    SessionOrder.BYTES: "s.bytes",
}


def _text_order(by: SessionOrder, spelled: Spelling) -> str | None:
    """The ascending order by a text column; None if the order is by a number."""
    if by is SessionOrder.ID:
        return "s.id"
    if by is SessionOrder.SOURCE:
        return spelled.folded.format(column="s.source")
    if by is SessionOrder.TITLE:
        return f"coalesce(s.title, '') = '', {spelled.folded.format(column='s.title')} NULLS FIRST"
    return None


def session(row: Sequence[Any]) -> Session:
    """The session in a row with the columns `COLUMNS`."""
    return Session(
        id=row[0],
        source=row[1],
        parent_id=row[2],
        relation=Relation(row[3]) if row[3] else None,
        title=row[4],
        cwd=row[5],
        model=row[6],
        started_at=row[7],
        last_active_at=row[8],
        ended_at=row[9],
        end_reason=row[10],
        pinned=bool(row[11]),
        routing_key=row[12],
        message_count=row[13],
        tool_call_count=row[14],
        tokens=Tokens(input=row[15], output=row[16], cached=row[17]),
        cost=row[18],
        unpriced=Tokens(input=row[19], output=row[20], cached=row[21]),
        bytes=row[22],
        extra=load_extra(row[23]),
        guarded=_guarded(*row[24:27]),
    )


#: The columns of a session that has no messages yet.
NEW_COLUMNS = (
    "id, source, parent, relation, title, cwd, model, started_at, last_active_at, ended_at, "
    "end_reason, pinned, extra"
)


def new_values(new: Session, parent: int | None) -> tuple[object, ...]:
    """The values of the columns in `NEW_COLUMNS`."""
    return (
        new.id,
        storable(new.source),
        parent,
        new.relation.value if new.relation else None,
        storable(new.title),
        storable(new.cwd),
        storable(new.model),
        new.started_at,
        new.last_active_at,
        new.ended_at,
        storable(new.end_reason),
        bool(new.pinned),
        dump_extra(new.extra),
    )


def exists(wanted: str, taken: str) -> SessionExistsError:
    """The error for an id that another session already has."""
    if wanted == taken:
        return SessionExistsError(f"Session {wanted} already exists.")
    return SessionExistsError(
        f"Session {taken} already exists; it differs from {wanted} only in case."
    )


def has_ended(session_id: str) -> SessionEndedError:
    return SessionEndedError(
        f"Session {session_id} has ended.", hint="Reopen it before adding to it."
    )


def order(by: SessionOrder, cost: str | None = None, spelled: Spelling = SQLITE) -> str:
    """The ORDER BY terms. `cost` is an expression from `set_prices`."""
    text = _text_order(by, spelled)
    if text is not None:
        return f"{text}, {spelled.last_active} DESC, s.number DESC"
    if by is SessionOrder.LAST_ACTIVE:
        column = spelled.last_active
    else:
        column = cost if cost and by is SessionOrder.COST else _ORDERS[by]
    return f"{column} DESC, s.number DESC"


def where(
    wanted: SessionFilter,
    *,
    agent_archived: str = "0",
    parent: str = "s.parent",
    spelled: Spelling = SQLITE,
) -> tuple[str, list[Any]]:
    """A condition and its parameters; it is always true if no filter is set. `agent_archived` is an
    expression that is true if the agent archived the session, which never happens in our own store.
    `parent` is an expression that is NULL if a session has no parent."""
    parts = [*_texts(wanted, spelled), *_flags(wanted, parent), *_bounds(wanted, spelled)]
    if wanted.agent_archived is not None:
        parts.append((f"{agent_archived} = ?", [int(wanted.agent_archived)]))
    if wanted.vaulted:  # no store holds vaulted sessions
        parts.append(("1 = ?", [0]))
    condition = " AND ".join(condition for condition, _ in parts) or spelled.everything
    return condition, [value for _, values in parts for value in values]


def tables(wanted: SessionFilter) -> str:
    """The tables for a condition: parents and routes are joined only if needed."""
    if wanted.routing_key is not None or wanted.parent_id is not None:
        return TABLES
    # Without the hint, SQLite would use the index on activity and go through all ended sessions.
    only_open = wanted.ended is False and wanted.ids is None
    return "sessions s INDEXED BY sessions_open" if only_open else "sessions s"


_Part = tuple[str, Sequence[Any]]
_Number = TypeVar("_Number", int, float)
LARGEST = 2**63 - 1


def _texts(wanted: SessionFilter, spelled: Spelling) -> Iterator[_Part]:
    for column, values, among in (
        ("s.id", wanted.ids, spelled.among),
        ("s.id", wanted.not_ids, spelled.not_among),
        ("s.source", wanted.sources, spelled.among),
        ("s.source", wanted.not_sources, spelled.not_among),
        ("s.end_reason", wanted.end_reasons, spelled.among),
        ("s.relation", wanted.relations, spelled.among),
    ):
        if values is not None:
            yield f"{column} {among}", [spelled.several(values)]
    if wanted.id_prefix is not None:
        prefix = storable(wanted.id_prefix) or ""
        # The first part can use an index. No id continues with the last of all characters.
        bounds = prefix, f"{prefix}\U0010ffff"
        yield "(s.id BETWEEN ? AND ? AND substr(s.id, 1, ?) = ?)", [*bounds, len(prefix), prefix]
    for column, text in (("s.title", wanted.title), ("s.model", wanted.model)):
        if text is not None:
            yield spelled.contains.format(column=column), [storable(text)]
    for column, exact in (
        ("s.title", wanted.title_is),
        ("r.key", wanted.routing_key),
        ("p.id", None if wanted.parent_id is None else id_of(wanted.parent_id)),
    ):
        if exact is not None:
            yield f"{column} = ?", [storable(exact)]
    if wanted.cwd is not None:
        folder = (storable(os.fspath(wanted.cwd)) or "").rstrip("/")
        below = folder + "/"
        yield "(s.cwd = ? OR substr(s.cwd, 1, ?) = ?)", [folder or "/", len(below), below]


def _flags(wanted: SessionFilter, parent: str) -> Iterator[_Part]:
    has_parent = None if wanted.roots is None else not wanted.roots
    for column, flag in (
        ("s.ended_at", wanted.ended),
        ("s.title", wanted.titled),
        (parent, has_parent),
    ):
        if flag is not None:
            yield f"{column} IS {'NOT ' if flag else ''}NULL", []
    if wanted.pinned is not None:
        yield "s.pinned = ?", [wanted.pinned]


def _bounds(wanted: SessionFilter, spelled: Spelling) -> Iterator[_Part]:
    if wanted.active_before is not None:
        # Two conditions, because the first can use an index.
        condition = "s.last_active_at < ? AND coalesce(s.ended_at, s.last_active_at) < ?"
        yield condition, [wanted.active_before] * 2
    for condition, bound in (
        (f"{spelled.last_active} > ?", wanted.active_after),
        ("s.started_at < ?", wanted.started_before),
        ("s.started_at > ?", wanted.started_after),
        ("s.message_count >= ?", wanted.min_messages),
        ("s.message_count <= ?", wanted.max_messages),
        ("s.bytes >= ?", wanted.min_bytes),
        ("s.tokens_in + s.tokens_out >= ?", wanted.min_tokens),
        ("s.tokens_in + s.tokens_out <= ?", wanted.max_tokens),
        ("s.cost >= ?", wanted.min_cost),
        # A session with an unknown cost is not within any maximum.
        (
            "s.cost <= ? AND s.unpriced_in + s.unpriced_out + s.unpriced_cached = 0",
            wanted.max_cost,
        ),
    ):
        if bound is not None:
            yield condition, [within_64_bits(bound)]


def holder_columns(holder: Holder) -> tuple[str, str, int, str]:
    return holder.host, holder.boot, holder.process, holder.started


def page(limit: int | None, offset: int) -> tuple[int, int]:
    """The values of LIMIT and OFFSET. Without a limit, all rows are returned."""
    if offset < 0 or (limit is not None and limit < 0):
        raise UsageError("`limit` and `offset` must be 0 or more.")
    return -1 if limit is None else within_64_bits(limit), within_64_bits(offset)


def within_64_bits(bound: _Number) -> _Number:
    """Clamp a bound: SQLite accepts no larger numbers. All stored values are within this range, so
    a bound beyond it has the same effect as its end."""
    return max(-LARGEST, min(bound, LARGEST))


def counts(usage: Usage | Session) -> tuple[float, ...]:
    """The values of the columns in `COUNTS`."""
    return *each(usage.tokens), usage.cost, *each(usage.unpriced)


def each(tokens: Tokens) -> tuple[int, int, int]:
    return tokens.input, tokens.output, tokens.cached


def usage_of(counts: Sequence[Any]) -> Usage:
    """The usage in the values of the columns in `COUNTS`."""
    return Usage(
        tokens=Tokens(input=counts[0], output=counts[1], cached=counts[2]),
        cost=counts[3],
        unpriced=Tokens(input=counts[4], output=counts[5], cached=counts[6]),
    )


# --- What guards keep of sessions -----------------------------------------------------------------

#: Errors from JSON on a damaged page.
_NO_JSON = (ValueError, TypeError, LookupError, RecursionError)


def _guarded(iterations: int | None, seconds: float | None, booked: str | None) -> Guarded | None:
    """The guard's record; None for a session that never had a guard."""
    if iterations is None or seconds is None:
        return None
    return Guarded(iterations=iterations, seconds=seconds, booked=load_booked(booked))


def is_guarded_row(row: Sequence[Any]) -> bool:
    """True if the row can belong to `guarded`, with its columns in order: a damaged page may
    contain anything."""
    session, iterations, seconds, booked, boot, ticked, samples, warned = row
    return (
        isinstance(session, int)
        and isinstance(iterations, int)
        and isinstance(seconds, int | float)
        and isinstance(boot, str | None)
        and isinstance(ticked, int | float | None)
        and is_booked(booked)
        and all(text is None or _is_list(text) for text in (samples, warned))
    )


@lru_cache(maxsize=64)  # each check of a guard needs it, and it seldom changes
def load_booked(text: str | None) -> tuple[Booked, ...]:
    return tuple(_booked(*each) for each in json.loads(text or "[]"))


def dump_booked(booked: Sequence[Booked]) -> str | None:
    if not booked:
        return None
    return json.dumps([[each.day, each.model, *counts(each.usage)] for each in booked])


def _booked(day: str, model: str, *numbers: float) -> Booked:
    if len(numbers) != len(COUNTS) or not all(isinstance(each, int | float) for each in numbers):
        raise ValueError("not what was booked")
    return Booked(day=day, model=model, usage=usage_of(numbers))


def is_booked(text: object) -> bool:
    try:
        load_booked(text)
    except _NO_JSON:
        return False
    return isinstance(text, str | None)


def _is_list(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), list)
    except _NO_JSON:
        return False


def key_stays(taken_by: str) -> str:
    """A note that another session has the routing key by now."""
    return f"its routing key belongs to {taken_by} now and stays there"
