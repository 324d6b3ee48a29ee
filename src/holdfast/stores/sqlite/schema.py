"""The schema of the database, by version number, and opening a file without changing its folder.

Migrations go forward only; newer and foreign files are refused.

SQLite needs two files next to a database with a write-ahead log, and a reader that finds none
creates them. While no process has the store open there are none. It is then read as a file that
does not change; afterwards the caller checks again whether that was true.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import SchemaError
from holdfast.stores.files import check_database
from holdfast.stores.sessions.searchable_text import search_text

#: "Hold" in ASCII: marks a SQLite file as ours.
APPLICATION_ID = 0x486F6C64
LATEST = 5


def check(path: Path, *, alone: bool = False) -> None:
    """Raise unless the file is empty, or ours and not newer. Uses a connection that cannot write.

    `alone` is for a disk without room for the shared-memory file: no other process can open the
    store meanwhile.
    """
    mode = "rw" if alone else "ro"
    with contextlib.closing(
        sqlite3.connect(path.absolute().as_uri() + f"?mode={mode}", uri=True, timeout=5.0)
    ) as looking:
        if alone:
            looking.execute("PRAGMA locking_mode = EXCLUSIVE")
            looking.execute("PRAGMA query_only = ON")
        schema_version(looking, path)


def migrate(connection: sqlite3.Connection, *, to: int = LATEST) -> None:
    """Migrate the store to a schema version, by default the latest. Several processes may try at
    once; one of them does it."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        if _identity(connection)[1] == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only before the first table
        connection.execute("PRAGMA journal_mode = WAL")
    if _identity(connection)[1] >= to:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        _, version = _identity(connection)  # another process may have been first
        for number in range(version + 1, to + 1):
            for statement in statements(number):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {max(version, to)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def statements(number: int) -> Iterator[str]:
    """Yield the statements of one migration. `executescript` would commit in the middle."""
    script = Path(__file__).with_name(f"schema_{number}.sql").read_text("utf-8")
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _identity(connection: sqlite3.Connection) -> tuple[int, int]:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    return application, version


_PATIENCE = 5.0
Stamp = tuple[int, int, int]


def at_rest(path: Path) -> Stamp | None:
    """The state of a file that no process has open; None if one may have it open."""
    try:
        if any(beside(path, suffix).exists() for suffix in ("-shm", "-journal")):
            return None
        wal = beside(path, "-wal")
        if wal.exists() and wal.stat().st_size:
            return None
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def open_to_look(path: Path, *, unchanging: bool) -> sqlite3.Connection:
    """Open a connection that cannot write. `unchanging` takes no locks: only for a store at
    rest."""
    check_database(path)
    flags = "?mode=ro&immutable=1" if unchanging else "?mode=ro"
    return prepared(
        sqlite3.connect(
            path.absolute().as_uri() + flags, uri=True, timeout=_PATIENCE, isolation_level=None
        )
    )


def prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    """Add the function that the search index needs. Bytes that are not valid text do not stop a
    read."""
    db.create_function("search_text", 3, search_text, deterministic=True)
    db.text_factory = lambda raw: raw.decode(errors="replace")
    return db


def schema_version(db: sqlite3.Connection, path: Path) -> int:
    """The number of the schema, 0 for an empty file; raises if it is not ours, or newer."""
    [version] = db.execute("PRAGMA user_version").fetchone()
    [application] = db.execute("PRAGMA application_id").fetchone()
    if version == 0 and not db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        return 0
    if application != APPLICATION_ID:
        raise SchemaError(
            f"{path} is not a session store of Holdfast; it was left alone.",
            hint="Move the file away; Holdfast then creates its own store.",
        )
    if version > LATEST:
        raise NewerSchemaError(
            f"{path} was written by a newer version of Holdfast (schema {version}, this one "
            f"knows {LATEST}); it was left alone.",
            hint="Upgrade Holdfast.",
        )
    return int(version)


class NewerSchemaError(SchemaError):
    """Not damaged, only too new."""


def error_code(error: sqlite3.Error) -> int:
    """SQLite's primary code of an error; 0 if Python's own module raised it."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def tells_nothing(error: sqlite3.DatabaseError) -> bool:
    """True if an error is about access to the file, not about its content."""
    return error_code(error) in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_FULL,
    )


def pattern(version: int = LATEST) -> sqlite3.Connection:
    """An empty store in memory, as a model of a store of this version."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate(made, to=version)
    except BaseException:
        made.close()
        raise
    return made


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
