"""The pages of a damaged store: rows that no tree reaches, and a new first page.

A walk over the tree of a table stops at the first damaged page. If an interior page is lost, SQLite
cannot reach any of the rows below it, although they are all there. A leaf page lists its own cells,
so its rows can still be read one by one. A page on the free list holds deleted rows; it must be
skipped, or deleted sessions would come back.

The first page describes the rest of the file. Every store is created by the same statements in the
same order, and SQLite keeps the first page of each table in front of all other pages. So a new
store shows where the tables of any other store begin. It does not show where the list of tables
continues if that is longer than a page: this depends on how large the store was when it got its
last table. The page is written into a copy, and the copy is used only if it then shows its tables.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.errors import DamageError
from holdfast.stores.files import SQLITE_MAGIC, check_database
from holdfast.stores.sessions.content import torn
from holdfast.stores.sqlite.schema import pattern, prepared, tells_nothing

Row = tuple[Any, ...]
Range = tuple[int, int]
#: Raised by SQLite for a damaged page. MemoryError too: reading never runs out of disk.
_DAMAGE = (sqlite3.Error, MemoryError)

#: More than any of our tables has.
_MOST_COLUMNS = 100
_TABLE_LEAF = 13
_CELLS = 8
#: Sizes of the serial types that have a fixed one, see "Record Format" in SQLite's documentation.
_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_REAL = 7
#: The bit that is set in a byte of a varint if another byte follows.
_MORE = 0x80
_FIRST_BLOB = 12


class Walk:
    """One pass over rows in order, until its end or until damage."""

    def __init__(self, db: sqlite3.Connection, query: str, parameters: Sequence[Any] = ()) -> None:
        self._db, self._query, self._parameters = db, query, parameters
        self.whole = False

    def __iter__(self) -> Iterator[Row]:
        try:
            for row in self._db.execute(self._query, self._parameters):
                if torn(row):
                    return
                yield row
        except _DAMAGE:
            return
        self.whole = True


def both_ends(
    db: sqlite3.Connection, columns: str, table: str, order: Sequence[str]
) -> tuple[Iterator[Row], Callable[[], bool]]:
    """Rows before and after the damage, some of them perhaps twice, and a function that returns
    True if all rows were read."""
    up = Walk(db, f"SELECT {columns} FROM {table} ORDER BY {', '.join(order)}")  # noqa: S608 - our own names
    falling = ", ".join(f"{key} DESC" for key in order)
    down = Walk(db, f"SELECT {columns} FROM {table} ORDER BY {falling}")  # noqa: S608 - our own names

    def rows() -> Iterator[Row]:
        yield from up
        if not up.whole:
            yield from down

    return rows(), lambda: up.whole


def in_order(walk: Walk, highest: int) -> Iterator[Row]:
    """Rows by rising number. If the walk stops early, its last row is dropped: its number may be
    damaged. If the row is sound, it is found again in the leaf pages."""
    held: Row | None = None
    for row in walk:
        if not (0 if held is None else held[0]) < row[0] <= highest:
            return
        if held is not None:
            yield held
        held = row
    if held is not None and walk.whole:
        yield held


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Merge ranges into as few as possible."""
    made: list[Range] = []
    for first, last in sorted(ranges):
        if made and made[-1][1] + 1 >= first:
            made[-1] = (made[-1][0], max(made[-1][1], last))
        else:
            made.append((first, last))
    return tuple(made)


class _DamagedError(Exception):
    """The bytes do not form a valid record."""


class Pages:
    """The pages of one file. The file stays open and is not closed here: closing a descriptor drops
    the locks that the process holds on the file."""

    def __init__(self, file: BinaryIO, page_size: int) -> None:
        self._file, self._size = file, page_size
        self._count = -(-file.seek(0, 2) // page_size)

    def rows(self, columns: range) -> Iterator[tuple[int, int, Row]]:
        """Page, rowid and values of every row with a number of values in `columns`. The rowids in a
        page rise; a row that breaks the order has a damaged rowid and is left out."""
        for number in range(2, self._count + 1):  # the first page is never a leaf of these tables
            found = [*self._rows_of(self._page(number), columns)]
            for before, (rowid, values), after in zip(
                [None, *found], found, [*found[1:], None], strict=False
            ):
                if (before is None or before[0] < rowid) and (after is None or rowid < after[0]):
                    yield number, rowid, values

    def _rows_of(self, page: bytes, columns: range) -> Iterator[tuple[int, Row]]:
        if page[:1] != bytes([_TABLE_LEAF]):
            return
        for cell in range(int.from_bytes(page[3:5], "big")):
            at = _CELLS + 2 * cell
            try:
                yield self._row(page, int.from_bytes(page[at : at + 2], "big"), columns)
            except (_DamagedError, IndexError, UnicodeDecodeError):
                continue

    def free(self) -> set[int] | None:
        """The pages on the free list; None if the list itself is damaged."""
        page = self._page(1)
        trunk, count = struct.unpack(">II", page[32:40])
        free: set[int] = set()
        while trunk:
            if trunk in free or not 1 < trunk <= self._count:
                return None
            page = self._page(trunk)
            free.add(trunk)
            trunk, leaves = struct.unpack(">II", page[:8].ljust(8, b"\0"))
            if leaves > self._size // 4 - 2:
                return None
            free.update(struct.unpack(f">{leaves}I", page[8 : 8 + 4 * leaves]))
        return free if len(free) == count else None

    def _page(self, number: int) -> bytes:
        self._file.seek((number - 1) * self._size)
        return self._file.read(self._size)

    def _row(self, page: bytes, place: int, columns: range) -> tuple[int, Row]:
        length, place = _varint(page, place)
        rowid, place = _varint(page, place)
        local = self._local(length)
        payload = page[place : place + local]
        if len(payload) < local:
            raise _DamagedError
        # Before the rest is fetched: the header is enough to rule out most rows of other tables.
        types = _types(payload)
        if len(types) not in columns:
            raise _DamagedError
        if local < length:
            [following] = struct.unpack(
                ">I", page[place + local : place + local + 4].ljust(4, b"\0")
            )
            payload += self._overflow(following, length - local)
        return rowid, _values(payload, types)

    def _local(self, length: int) -> int:
        """The number of bytes of a payload that are in the leaf page itself."""
        if length > self._count * self._size:
            raise _DamagedError
        if length <= self._size - 35:
            return length
        least = (self._size - 12) * 32 // 255 - 23
        local = least + (length - least) % (self._size - 4)
        return local if local <= self._size - 35 else least

    def _overflow(self, number: int, length: int) -> bytes:
        parts = []
        while length > 0:
            if not 1 < number <= self._count:
                raise _DamagedError
            page = self._page(number)
            parts.append(page[4 : 4 + length])
            if len(parts[-1]) < min(length, self._size - 4):
                raise _DamagedError
            length -= len(parts[-1])
            number = int.from_bytes(page[:4], "big")
        return b"".join(parts)


def may_hold_rows(path: Path) -> bool:
    """True if a file may hold something that a repair can save: it begins like a database, or a
    page of it has a row. Only for a file that SQLite cannot read: closing a descriptor drops all
    locks that this process has on the file."""
    try:
        with path.open("rb") as file:
            if file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC:
                return True
            with contextlib.closing(pattern()) as whole:
                pages = Pages(file, _page_size(whole.serialize()))
            return next(pages.rows(range(1, _MOST_COLUMNS)), None) is not None
    except OSError:
        return True  # unknown


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & ~_MORE
        if not data[place] & _MORE:
            return value, place + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def _types(payload: bytes) -> list[int]:
    end, at = _varint(payload, 0)
    types = []
    while at < end:
        kind, at = _varint(payload, at)
        types.append(kind)
    if at != end:
        raise _DamagedError
    return types


def _values(payload: bytes, types: list[int]) -> Row:
    at, _ = _varint(payload, 0)
    sizes = [_SIZES[kind] if kind < len(_SIZES) else (kind - _FIRST_BLOB) // 2 for kind in types]
    if min(sizes) < 0 or at + sum(sizes) != len(payload):
        raise _DamagedError
    values = []
    for kind, size in zip(types, sizes, strict=True):
        values.append(_value(payload[at : at + size], kind))
        at += size
    return tuple(values)


def _value(data: bytes, kind: int) -> Any:
    if kind == 0:
        return None
    if kind < _REAL:
        return int.from_bytes(data, "big", signed=True)
    if kind == _REAL:
        return struct.unpack(">d", data)[0]
    if kind < _FIRST_BLOB:
        return kind - 8
    return data.decode() if kind % 2 else data


# --- The first page -------------------------------------------------------------------------------

_HEADER = 100
_INTERIOR_TABLE = 5
#: Offset in an interior page, after its type, of the number of its rightmost child.
_RIGHTMOST = 8


def opens(path: Path) -> bool:
    """True if SQLite can read the list of tables."""
    with contextlib.closing(tolerant(path)) as db:
        try:
            rows = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        except sqlite3.DatabaseError as error:
            if tells_nothing(error):
                raise
            return False
    return ("messages",) in rows or ("sessions",) in rows


def put_first_page(copy: Path) -> None:
    """Give a copy of a store a first page; raise `DamageError` if that does not help."""
    with contextlib.closing(pattern()) as whole:
        new = whole.serialize()
    # First only the header: if the rest of the page survived, it is more accurate than a new one.
    for pages in ([(0, _header(new))], _list_of_tables(new, copy.stat().st_size)):
        with copy.open("r+b") as file:
            for place, data in pages:
                file.seek(place)
                file.write(data)
        if opens(copy) and _shows_rows(copy):
            return
    raise DamageError(
        f"Nothing can be read from {copy.name.partition('.repair-')[0]}; it was left as it is.",
        hint="Restore the home from a backup, or move the file away to start a new store.",
    )


def _shows_rows(copy: Path) -> bool:
    """True if a row can be read from one end of a table, so that the new page fits the file."""
    with contextlib.closing(tolerant(copy)) as db:
        for table, order in itertools.product(("sessions", "messages"), ("", "DESC")):
            with contextlib.suppress(sqlite3.DatabaseError):
                query = f"SELECT number FROM {table} ORDER BY number {order} LIMIT 1"  # noqa: S608 - our own names
                if db.execute(query).fetchone():
                    return True
    return False


def _list_of_tables(new: bytes, end: int) -> Iterator[tuple[int, bytes]]:
    """The first page, and its children appended to the file: where a new store has these children,
    this one may have messages."""
    size = _page_size(new)
    first = bytearray(_header(new) + new[_HEADER:size])
    pages = -(-end // size)  # including a page that was cut off
    for free, (at, number) in enumerate(_children(new), start=pages + 1):
        first[at : at + 4] = struct.pack(">I", free)
        yield (free - 1) * size, new[(number - 1) * size : number * size]
    yield 0, bytes(first)


def _header(new: bytes) -> bytes:
    """A header that fits any number of pages: if its two change counters differ, SQLite ignores its
    page count. Its free list is empty."""
    header = bytearray(new[:_HEADER])
    header[24:28] = struct.pack(">I", 1)
    header[32:40] = bytes(8)
    header[92:96] = bytes(4)
    return bytes(header)


def _page_size(new: bytes) -> int:
    [size] = struct.unpack(">H", new[16:18])
    return 65_536 if size == 1 else int(size)


def _children(new: bytes) -> Iterator[tuple[int, int]]:
    """The children of the first page, each with the offset at which that page names it. The list of
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
    """Connect to a store that may have lost its end. SQLite refuses to read any of it, unless the
    connection may write to the list of tables; no code here does."""
    check_database(path)
    location = path.absolute().as_uri() + "?mode=rw"
    db = prepared(sqlite3.connect(location, uri=True, isolation_level=None))
    try:
        db.execute("PRAGMA writable_schema = ON")
    except BaseException:
        db.close()
        raise
    return db
