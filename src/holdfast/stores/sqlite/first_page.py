"""The first page of a store, which says what everything else is: put back when it is lost.

A store is made by the same statements in the same order everywhere, and SQLite keeps the first page
of each table in front of all others. So a new store shows where the tables of any other begin. It
does not show where the list of tables goes on, when it is longer than a page: that depends on how
large the store was when it got its last table. The page is written into a copy; only a copy that
then shows its tables is used.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.stores.files import check_regular
from holdfast.stores.sqlite.schema import pattern, prepared, tells_nothing

_HEADER = 100
_INTERIOR_TABLE = 5
#: Where, after its type, such a page names the last page below it.
_RIGHTMOST = 8


def opens(path: Path) -> bool:
    """Whether SQLite can read which tables there are."""
    with contextlib.closing(tolerant(path)) as db:
        try:
            rows = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        except sqlite3.DatabaseError as error:
            if tells_nothing(error):
                raise
            return False
    return ("messages",) in rows or ("sessions",) in rows


def mend(copy: Path) -> None:
    """Give a copy of a store a first page; raises `DamageError` when that does not help."""
    with contextlib.closing(pattern()) as whole:
        new = whole.serialize()
    # The header alone first: the rest of the page, if it is there, knows better than a new one.
    for pages in ([(0, _header(new))], _list_of_tables(new, copy.stat().st_size)):
        with copy.open("r+b") as file:
            for place, data in pages:
                file.seek(place)
                file.write(data)
        if opens(copy) and _shows_rows(copy):
            return
    raise DamageError(
        f"Nothing can be read of {copy.name.partition('.repair-')[0]}; it was left as it is.",
        hint="Restore the home from a backup, or move the file away to begin a new store.",
    )


def _shows_rows(copy: Path) -> bool:
    """Whether one end of a table can be read: that page was one, then, and the table is there."""
    with contextlib.closing(tolerant(copy)) as db:
        for table, order in itertools.product(("sessions", "messages"), ("", "DESC")):
            with contextlib.suppress(sqlite3.DatabaseError):
                query = f"SELECT number FROM {table} ORDER BY number {order} LIMIT 1"  # noqa: S608 - our own names
                if db.execute(query).fetchone():
                    return True
    return False


def _list_of_tables(new: bytes, end: int) -> Iterator[tuple[int, bytes]]:
    """The first page, and those below it at the end of the file: where a new store has them, this
    one may have messages."""
    size = _page_size(new)
    first = bytearray(_header(new) + new[_HEADER:size])
    pages = -(-end // size)  # counting one that was cut
    for free, (at, number) in enumerate(_children(new), start=pages + 1):
        first[at : at + 4] = struct.pack(">I", free)
        yield (free - 1) * size, new[(number - 1) * size : number * size]
    yield 0, bytes(first)


def _header(new: bytes) -> bytes:
    """A header that fits any number of pages: one whose two counters differ is not believed when
    it says how many there are. Nothing is on its list of free pages."""
    header = bytearray(new[:_HEADER])
    header[24:28] = struct.pack(">I", 1)
    header[32:40] = bytes(8)
    header[92:96] = bytes(4)
    return bytes(header)


def _page_size(new: bytes) -> int:
    [size] = struct.unpack(">H", new[16:18])
    return 65_536 if size == 1 else int(size)


def _children(new: bytes) -> Iterator[tuple[int, int]]:
    """The pages below the first one, each with the place in that page which names it. The list of
    tables is never deeper."""
    if new[_HEADER] != _INTERIOR_TABLE:
        return
    [cells] = struct.unpack(">3xH", new[_HEADER : _HEADER + 5])
    for index in range(cells):
        at = _HEADER + 12 + 2 * index
        [cell] = struct.unpack(">H", new[at : at + 2])
        yield _named(new, cell)
    yield _named(new, _HEADER + _RIGHTMOST)


def _named(new: bytes, at: int) -> tuple[int, int]:
    [number] = struct.unpack(">I", new[at : at + 4])
    return at, number


def tolerant(path: Path) -> sqlite3.Connection:
    """A connection to a store that may have lost its end: SQLite refuses to read any of it,
    unless it may write to the list of tables, which nobody here does."""
    check_regular(path)
    location = path.absolute().as_uri() + "?mode=rw"
    db = prepared(sqlite3.connect(location, uri=True, isolation_level=None))
    try:
        db.execute("PRAGMA writable_schema = ON")
    except BaseException:
        db.close()
        raise
    return db
