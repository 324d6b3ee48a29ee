"""What guards keep of sessions, between rows and values."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.model.guard import Booked, Guarded
from holdfast.model.session import Tokens
from holdfast.model.usage import Usage

TABLE = "guarded"
COLUMNS = (
    "session",
    "iterations",
    "seconds",
    "booked",
    "boot",
    "ticked",
    "samples",
    "warned",
)
#: What a page that is no page any more can make of JSON.
_NO_JSON = (ValueError, TypeError, LookupError, RecursionError)
_COUNTS = 7  # of a usage: three kinds of tokens, the cost, three kinds without a cost


def load(iterations: int | None, seconds: float | None, booked: str | None) -> Guarded | None:
    """None for a session that never had a guard."""
    if iterations is None or seconds is None:
        return None
    return Guarded(iterations=iterations, seconds=seconds, booked=load_booked(booked))


def all_booked(
    db: sqlite3.Connection, only: int | None = None
) -> Iterator[tuple[int, str, Booked]]:
    """What was booked in each session, with its number and source. A store of an older version
    has none; what cannot be read back says nothing."""
    there = db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (TABLE,)).fetchone()
    if not there:
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


def is_sound(row: Sequence[Any]) -> bool:
    """Whether it can be a row of the table, its columns in order: a damaged page says anything."""
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


def is_booked(text: object) -> bool:
    if text is None:
        return True
    if not isinstance(text, str):
        return False
    try:
        load_booked(text)
    except _NO_JSON:
        return False
    return True


def load_booked(text: str | None) -> tuple[Booked, ...]:
    return tuple(_booked(*each) for each in json.loads(text or "[]"))


def counts(usage: Usage) -> tuple[float, ...]:
    """In the order of the columns of sessions and ledger."""
    used, unpriced = usage.tokens, usage.unpriced
    return (
        used.input,
        used.output,
        used.cached,
        usage.cost,
        unpriced.input,
        unpriced.output,
        unpriced.cached,
    )


def _booked(day: str, model: str, *numbers: float) -> Booked:
    if len(numbers) != _COUNTS or not all(isinstance(each, int | float) for each in numbers):
        raise ValueError("not what was booked")
    tokens_in, tokens_out, cached, cost, unpriced_in, unpriced_out, unpriced_cached = numbers
    return Booked(
        day=day,
        model=model,
        usage=Usage(
            tokens=Tokens(input=int(tokens_in), output=int(tokens_out), cached=int(cached)),
            cost=cost,
            unpriced=Tokens(
                input=int(unpriced_in), output=int(unpriced_out), cached=int(unpriced_cached)
            ),
        ),
    )


def dump_booked(booked: Sequence[Booked]) -> str | None:
    if not booked:
        return None
    return json.dumps([[each.day, each.model, *counts(each.usage)] for each in booked])


def _is_list(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), list)
    except _NO_JSON:
        return False
