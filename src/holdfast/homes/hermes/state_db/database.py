"""Connections to Hermes's database, which Hermes may have open too.

We put no file of ours next to it, and change no persistent setting. A database with an unknown
schema is only read. Hermes may upgrade the schema at any time, so every write transaction checks it
again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import BusyError, DamageError, SchemaError, StorageError, in_voice
from holdfast.homes.hermes.state_db import schema as schemas
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.values import relation_of
from holdfast.stores import processes
from holdfast.stores.sqlite.database import BUSY_SECONDS, Database, pragma
from holdfast.stores.sqlite.write_queue import Gate


class HermesDatabase(Database):
    """One `state.db`. `schema` is from the last look."""

    #: SQLite flushes with every commit: the journal mode is Hermes's choice.
    flushes = False
    schema: Schema

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._seen: int | None = None
        super().__init__(path, create=False, busy_seconds=busy_seconds)

    def _is_latest(self) -> bool:
        """We migrate nothing of Hermes's: every version is read unchanged."""
        return True

    def _accept(self) -> None:
        with self.read() as db:
            self._look(db)

    def _configure(self, connection: sqlite3.Connection) -> None:
        connection.create_function("relation_of", 4, relation_of, deterministic=True)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        # Many builds of SQLite overwrite each freed page, which costs twenty times as much as the
        # removal. FAST overwrites only pages that are written anyway.
        connection.execute("PRAGMA secure_delete = FAST")

    def _make_gate(self) -> Gate:
        return _NoGate(self.path)

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A SQLite error here means damage, or a newer schema that we do not know."""
        try:
            with super().read() as db:
                yield db
        except sqlite3.Error as error:
            unknown = self.schema.unknown if self._seen is not None else None
            if unknown is not None:
                raise SchemaError(
                    f"{self.path} cannot be read: {error}; {unknown}.",
                    hint="Upgrade Holdfast.",
                ) from error
            raise DamageError(
                f"{self.path} cannot be read: {error}.",
                hint="`holdfast doctor` looks at all of it. Nothing was changed.",
            ) from error

    @contextlib.contextmanager
    def write(self, *, flushed: bool = True) -> Iterator[sqlite3.Connection]:
        self.check_writable()
        with super().write(flushed=flushed) as db:
            self._look(db)
            self.check_writable()
            yield db

    def script(self, statements: str) -> None:
        self.check_writable()
        super().script(statements)

    def vacuum(self) -> None:
        self.check_writable()
        super().vacuum()

    def reconnect(self) -> None:
        """Continue with a new connection in this thread. FTS5 caches what it read of a search table
        until another connection commits, so a connection that has changed the table's pages itself
        must not use it any more."""
        old = self.connection()
        self._local.process = None
        # Fails for example with too few file descriptors. The work is done, and the next use
        # retries.
        with contextlib.suppress(StorageError):
            self.connection()  # before closing the other: the last connection removes the WAL
        with self._guard:
            self._all.remove((os.getpid(), old))
        old.close()

    def check_writable(self) -> None:
        """Raise `SchemaError` if the database may only be read."""
        if self.schema.unknown is not None:
            raise SchemaError(
                f"{self.path} is not changed: {self.schema.unknown}.",
                hint="What only reads still works. Upgrade Holdfast to change this home.",
            )

    def _look(self, db: sqlite3.Connection) -> None:
        [cookie] = db.execute("PRAGMA schema_version").fetchone()
        if cookie != self._seen or self.schema.version != _version(db):
            self.schema = schemas.read(db)
            self._seen = cookie


def _version(db: sqlite3.Connection) -> object:
    with contextlib.suppress(sqlite3.OperationalError):
        row = db.execute("SELECT version FROM schema_version").fetchone()
        return row[0] if row else None
    return None


class _NoGate(Gate):
    """Hermes does not wait in a queue. It asks SQLite for the lock again and again, and any process
    with the database open may be doing that."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def enter(self, patience: float) -> bool:
        return False

    def is_awaited(self) -> bool:
        return others_have_open(self._database)

    def close(self) -> None:
        """Nothing to close."""


# --- Giving space back ----------------------------------------------------------------------------
# The file shrinks only with a VACUUM, because Hermes does not turn on `auto_vacuum`. A VACUUM
# blocks every writer. So it runs only if it is quick, or if no other process has the database open.
# Otherwise Hermes reuses the free pages.

#: A VACUUM of this many pages takes less than a second.
_FEW_PAGES = 10_000
#: A smaller share of free pages is not worth a VACUUM of a large file.
_LEAST_SHARE = 0.1
#: A VACUUM writes everything to a copy, to the WAL and to the file.
_ROOM = 3


def give_back(database: HermesDatabase) -> None:
    """Shrink the file to its content. Raises `BusyError` if Hermes would have to wait."""
    wanted = ("page_count", "freelist_count", "page_size", "auto_vacuum")
    with database.read() as db:
        pages, free, size, gives_back_itself = (pragma(db, name) for name in wanted)
    used = pages - free
    if gives_back_itself:
        database.script("PRAGMA incremental_vacuum")
    elif free and (used <= _FEW_PAGES or _is_free(database, pages, free)):
        _check_room(database, used * size)
        database.vacuum()
    database.truncate_log()


def _is_free(database: HermesDatabase, pages: int, free: int) -> bool:
    if free < pages * _LEAST_SHARE:
        return False  # Hermes reuses them
    if others_have_open(database.path):
        raise BusyError(
            in_voice(
                "Hermes has its database open, and a VACUUM would keep it waiting. Hermes reuses "
                "free pages; to return them to the disk, run `holdfast maintain --force` while "
                "Hermes is not running."
            )
        )
    return True


def _check_room(database: HermesDatabase, needed: int) -> None:
    """VACUUM writes a copy of the content, and then writes that copy to the WAL."""
    if shutil.disk_usage(database.path.parent).free < _ROOM * needed:
        raise StorageError(
            f"Not enough disk space for a VACUUM of {database.path}; Hermes reuses its free pages.",
            hint="Free some space, then run `holdfast maintain --force`.",
        )


# --- Who has the database open --------------------------------------------------------------------
# Every connection to a database in WAL mode holds a lock on the file while it exists, and the
# kernel lists those locks. To query the file itself we would have to open it, and closing any
# descriptor on it would drop this process's own locks.

_LOCKS = Path("/proc/locks")
_OWNER, _FILE, _FIELDS = 4, 5, 6


def others_have_open(database: Path) -> bool:
    """True if another process has the database open, or may have. This process must have it
    open."""
    owners = _owners(database)
    return owners is None or bool(owners)


def strangers_have_open(database: Path) -> bool:
    """True if a process with the database open may be in another pid namespace, as in a container.
    On Linux, also true if that is unknown."""
    owners = _owners(database)
    return sys.platform == "linux" if owners is None else not all(map(_is_neighbour, owners))


def _owners(database: Path) -> set[str] | None:
    """The ids of other processes that hold a lock. None if the list is unusable: it lacks our own
    lock, or we are in a container, where it lacks outside processes."""
    if not processes.is_outermost():
        return None
    try:
        wanted = _named(database)
        lines = _LOCKS.read_text("ascii").splitlines()
    except (OSError, ValueError):
        return None
    owners = {owner for line in lines if (owner := _owner(line.split(), wanted)) is not None}
    mine = str(os.getpid())
    return owners - {mine} if mine in owners else None


def _owner(words: list[str], wanted: str) -> str | None:
    if words[1:2] == ["->"]:  # a process that waits for a lock
        words = [words[0], *words[2:]]
    return words[_OWNER] if len(words) >= _FIELDS and words[_FILE] == wanted else None


def _named(path: Path) -> str:
    status = path.stat()
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"


def _is_neighbour(process: str) -> bool:
    try:
        theirs, ours = (os.stat(f"/proc/{each}/ns/pid") for each in (process, "self"))  # noqa: PTH116
    except OSError:
        return False
    return theirs.st_ino == ours.st_ino
