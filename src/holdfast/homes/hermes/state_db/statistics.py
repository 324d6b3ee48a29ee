"""Counting Hermes's sessions, in one pass over them and one over their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.rows import Row, dicts, sessions_table
from holdfast.homes.hermes.state_db.survey import sizes
from holdfast.homes.hermes.state_db.usage import UsageLedger
from holdfast.model.stats import Share, StoreStats
from holdfast.stores.sqlite.statistics import AVERAGES, SIZES, Classes
from holdfast.stores.sqlite.survey import log_bytes

_COUNTED = """
    s.id, s.source, s.last_active_at, s.ended_at, s.message_count,
    s.tokens_in + s.tokens_out AS tokens, s.cost
"""


def statistics(
    database: HermesDatabase, ledger: UsageLedger, *, now: float, ages: Classes
) -> StoreStats:
    with database.read() as db:
        table = sessions_table(database.schema)
        rows = dicts(db.execute(f"SELECT {_COUNTED} FROM {table}"))  # noqa: S608 - our own names
        weights = sizes(db, database.schema)
        usage = ledger.totals(db, database.schema)
        [page], [pages], [free] = (
            db.execute(f"PRAGMA {name}").fetchone()
            for name in ("page_size", "page_count", "freelist_count")
        )

    def size(row: Row) -> int:
        return weights.get(row["id"], 0)

    def classed(
        classes: Classes, value: Callable[[Row], float], *, below: bool
    ) -> tuple[Share, ...]:
        names = [_class(classes, value(row), below=below) for row in rows]
        return _shares([name for name, _ in classes], names, [size(row) for row in rows])

    sources = [row["source"] for row in rows]
    by_source = _shares(sorted(set(sources)), sources, [size(row) for row in rows])
    return StoreStats(
        sessions=len(rows),
        open_sessions=sum(row["ended_at"] is None for row in rows),
        messages=sum(row["message_count"] for row in rows),
        tokens=sum(row["tokens"] for row in rows),
        cost=sum(row["cost"] for row in rows),
        message_bytes=sum(weights.values()),
        database_bytes=page * pages,
        free_bytes=page * free,
        wal_bytes=log_bytes(database),
        by_source=tuple(sorted(by_source, key=lambda share: (-share.bytes, share.name))),
        by_age=classed(ages, lambda row: now - row["last_active_at"], below=True),
        by_size=classed(SIZES, lambda row: row["message_count"], below=False),
        by_average_message=classed(
            AVERAGES, lambda row: size(row) // max(1, row["message_count"]), below=True
        ),
        usage=usage,
    )


def _class(classes: Classes, value: float, *, below: bool) -> str:
    """The first class whose bound holds; beyond all, the last one."""
    found = (name for name, bound in classes if (value < bound if below else value <= bound))
    return next(found, classes[-1][0])


def _shares(names: Sequence[str], of: Sequence[str], weights: Sequence[int]) -> tuple[Share, ...]:
    """Every class, the empty ones too: a gap says something."""
    counts, totals = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for name, weight in zip(of, weights, strict=True):
        counts[name] += 1
        totals[name] += weight
    return tuple(Share(name=name, count=counts[name], bytes=totals[name]) for name in names)
