"""Undo copies of sessions: their rows, unchanged, several sessions to a file.

A bundle is a SQLite file, `<first>-<last>.<checksum>.sessions.db`, that any tool can open; the
numbers are those of its first and last removal. Rows are copied, not translated: message bodies
stay packed, nothing is lost on the way, and a hundred sessions take milliseconds. The store decides
which tables there are and what fills them.

Write-order rule: a bundle is complete and on the disk before it gets its name, and it has its name
before the rows that it copies are removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import DamageError, FullDiskError
from holdfast.model.stored_session import Copied
from holdfast.stores.files import (
    PRIVATE_FILE,
    allocated_bytes,
    check_regular,
    make_private_dir,
    open_regular,
    sync_dir,
)
from holdfast.stores.sessions.session_rows import (
    AMONG,
    GUARDED,
    GUARDED_COLUMNS,
    LEASE_COLUMNS,
    SESSION_COLUMNS,
    UNPRICED,
)
from holdfast.value import dataclass

FORMAT = 1
#: Columns that bundles of an earlier version lack.
LATER_COLUMNS = UNPRICED
#: A column of the table of sessions, so that the messages need no index. Bundles of an earlier
#: version have that index instead.
FIRST_MESSAGE = "first_message"
MESSAGE_COLUMNS = ("number", "session", "role", "timestamp", "form", "body", "fields")

_NAME = re.compile(r"(\d+)-(\d+)\.([0-9a-f]{8})\.sessions\.db")
_CHUNK = 256 * 1024
#: From this many messages on, large pages save a third of the time. A small bundle would waste most
#: of a large page.
_MANY_MESSAGES = 1_000
_LARGE_PAGE = 32 * 1024
# The file is not visible before it is complete: what a kill leaves of it is thrown away.
_PRAGMAS = f"""
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA user_version = {FORMAT};
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """A table of a bundle, and the query that fills it.

    The query reads the store, which is attached as `store`. Its only parameter is the JSON list of
    the session numbers. Every table but `sessions` has a column `session` with that number.
    """

    name: str
    columns: Sequence[str]
    query: str
    #: True if the first column is the rowid.
    by_rowid: bool = False

    def copy(self, bundle: sqlite3.Connection, chosen: str) -> None:
        first, *rest = map(quoted, self.columns)
        key = f"{first} INTEGER PRIMARY KEY" if self.by_rowid else first
        # Without types, so that no value is converted.
        bundle.execute(f"CREATE TABLE main.{quoted(self.name)} ({', '.join((key, *rest))})")
        bundle.execute(f"INSERT INTO main.{quoted(self.name)} {self.query}", (chosen,))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _belonging(name: str, columns: Sequence[str], *, by_rowid: bool = False) -> CopiedTable:
    query = f"SELECT {', '.join(columns)} FROM store.{name} WHERE session {AMONG}"  # noqa: S608 - our own names
    return CopiedTable(name=name, columns=columns, query=query, by_rowid=by_rowid)


#: The tables of Holdfast's own store.
TABLES = (
    CopiedTable(
        name="sessions",
        columns=("number", FIRST_MESSAGE, "parent_id", "routing_key", "children", *SESSION_COLUMNS),
        query=f"""
            SELECT s.number,
                   (SELECT min(m.number) FROM store.messages m WHERE m.session = s.number),
                   p.id, r.key,
                   (SELECT json_group_array(c.id) FROM store.sessions c WHERE c.parent = s.number),
                   {", ".join(f"s.{column}" for column in SESSION_COLUMNS)}
            FROM store.sessions s
            LEFT JOIN store.sessions p ON p.number = s.parent
            LEFT JOIN store.routes r ON r.session = s.number
            WHERE s.number {AMONG}
        """,  # noqa: S608 - our own names
        by_rowid=True,
    ),
    _belonging("messages", MESSAGE_COLUMNS, by_rowid=True),
    _belonging("leases", LEASE_COLUMNS),
    _belonging(GUARDED, GUARDED_COLUMNS),
)


class BundleFolder:
    """The bundles of one operation. `functions` take one argument and are used in the queries of
    `tables`."""

    def __init__(
        self,
        folder: Path,
        tables: Sequence[CopiedTable] = TABLES,
        functions: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._folder = folder
        self._tables = tables
        self._functions = functions or {}

    def holding(self, numbers: Sequence[int]) -> Mapping[Path, list[int]]:
        """The bundles whose range includes some of these removals, with those removals. After a
        kill there can be two for the same range: one from before sessions were taken out of it, and
        one from after."""
        found: dict[Path, list[int]] = {}
        for path, first, last in self._all():
            inside = [number for number in numbers if first <= number <= last]
            if inside:
                found[path] = inside
        return found

    def _all(self) -> Iterator[tuple[Path, int, int]]:
        try:
            names = sorted(path.name for path in self._folder.iterdir())
        except FileNotFoundError:
            return
        for name in names:
            if match := _NAME.fullmatch(name):
                yield self._folder / name, int(match[1]), int(match[2])

    def clear_unfinished(self) -> None:
        """Remove bundles that a killed process did not finish. The caller has the home's lock."""
        for path in self._folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def drop_if_empty(self) -> None:
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def contents(self, path: Path) -> Sequence[Copied]:
        """The sessions in a bundle; raises `DamageError` if it cannot be read."""
        with _damage(path), opened(path) as bundle:
            # The unary plus: `session` has no type in a bundle. Compared with a column that has one
            # it would be converted first, and no index could be used.
            first = (
                FIRST_MESSAGE
                if FIRST_MESSAGE in _columns(bundle)
                else "(SELECT min(m.number) FROM messages m WHERE m.session = +sessions.number)"
            )
            rows = bundle.execute(f"SELECT id, number, started_at, {first} FROM sessions")  # noqa: S608 - our own text
            return [Copied(*row) for row in rows]

    def check(self, path: Path) -> None:
        """Raise `DamageError` unless a bundle is byte for byte what was written."""
        wanted = _NAME.fullmatch(path.name)
        if wanted is None or _checksum(path) != int(wanted[3], 16):
            raise DamageError(f"its copy in the trash was changed: {path}")

    def drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def size(self, path: Path) -> int:
        return allocated_bytes(path.stat())

    def bytes(self) -> int:
        """The size of all bundles on the disk."""
        try:
            return sum(map(self.size, self._folder.iterdir()))
        except FileNotFoundError:
            return 0

    def write(
        self,
        db: sqlite3.Connection,
        numbers: Sequence[int],
        first: int,
        last: int,
        *,
        messages: int = 0,
    ) -> Path:
        """Copy one snapshot of sessions in the store that `db` has open into a new bundle.

        SQLite copies from file to file, in half the time of rows that pass through Python.
        `messages` is roughly how many messages there are.
        """

        def fill(bundle: sqlite3.Connection) -> None:
            for table in self._tables:
                table.copy(bundle, json.dumps(numbers))

        large = messages >= _MANY_MESSAGES
        return self._make(first, last, fill, store=_file_of(db), large=large)

    def without(self, path: Path, ids: Collection[str]) -> Path | None:
        """Take sessions out of a bundle; None if that leaves it empty."""
        staying = [copied.number for copied in self.contents(path) if copied.id not in ids]
        if not staying:
            path.unlink()
            return None

        def fill(smaller: sqlite3.Connection) -> None:
            schema = smaller.execute(
                "SELECT type, name, sql FROM store.sqlite_schema ORDER BY type = 'index'"
            )
            for kind, name, sql in schema.fetchall():
                smaller.execute(sql)
                if kind == "index":
                    continue
                key = "number" if name == "sessions" else "session"
                smaller.execute(
                    f"INSERT INTO main.{quoted(name)} "  # noqa: S608 - quoted names
                    f"SELECT * FROM store.{quoted(name)} WHERE {key} {AMONG}",
                    (json.dumps(staying),),
                )

        first, last = map(int, _NAME.fullmatch(path.name).groups()[:2])  # type: ignore[union-attr]
        with _damage(path):
            smaller = self._make(first, last, fill, store=path)
        if smaller != path:
            path.unlink()  # only once the smaller one has its name
        return smaller

    def _make(
        self,
        first: int,
        last: int,
        fill: Callable[[sqlite3.Connection], None],
        *,
        store: Path | None = None,
        large: bool = False,
    ) -> Path:
        """Create a bundle and let `fill` fill it. `fill` can read the tables of the file `store`
        under the name `store`."""
        make_private_dir(self._folder)
        temporary = self._folder / f".{first}-{last}.tmp"
        temporary.unlink(missing_ok=True)
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
            with contextlib.closing(
                sqlite3.connect(temporary, isolation_level=None, uri=True)
            ) as bundle:
                if large:  # before anything else: the page size cannot be changed later
                    bundle.execute(f"PRAGMA page_size = {_LARGE_PAGE}")
                bundle.executescript(_PRAGMAS)
                for name, function in self._functions.items():
                    bundle.create_function(name, 1, function, deterministic=True)
                if store is not None:
                    bundle.execute("ATTACH ? AS store", (f"{store.absolute().as_uri()}?mode=ro",))
                bundle.execute("BEGIN")
                fill(bundle)
                bundle.execute("COMMIT")
            path = (
                self._folder / f"{first}-{last}.{_checksum(temporary, sync=True):08x}.sessions.db"
            )
            temporary.replace(path)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise FullDiskError(
                    f"The disk is full; nothing was copied to {self._folder}."
                ) from error
            raise
        sync_dir(self._folder)
        return path


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a bundle for reading. Bundles are never changed."""
    check_regular(path)
    with contextlib.closing(
        sqlite3.connect(unchanging(path), uri=True, isolation_level=None)
    ) as bundle:
        [version] = bundle.execute("PRAGMA user_version").fetchone()
        if version != FORMAT:
            raise DamageError(f"{path} has an unknown format: {version}")
        yield bundle


def unchanging(path: Path) -> str:
    """The URI of a bundle for SQLite: no process writes to it, so it needs no locks."""
    return path.absolute().as_uri() + "?mode=ro&immutable=1"


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise DamageError(f"{path} cannot be read: {error}") from error


def has(bundle: sqlite3.Connection, table: str) -> bool:
    """True if a bundle has this table: those of an earlier version lack some."""
    query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
    return bool(bundle.execute(query, (table,)).fetchone())


def session_columns(bundle: sqlite3.Connection) -> str:
    """The session columns of a bundle as the store needs them; 0 for what an earlier version did
    not count, see `uncounted`."""
    there = _columns(bundle)
    return ", ".join(
        f"coalesce({column if column in there else 'NULL'}, 0)"
        if column in LATER_COLUMNS
        else column
        for column in SESSION_COLUMNS
    )


def uncounted(bundle: sqlite3.Connection) -> set[int]:
    """The sessions in a bundle without all the counts that later versions keep."""
    condition = f"{LATER_COLUMNS[0]} IS NULL" if LATER_COLUMNS[0] in _columns(bundle) else "1"
    rows = bundle.execute(f"SELECT number FROM sessions WHERE {condition}")  # noqa: S608 - our own names
    return {number for (number,) in rows}


def _columns(bundle: sqlite3.Connection) -> set[str]:
    return {row[1] for row in bundle.execute("PRAGMA table_info(sessions)")}


def _file_of(db: sqlite3.Connection) -> Path:
    """Read as bytes: a path need not be UTF-8, and Python accepts no other text from SQLite."""
    asked = "SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'"
    return Path(os.fsdecode(db.execute(asked).fetchone()[0]))


def _checksum(path: Path, *, sync: bool = False) -> int:
    """The checksum of the file's content as read back; with `sync`, the content is then on the
    disk."""
    checksum = 0
    chunk = memoryview(bytearray(_CHUNK))  # one buffer: fresh memory costs page faults
    with os.fdopen(open_regular(path), "rb", buffering=0) as raw:
        while read := raw.readinto(chunk):
            checksum = zlib.crc32(chunk[:read], checksum)
        if sync:
            os.fsync(raw.fileno())
    return checksum
