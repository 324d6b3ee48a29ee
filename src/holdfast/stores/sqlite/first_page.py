"""The first page of a store, which says what everything else is: put back when it is lost.

A store is made by the same statements in the same order everywhere, so a new one shows what the
lost page said. It is written into a copy; only a copy that then shows its tables is used.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.stores.sqlite.looking import pattern, prepared, tells_nothing

_HEADER = 100
_INTERIOR_TABLE = 5


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
    for pages in ([(0, _header(new))], _schema_pages(new)):
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


def _schema_pages(new: bytes) -> Iterator[tuple[int, bytes]]:
    """Every page of the table that lists all tables."""
    size = _page_size(new)
    yield 0, _header(new) + new[_HEADER:size]
    for number in _children(new):
        place = (number - 1) * size
        yield place, new[place : place + size]


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


def _children(new: bytes) -> Iterator[int]:
    """The pages below the first one. The list of tables is never deeper."""
    if new[_HEADER] != _INTERIOR_TABLE:
        return
    cells, right = struct.unpack(">3xHxxxI", new[_HEADER : _HEADER + 12])
    for index in range(cells):
        at = _HEADER + 12 + 2 * index
        [cell] = struct.unpack(">H", new[at : at + 2])
        yield struct.unpack(">I", new[cell : cell + 4])[0]
    yield right


def tolerant(path: Path) -> sqlite3.Connection:
    """A connection to a store that may have lost its end: SQLite refuses to read any of it,
    unless it may write to the list of tables, which nobody here does."""
    location = path.absolute().as_uri() + "?mode=rw"
    db = prepared(sqlite3.connect(location, uri=True, isolation_level=None))
    db.execute("PRAGMA writable_schema = ON")
    return db
