"""Counting a session store: two passes over the sessions, none over the messages.

One pass is by source. The other counts every combination of classes that occurs, of which there are
few: totals and distributions are sums of those. One query for each class would take longer, and one
pass for everything too, since SQLite would then sort by text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from holdfast.model.usage import Share, StoreStats, UsageTotals
from holdfast.stores.sqlite import ledger
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.session_rows import LAST_ACTIVE
from holdfast.stores.sqlite.survey import log_bytes
from holdfast.value import dataclass

#: Names of classes, each with its bound; the bounds rise.
Classes = Sequence[tuple[str, float]]

#: Sessions by their number of messages: a name, and the most they have.
SIZES: Classes = (
    ("empty", 0),
    ("1 to 5", 5),
    ("6 to 20", 20),
    ("21 to 100", 100),
    ("101 to 1,000", 1_000),
    ("more", float("inf")),
)
#: Sessions by what their messages take on average: a name, and the bytes they are under.
AVERAGES: Classes = (
    ("empty", 1),
    ("< 1 kB", 1_000),
    ("< 10 kB", 10_000),
    ("< 100 kB", 100_000),
    ("< 1 MB", 1_000_000),
    ("larger", float("inf")),
)


@dataclass(frozen=True, slots=True)
class _Group:
    """Sessions that are alike in every class. One row of a query; `classes` is made of their places
    in the lists of classes."""

    classes: int
    count: int
    ended: int
    messages: int
    tokens: int
    cost: float
    bytes: int

    @property
    def average(self) -> int:
        return self.classes % len(AVERAGES)

    @property
    def size(self) -> int:
        return self.classes // len(AVERAGES) % len(SIZES)

    @property
    def age(self) -> int:
        return self.classes // len(AVERAGES) // len(SIZES)


def statistics(database: Database, *, now: float, ages: Classes) -> StoreStats:
    with database.read() as db:
        return counted(db, "sessions", ledger.usage(db), log_bytes(database), now=now, ages=ages)


def counted(
    db: sqlite3.Connection,
    table: str,
    usage: UsageTotals,
    wal_bytes: int,
    *,
    now: float,
    ages: Classes,
) -> StoreStats:
    """The statistics of a table that has a row for each session, with the columns of ours."""
    groups = _groups(db, table, now, ages)
    by_source = _by_source(db, table)
    page, pages, free = (
        db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_size", "page_count", "freelist_count")
    )
    sessions = sum(group.count for group in groups)
    return StoreStats(
        sessions=sessions,
        open_sessions=sessions - sum(group.ended for group in groups),
        messages=sum(group.messages for group in groups),
        tokens=sum(group.tokens for group in groups),
        cost=sum(group.cost for group in groups),
        message_bytes=sum(group.bytes for group in groups),
        database_bytes=page * pages,
        free_bytes=page * free,
        wal_bytes=wal_bytes,
        by_source=by_source,
        by_age=_by_class(groups, ages, lambda group: group.age),
        by_size=_by_class(groups, SIZES, lambda group: group.size),
        by_average_message=_by_class(groups, AVERAGES, lambda group: group.average),
        usage=usage,
    )


def _groups(db: sqlite3.Connection, table: str, now: float, ages: Classes) -> list[_Group]:
    age = _class_of(f"? - {LAST_ACTIVE} < ?", ages)
    size = _class_of("message_count <= ?", SIZES)
    average = _class_of("bytes / max(1, message_count) < ?", AVERAGES)
    rows = db.execute(
        f"""
        SELECT ({age} * {len(SIZES)} + {size}) * {len(AVERAGES)} + {average} AS classes, count(*),
               count(ended_at), sum(message_count), sum(tokens_in + tokens_out), sum(cost),
               sum(bytes)
        FROM {table} s GROUP BY classes
        """,  # noqa: S608 - our own text
        [
            *(value for _, bound in ages for value in (now, bound)),
            *(bound for _, bound in SIZES),
            *(bound for _, bound in AVERAGES),
        ],
    )
    return [_Group(*row) for row in rows]


def _class_of(below: str, classes: Classes) -> str:
    """SQL for the place of the first class whose bound holds; beyond all, the last one's."""
    cases = " ".join(f"WHEN {below} THEN {place}" for place in range(len(classes)))
    return f"CASE {cases} ELSE {len(classes) - 1} END"


def _by_class(
    groups: Sequence[_Group], classes: Classes, place: Callable[[_Group], int]
) -> tuple[Share, ...]:
    """Every class, the empty ones too: a gap says something."""
    return tuple(
        Share(
            name=name,
            count=sum(group.count for group in groups if place(group) == number),
            bytes=sum(group.bytes for group in groups if place(group) == number),
        )
        for number, (name, _) in enumerate(classes)
    )


def _by_source(db: sqlite3.Connection, table: str) -> tuple[Share, ...]:
    # Not by the index of sources: that would fetch every row from a page of its own.
    rows = db.execute(
        f"""
        SELECT source, count(*), sum(bytes) FROM {table} NOT INDEXED
        GROUP BY source ORDER BY sum(bytes) DESC, source
        """  # noqa: S608 - our own names
    )
    return tuple(Share(name=name, count=count, bytes=total) for name, count, total in rows)
