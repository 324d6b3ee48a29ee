"""Parts of a search index that are built next to Hermes's database, and then moved into it as a
whole.

Indexing messages is most of the work of an undo. Done in the database it blocks Hermes, and the two
search tables take turns. So each is built in its own file by its own thread, without any lock; what
is left for the transaction is to copy pages.

FTS5 stores an index as parts that are written once and never changed: pages numbered by part, and
one record that lists all parts by level, with the oldest in the highest level. Newer parts hide
older ones. A part can be moved from one database to another under a new number, if it is entered as
the newest. Only the format that FTS5 has had from the beginning is supported. For any other index
the caller has to fill it in the usual way.

A connection that has moved parts must not use the search table itself any more: FTS5 caches the
list of parts, and reads it again only after a commit of another connection.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.stores.files import PRIVATE_FILE
from holdfast.value import dataclass

_VERSION = 4
_SUMS, _LIST = 1, 10  # the rowids of these two records
#: The bits of a page's rowid below the number of its part.
_PAGE_BITS = 37
_HIGHEST_PART = 65_535
_COOKIE = 4
_LONGEST_NUMBER, _MORE = 8, 0x80
#: The level for moved parts. FTS5 merges sixteen small parts of a level at once, inside a write of
#: Hermes, and moved parts are large. At this level that happens only after 65,000 messages, and
#: until then FTS5 merges step by step.
_LEVEL = 4
_MOST_LEVELS, _MOST_PARTS = 40, 1_000
#: How much is gathered before a part is written: enough for all messages of one bundle.
_GATHERED = 128 * 1024 * 1024
_SETTINGS = {"hashsize": _GATHERED, "automerge": 0}
_CACHE_KILOBYTES = 16 * 1024


class UnknownIndexError(Exception):
    """The index has an unsupported format."""


@dataclass(frozen=True, slots=True)
class Part:
    """The number of a part, and its first and last page."""

    number: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Level:
    """Parts of similar size, newest last; `merging` of them are already being merged."""

    merging: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class PartList:
    """The parts of an index, youngest level first."""

    cookie: bytes
    written: int
    levels: tuple[Level, ...]

    @property
    def parts(self) -> list[Part]:
        """All parts, oldest first."""
        return [part for level in self.levels[::-1] for part in level.parts]

    def with_newest(self, coming: Sequence[Part]) -> PartList:
        """The list with `coming` as the newest parts."""
        young, old = self.levels[:_LEVEL], self.levels[_LEVEL:]
        if any(level.merging for level in young):
            # The output of a running merge is the last part of the next level: keep them all
            # together.
            above: tuple[Level, ...] = (Level(0, tuple(coming)), *self.levels)
        else:
            level = old[0] if old else Level(0, ())
            newer = [part for each in young[::-1] for part in each.parts]
            above = (Level(level.merging, (*level.parts, *newer, *coming)), *old[1:])
        return PartList(self.cookie, self.written, (*[Level(0, ())] * _LEVEL, *above))


def built(
    path: Path,
    table: str,
    declared: str,
    texts: str,
    source: Path,
    parameters: Sequence[object] = (),
) -> bool:
    """Index texts in a new file. `texts` is a query for number and text of messages, ordered by
    number, on the database `source`, under that schema name. Returns False if that is not possible;
    there is no file then."""
    try:
        with made(path) as db:
            db.execute("ATTACH ? AS source", (f"{source.absolute().as_uri()}?mode=ro",))
            db.execute("BEGIN")
            db.execute(declared)
            for name, value in _SETTINGS.items():
                db.execute(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (name, value))  # noqa: S608 - known name
            db.execute(f"INSERT INTO {table} (rowid, content) {texts}", parameters)
            db.execute("COMMIT")
    except (OSError, sqlite3.Error):  # e.g. a full disk: filling the table directly may work
        dropped(path)
        return False
    return True


def dropped(path: Path) -> None:
    """Remove a file that was made here. If that fails, it only costs disk space until the next run
    clears it, so the work that it was for must not fail."""
    with contextlib.suppress(OSError):
        path.unlink()


@contextlib.contextmanager
def made(path: Path) -> Iterator[sqlite3.Connection]:
    """A new private database that need not survive this process. The pragmas name its schema:
    without that they would also apply to Hermes's database once that is attached."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, uri=True)) as db:
        db.execute("PRAGMA main.journal_mode = OFF")
        db.execute("PRAGMA main.synchronous = OFF")
        db.execute("PRAGMA main.locking_mode = EXCLUSIVE")
        db.execute(f"PRAGMA main.cache_size = -{_CACHE_KILOBYTES}")
        yield db


def moved_in(db: sqlite3.Connection, table: str, beside: str) -> bool:
    """Move the index of a search table in the attached database `beside` into the same table of the
    main database, in the caller's transaction. No message may be in both. Returns False, with
    nothing changed, if one of the indexes has an unsupported format."""
    try:
        there, coming = (_read(db, schema, table) for schema in ("main", beside))
        if _columns(db, "main", table) != _columns(db, beside, table):
            return False
        sums = _sums(db, "main", table), _sums(db, beside, table)
        _check_writable(db, table)
    except UnknownIndexError:
        return False
    numbers = _free_numbers(there, len(coming.parts))
    if any(level.merging for level in coming.levels) or numbers is None:
        return False
    listed = there.with_newest(
        [
            Part(number, part.first, part.last)
            for number, part in zip(numbers, coming.parts, strict=True)
        ]
    )
    if len(listed.levels) > _MOST_LEVELS or len(listed.parts) > _MOST_PARTS:
        return False
    for number, part in zip(numbers, coming.parts, strict=True):
        _copy_part(db, table, beside, part.number, number)
    for name in ("docsize", "content"):
        db.execute(f"INSERT INTO main.{table}_{name} SELECT * FROM {beside}.{table}_{name}")  # noqa: S608 - known names
    whole = [sum(both) for both in zip(*sums, strict=True)] if sums[0] else sums[1]
    for record, content in ((_SUMS, _numbers(whole)), (_LIST, encode(listed))):
        db.execute(
            f"INSERT OR REPLACE INTO main.{table}_data (id, block) VALUES (?, ?)",  # noqa: S608 - known name
            (record, content),
        )
    return True


def _check_writable(db: sqlite3.Connection, table: str) -> None:
    """A SQLite with defensive mode lets only FTS5 write to its shadow tables."""
    try:
        db.execute(f"DELETE FROM main.{table}_data WHERE 0")  # noqa: S608 - known name
    except sqlite3.DatabaseError as error:
        raise UnknownIndexError from error


def _copy_part(db: sqlite3.Connection, table: str, beside: str, old: int, new: int) -> None:
    """As in FTS5, remains of an earlier part with the same number are replaced."""
    db.execute(
        f"""
        INSERT OR REPLACE INTO main.{table}_data (id, block)
        SELECT id + ?, block FROM {beside}.{table}_data WHERE id >= ? AND id < ? ORDER BY id
        """,  # noqa: S608 - known names
        ((new - old) << _PAGE_BITS, old << _PAGE_BITS, (old + 1) << _PAGE_BITS),
    )
    db.execute(
        f"""
        INSERT OR REPLACE INTO main.{table}_idx (segid, term, pgno)
        SELECT ?, term, pgno FROM {beside}.{table}_idx WHERE segid = ?
        """,  # noqa: S608 - known names
        (new, old),
    )


def _read(db: sqlite3.Connection, schema: str, table: str) -> PartList:
    settings = dict(db.execute(f"SELECT k, v FROM {schema}.{table}_config"))  # noqa: S608 - known names
    if settings.get("version") != _VERSION or "pgsz" in settings:
        raise UnknownIndexError
    return decode(_record(db, schema, table, _LIST))


def _record(db: sqlite3.Connection, schema: str, table: str, number: int) -> bytes:
    row = db.execute(
        f"SELECT block FROM {schema}.{table}_data WHERE id = ?",  # noqa: S608 - known names
        (number,),
    ).fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise UnknownIndexError
    return row[0]


def _sums(db: sqlite3.Connection, schema: str, table: str) -> list[int]:
    """The numbers of messages and words in an index; empty for a new one."""
    return [*_decoded(_record(db, schema, table, _SUMS))]


def _columns(db: sqlite3.Connection, schema: str, table: str) -> Sequence[object]:
    return [
        db.execute(
            "SELECT name FROM pragma_table_info(?, ?) ORDER BY cid", (f"{table}_{name}", schema)
        ).fetchall()
        for name in ("data", "idx", "docsize", "content")
    ]


def _free_numbers(there: PartList, wanted: int) -> list[int] | None:
    """The lowest unused part numbers, as FTS5 would choose them."""
    taken = {part.number for part in there.parts}
    free = [each for each in range(1, len(taken) + wanted + 1) if each not in taken][:wanted]
    return free if not free or free[-1] <= _HIGHEST_PART else None


# --- The records ----------------------------------------------------------------------------------


def decode(record: bytes) -> PartList:
    """Raises `UnknownIndexError` if the record is not a complete list of parts."""
    cookie, numbers = record[:_COOKIE], _decoded(record[_COOKIE:])
    level_count, part_count, written = (_next(numbers) for _ in range(3))
    levels = []
    for _ in range(level_count):
        merging, count = _next(numbers), _next(numbers)
        parts = tuple(Part(*(_next(numbers) for _ in range(3))) for _ in range(count))
        levels.append(Level(merging, parts))
    read = PartList(cookie, written, tuple(levels))
    if len(read.parts) != part_count or next(numbers, None) is not None:
        raise UnknownIndexError
    return read


def encode(parts: PartList) -> bytes:
    numbers = [len(parts.levels), len(parts.parts), parts.written]
    for level in parts.levels:
        numbers += [level.merging, len(level.parts)]
        for part in level.parts:
            numbers += [part.number, part.first, part.last]
    return parts.cookie + _numbers(numbers)


def _next(numbers: Iterator[int]) -> int:
    number = next(numbers, None)
    if number is None:
        raise UnknownIndexError
    return number


def _decoded(record: bytes) -> Iterator[int]:
    """Variable-length integers of SQLite: seven bits per byte, highest first. Nine-byte numbers
    have another encoding; they do not occur here."""
    number = length = 0
    for byte in record:
        number, length = number << 7 | byte & ~_MORE, length + 1
        if length > _LONGEST_NUMBER:
            raise UnknownIndexError
        if not byte & _MORE:
            yield number
            number = length = 0
    if length:
        raise UnknownIndexError


def _numbers(numbers: Sequence[int]) -> bytes:
    record = bytearray()
    for number in numbers:
        groups = [number & ~_MORE & 0xFF]
        while number := number >> 7:
            groups.append(number & 0xFF | _MORE)
        record += bytes(groups[::-1])
    return bytes(record)
