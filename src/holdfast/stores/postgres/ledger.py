"""The ledger: usage by day, source and model, whatever is removed from the store.

Each connection adds to rows of its own, its shard. A single row for each day and model would be
locked by every append from its statement to the end of its commit, and all machines would wait for
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.model.usage import Usage, UsageEntry
from holdfast.model.utc_day import utc_day
from holdfast.stores.postgres.database import Db
from holdfast.stores.sessions.content import storable
from holdfast.stores.sessions.ledger import NO_COST, Key, booked, usage_of_row
from holdfast.stores.sessions.session_rows import COUNTS, UNPRICED, counts, load_booked, usage_of

_NAMES = ", ".join(COUNTS)


def _added(count: str) -> str:
    """The difference of two infinite costs is NaN, which counts as 0."""
    summed = f"ledger.{count} + excluded.{count}"
    return f"coalesce(nullif({summed}, 'NaN'), 0)" if count == "cost" else summed


def _sum(count: str) -> str:
    """The sum over the shards. Unpriced tokens are at least 0 and at most all tokens."""
    if count not in UNPRICED:
        return f"sum({count})::{'float8' if count == 'cost' else 'bigint'}"
    tokens = count.replace("unpriced", "tokens")
    return f"greatest(0, least(sum({tokens}), sum({count})))::bigint"


_BOOK = f"""
    INSERT INTO ledger (day, source, model, shard, {_NAMES})
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (day, source, model, shard) DO UPDATE SET
        {", ".join(f"{count} = {_added(count)}" for count in COUNTS)}
"""  # noqa: S608 - our own names
SUMS = ", ".join(_sum(count) for count in COUNTS)
ANYTHING = (
    "sum(tokens_in) <> 0 OR sum(tokens_out) <> 0 OR sum(tokens_cached) <> 0 "
    f"OR abs(sum(cost)) >= {NO_COST!r}"
)
_STORED = """
    SELECT s.source, coalesce(s.model, ''), m.number, m.role, m.timestamp, m.form, m.fields
    FROM messages m JOIN sessions s ON s.number = m.session
    WHERE m.session = %s AND m.fields IS NOT NULL
"""


def add(db: Db, used: Mapping[Key, Usage]) -> None:
    """Add usage, always in the same order: two processes that add the same keys must not
    deadlock."""
    for key in sorted(used):
        on, source, model = (storable(part) for part in key)
        db.execute(_BOOK, (on, source, model, db.shard, *counts(used[key])))


def take_off(db: Db, session: int) -> None:
    """Undo what the messages of a stored session, and its guards, added."""
    used = booked(_stored(db, session))
    add(db, {key: usage_of([-count for count in counts(usage)]) for key, usage in used.items()})


def entries(db: Db, on: float | None = None) -> Sequence[UsageEntry]:
    """The entries of all days, or of one."""
    condition, values = ("true", []) if on is None else ("day = %s", [utc_day(on)])
    rows = db.execute(
        f"""
        SELECT day, source, model, {SUMS} FROM ledger WHERE {condition}
        GROUP BY day, source, model HAVING {ANYTHING} ORDER BY day, source, model
        """,  # noqa: S608 - our own names
        values,
    )
    return [
        UsageEntry(day=on or None, source=source, model=model or None, usage=usage_of(sums))
        for on, source, model, *sums in rows
    ]


def _stored(db: Db, session: int) -> Iterator[tuple[int, Key, Usage]]:
    for source, model, *columns in db.execute(_STORED, [session]):
        found = usage_of_row(model, *columns)
        if found is not None:
            yield session, (utc_day(columns[2]), source, found[0]), found[1]
    rows: Iterator[tuple[Any, ...]] = iter(
        db.execute(
            "SELECT s.source, g.booked FROM guarded g JOIN sessions s ON s.number = g.session "
            "WHERE g.session = %s AND g.booked IS NOT NULL",
            [session],
        )
    )
    for source, text in rows:
        for each in load_booked(text):
            yield session, (each.day, source, each.model), each.usage
