"""The shape of the database, by number. Forward only; newer and foreign files are refused."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from holdfast.errors import SchemaError

#: "Hold" in ASCII: says that a SQLite file is one of ours.
APPLICATION_ID = 0x486F6C64
LATEST = 3


def check(path: Path, *, alone: bool = False) -> None:
    """Raise unless the file is empty or ours and not newer. Looks without being able to write.

    `alone` is for a disk without room for what processes share: nobody else can open it meanwhile.
    """
    mode = "rw" if alone else "ro"
    with contextlib.closing(
        sqlite3.connect(path.absolute().as_uri() + f"?mode={mode}", uri=True, timeout=5.0)
    ) as looking:
        if alone:
            looking.execute("PRAGMA locking_mode = EXCLUSIVE")
            looking.execute("PRAGMA query_only = ON")
        application, version = _identity(looking)
        is_empty = not looking.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    if is_empty and version == 0:
        return
    if application != APPLICATION_ID:
        raise SchemaError(f"{path} is not a session store of Holdfast; it was left alone.")
    if version > LATEST:
        raise SchemaError(
            f"{path} was written by a newer version of Holdfast (schema {version}, this one "
            f"knows {LATEST}); it was left alone.",
            hint="Upgrade Holdfast.",
        )


def migrate(connection: sqlite3.Connection, *, to: int = LATEST) -> None:
    """Bring the store to a shape, the latest one unless somebody wants to see how an older one
    looked. Several processes may try at once; one does it."""
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
    """The statements of one migration. `executescript` would commit in the middle."""
    resources = import_module("importlib.resources")  # late: it takes longer than to open a store
    script: str = resources.files(__package__).joinpath(f"schema_{number}.sql").read_text("utf-8")
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
