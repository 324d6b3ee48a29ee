"""Reading what can be read of damaged tables.

A damaged page stops every walk over it. So a table is read from both ends towards the damage, and
what lies between is halved and tried again, down to single rows. Indexes, which lie on other pages,
say what should have been there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from holdfast.stores.sqlite import totals

Row = tuple[Any, ...]
#: What a page that is no page any more makes SQLite say; reading never runs out of disk.
_DAMAGE = (sqlite3.Error, MemoryError)


Range = tuple[int, int]
#: The part of a range in which rows are known to have been; None when there were none.
Narrow = Callable[[int, int], Range | None]
#: Narrower than this, every number is tried: an index may have lost rows as well.
_WIDE = 10_000


class Walk:
    """One pass over rows in order, until its end or until damage."""

    def __init__(self, db: sqlite3.Connection, query: str, parameters: Sequence[Any] = ()) -> None:
        self._db, self._query, self._parameters = db, query, parameters
        self.whole = False

    def __iter__(self) -> Iterator[Row]:
        try:
            for row in self._db.execute(self._query, self._parameters):
                if totals.torn(row):
                    return
                yield row
        except _DAMAGE:
            return
        self.whole = True


def both_ends(
    db: sqlite3.Connection, columns: str, table: str, order: Sequence[str]
) -> tuple[Iterator[Row], Callable[[], bool]]:
    """Every row before and behind the damage; some may come twice. Then whether that was all."""
    up = Walk(db, f"SELECT {columns} FROM {table} ORDER BY {', '.join(order)}")  # noqa: S608 - our own names
    falling = ", ".join(f"{key} DESC" for key in order)
    down = Walk(db, f"SELECT {columns} FROM {table} ORDER BY {falling}")  # noqa: S608 - our own names

    def rows() -> Iterator[Row]:
        yield from up
        if not up.whole:
            yield from down

    return rows(), lambda: up.whole


def by_number(
    db: sqlite3.Connection,
    columns: str,
    table: str,
    highest: int,
    *,
    suspect: list[Range],
    narrow: Narrow | None = None,
) -> Iterator[Row]:
    """The rows of a table by number, which is the first of `columns`.

    Between the numbers that it adds to `suspect` some may be missing; elsewhere none is.
    """
    query = (
        f"SELECT {columns} FROM {table} NOT INDEXED WHERE number BETWEEN ? AND ? ORDER BY number"  # noqa: S608 - our own names
    )
    pending = [(1, highest)]
    while pending:
        low, high = pending.pop()
        up = Walk(db, query, (low, high))
        for row in _rising(up, low, high):
            yield row
            low = row[0] + 1
        if up.whole or low > high:
            continue
        for row in _falling(Walk(db, f"{query} DESC", (low, high)), low, high):
            yield row
            high = row[0] - 1
        if not suspect:
            suspect.append((low, high))
        within = narrow(low, high) if narrow is not None and high - low > _WIDE else (low, high)
        if within is not None and within[0] < within[1]:
            middle = (within[0] + within[1]) // 2
            pending += [(middle + 1, within[1]), (within[0], middle)]


def _rising(walk: Walk, low: int, high: int) -> Iterator[Row]:
    """Until a number is out of order: from there on the page is not to be believed."""
    for row in walk:
        if not low <= row[0] <= high:
            return
        yield row
        low = row[0] + 1


def _falling(walk: Walk, low: int, high: int) -> Iterator[Row]:
    for row in walk:
        if not low <= row[0] <= high:
            return
        yield row
        high = row[0] - 1


def without(first: int, last: int, numbers: Iterable[int]) -> Iterator[Range]:
    """What is left of a range when rising numbers are taken out."""
    for number in numbers:
        if first < number:
            yield first, number - 1
        first = number + 1
    if first <= last:
        yield first, last


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same numbers in as few ranges as possible."""
    made: list[Range] = []
    for first, last in sorted(ranges):
        if made and made[-1][1] + 1 >= first:
            made[-1] = (made[-1][0], max(made[-1][1], last))
        else:
            made.append((first, last))
    return tuple(made)
