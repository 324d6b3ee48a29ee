"""Another program's SQLite file, to be read. Nothing is written, locked or folded in."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from holdfast.errors import BusyError, StorageError

#: How long a reader waits for a writer that has the file for itself.
_PATIENCE = 2.0
_MAGIC = b"SQLite format 3\0"
_COLUMNS = """
SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
WHERE t.type = 'table'
"""


def add_newer_functions(db: sqlite3.Connection) -> None:
    """What the tables of agents call, and what the SQLite here may be too old to have."""
    if sqlite3.sqlite_version_info < (3, 43):
        db.create_function("octet_length", 1, _octet_length, deterministic=True)


def _octet_length(value: object) -> int | None:
    if value is None or isinstance(value, bytes):
        return None if value is None else len(value)
    return len(str(value).encode("utf-8", "surrogatepass"))


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads; raises `StorageError`, and `BusyError` for a locked file.

    `mode=ro` sees what is still in the write-ahead log and leaves the log alone. It needs a file
    beside the database, which a folder that may not be written does not let it make: without a log
    the file by itself is whole, and `immutable` reads that.
    """
    how = "mode=ro"
    log = Path(f"{path}-wal")
    if not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size):
        how = "mode=ro&immutable=1"
    try:
        uri = f"{path.absolute().as_uri()}?{how}"
        with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as db:
            add_newer_functions(db)
            yield db
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise BusyError(f"{path} is locked by another process.") from error
        raise StorageError(f"Cannot read {path}: {error}") from error
    except sqlite3.Error as error:
        raise StorageError(f"Cannot read {path}: {error}") from error


def rows(path: Path, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
    with reading(path) as db:
        return db.execute(statement, parameters).fetchall()


def named_rows(path: Path, statement: str) -> list[dict[str, Any]]:
    """Rows with the names of their columns."""
    with reading(path) as db:
        return dicts(db.execute(statement))


def dicts(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    """Rows by the names of their columns."""
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def is_sqlite(path: Path) -> bool:
    """Whether a file is a database at all."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def columns(path: Path) -> set[tuple[str, str]]:
    """Every table with each of its columns. A file that is just being made has none."""
    return set(rows(path, _COLUMNS))
