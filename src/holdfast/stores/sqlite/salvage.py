"""Reading what can be read of damaged tables.

A damaged page stops every walk over it. So the walk goes on a little further, and the part that it
left out is read from both its ends, halved and tried again, down to single rows. Indexes, which lie
on other pages, say what should have been there.
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
#: How far a walk jumps ahead over damage at first; further each time that this does not help.
_STEP = 64


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
    """The rows of a table by number, which is the first of `columns`; rising but for the damage,
    so that a table made of them fills its pages.

    In the ranges that it adds to `suspect` some may be missing; elsewhere none is.
    """
    every = f"SELECT {columns} FROM {table} NOT INDEXED WHERE number"  # noqa: S608 - our own names
    low, step = 1, _STEP
    while low <= highest:
        start, walk = low, Walk(db, f"{every} >= ? ORDER BY number", (low,))
        for row in _believable(walk, low, highest):
            if low == start > 1:
                suspect.append((start, row[0] - 1))  # a page out of order can hide its rows
            yield row
            low = row[0] + 1
        if walk.whole:
            suspect.append((start, highest if low == start > 1 else start - 1))
            return
        step = _STEP if low > start else 4 * step
        last = min(highest, low + step - 1)
        suspect.append((low, last))
        yield from _halved(db, f"{every} BETWEEN ? AND ? ORDER BY number", low, last, narrow)
        low = last + 1


def _believable(walk: Walk, low: int, highest: int) -> Iterator[Row]:
    """Rows in order. The last one before the walk stops, if it jumped ahead, may be the damage:
    its number would hide everything between."""
    held: Row | None = None
    before = low - 1
    for row in walk:
        if not (before if held is None else held[0]) < row[0] <= highest:
            break
        if held is not None:
            yield held
            before = held[0]
        held = row
    if held is not None and (walk.whole or held[0] == before + 1):
        yield held


def _halved(
    db: sqlite3.Connection, query: str, low: int, high: int, narrow: Narrow | None
) -> Iterator[Row]:
    """What can be read of a range with damage in it, from its ends and in ever smaller parts: a
    walk in it that comes to its end may have been led past rows."""
    pending = [(low, high)]
    while pending:
        low, high = pending.pop()
        for row in Walk(db, query, (low, high)):
            if row[0] != low:
                break
            yield row
            low += 1
        for row in Walk(db, f"{query} DESC", (low, high)):
            if row[0] != high:
                break
            yield row
            high -= 1
        within = narrow(low, high) if narrow is not None and high - low > _WIDE else (low, high)
        if within is not None and within[0] < within[1]:
            middle = (within[0] + within[1]) // 2
            pending += [(middle + 1, within[1]), (within[0], middle)]


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
