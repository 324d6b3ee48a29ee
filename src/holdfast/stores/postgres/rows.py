"""Rows of sessions, and conditions on them, in PostgreSQL's dialect. Columns and values are those
of the SQLite store and are explained there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.model.session import SessionFilter
from holdfast.policy.prices import Prices
from holdfast.stores.postgres.database import Db
from holdfast.stores.sessions import session_rows
from holdfast.stores.sessions.content import Stored, storable
from holdfast.stores.sessions.session_rows import Spelling


def texts(values: Iterable[object]) -> list[str | None]:
    """A list of strings as one value. A string that no column can hold is changed, and matches
    nothing."""
    return [storable(str(value)) for value in values]


SPELLED = Spelling(
    among="= ANY(?::text[])",
    not_among="<> ALL(?::text[])",
    several=texts,
    contains="position(lower(?) IN lower({column})) > 0",
    folded="lower({column})",
    greatest="greatest",
    everything="true",
)
LAST_ACTIVE = SPELLED.last_active
COLUMNS = session_rows.COLUMNS.replace(session_rows.LAST_ACTIVE, LAST_ACTIVE)
TABLES = session_rows.TABLES
MESSAGE_COLUMNS = "m.number, m.role, m.timestamp, m.form, m.body, m.fields"


def where(wanted: SessionFilter) -> tuple[str, list[Any]]:
    condition, values = session_rows.where(wanted, spelled=SPELLED)
    return condition.replace("?", "%s"), values


def tables(wanted: SessionFilter) -> str:
    """The tables for a condition: parents and routes are joined only if needed."""
    joined = wanted.routing_key is not None or wanted.parent_id is not None
    return TABLES if joined else "sessions s"


def page(limit: int | None, offset: int) -> tuple[int | None, int]:
    """The values of LIMIT and OFFSET."""
    most, skipped = session_rows.page(limit, offset)
    return (None if most < 0 else most), skipped


def array(values: Iterable[float]) -> str:
    """A list of numbers or booleans in PostgreSQL's syntax: faster than letting psycopg format
    it."""
    return "{" + ",".join(map(repr, values)) + "}"


def as_bytes(value: Stored) -> bytes | None:
    """A column of a message as bytes: text is sent as UTF-8, the form in which it is read back."""
    return value.encode() if isinstance(value, str) else value


def priced(db: Db, prices: Prices) -> str:
    """An SQL expression for the cost of a session at these prices. An unknown cost counts as 0: a
    sort order has no place for it."""
    rows = db.execute(
        "SELECT DISTINCT s.model FROM sessions s "
        "WHERE s.unpriced_in + s.unpriced_out + s.unpriced_cached > 0"
    )
    rates: list[str] = []
    for (model,) in rows:
        price = prices.of(model)
        if price is None:
            continue
        cached = price.input if price.cached is None else price.cached
        cost = (
            f"(s.unpriced_in * {price.input!r} + s.unpriced_out * {price.output!r}"
            f" + s.unpriced_cached * {cached!r}) / 1e6"
        )
        rates.append(f"WHEN {_literal(model)} THEN {cost}")
    return f"(s.cost + CASE coalesce(s.model, '') {' '.join(rates)} ELSE 0 END)" if rates else ""


def _literal(model: str | None) -> str:
    """The name of a model as SQL: it comes from the store itself, and contains no NUL."""
    return "'" + (model or "").replace("'", "''").replace("%", "%%") + "'"
