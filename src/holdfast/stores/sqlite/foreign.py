"""Reads another program's SQLite file. Nothing is written, checkpointed or left behind."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from holdfast.errors import BusyError, FullDiskError, StorageError
from holdfast.stores.files import DISK_FULL, SQLITE_MAGIC, check_database, is_disk_full, open_file

#: How long a reader waits for a writer that has locked the file.
_PATIENCE = 1.0
#: For this long, no reader waits again for a file that stayed locked: one look at a home reads its
#: database several times, and each read would wait as long.
_KNOWN = 15.0
#: Files that stayed locked, with the monotonic time.
_locked: dict[str, float] = {}
#: SQLite's codes for a file that it could not create.
_NO_FILES = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL)
_COLUMNS = """
SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
WHERE t.type = 'table'
"""


def add_newer_functions(db: sqlite3.Connection) -> None:
    """Add functions that agents' tables call, but that this SQLite may be too old to have."""
    if sqlite3.sqlite_version_info < (3, 43):
        db.create_function("octet_length", 1, _octet_length, deterministic=True)


def _octet_length(value: object) -> int | None:
    if value is None or isinstance(value, bytes):
        return None if value is None else len(value)
    return len(str(value).encode("utf-8", "surrogatepass"))


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection; raises `StorageError`, and `BusyError` for a locked file."""
    check_database(path)
    try:
        uri = f"{path.absolute().as_uri()}?{reading_mode(path)}"
        with closing(sqlite3.connect(uri, uri=True, timeout=patience(path))) as db:
            db.execute("PRAGMA query_only = ON")
            add_newer_functions(db)
            yield db
        _locked.pop(str(path), None)
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            stayed_locked(path)
            raise BusyError(f"{path} is locked by another process.") from error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _NO_FILES and is_disk_full(path):
            # To read a log, SQLite creates a file next to it. Failing to do so is no sign of
            # damage.
            message = f"The disk is full, so {path} cannot be read."
            raise FullDiskError(message, hint=DISK_FULL) from error
        raise StorageError(f"Cannot read {path}: {error}") from error
    except sqlite3.Error as error:
        raise StorageError(f"Cannot read {path}: {error}") from error


def reading_mode(path: Path) -> str:
    """The URI options for opening a database so that a reader leaves nothing behind.

    `mode=ro` sees what is still in the write-ahead log and leaves the log alone. If there is no
    log, it would create one, and a file next to it, and could not remove them. A connection that
    may write can: when it is the last to close, SQLite removes both, under all its locks. There is
    nothing in such a log to be checkpointed. The header, which says whether there can be a log, is
    not read: closing a second descriptor would drop the locks of this very process.

    Both modes need to create files. That fails in a folder that may not be written, and on a full
    disk: without a log the file is complete by itself, and `immutable` reads that.
    """
    log = Path(f"{path}-wal")
    has_log = log.exists()
    if not os.access(path.parent, os.W_OK):
        return "mode=ro" if has_log and log.stat().st_size else "mode=ro&immutable=1"
    # A journal was left by a killed writer: only its agent may roll it back.
    if has_log or os.path.exists(f"{path}-journal"):  # noqa: PTH110 - text all the way
        return "mode=ro"
    return "mode=ro&immutable=1" if is_disk_full(path) else "mode=rw"


def patience(path: Path) -> float:
    """How long to wait for a file that another process has locked."""
    since = _locked.get(str(path))
    return _PATIENCE if since is None or time.monotonic() - since > _KNOWN else 0.0


def stayed_locked(path: Path) -> None:
    """Record that a file stayed locked."""
    _locked[str(path)] = time.monotonic()


def rows(path: Path, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
    with reading(path) as db:
        return db.execute(statement, parameters).fetchall()


def named_rows(path: Path, statement: str) -> list[dict[str, Any]]:
    """Rows as dictionaries by column name."""
    with reading(path) as db:
        return dicts(db.execute(statement))


def dicts(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    """Rows as dictionaries by column name."""
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def is_sqlite(path: Path) -> bool:
    """True if a file is a SQLite database."""
    with open_file(path) as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def columns(path: Path) -> set[tuple[str, str]]:
    """Every table with each of its columns. A file that is just being created has none."""
    return set(rows(path, _COLUMNS))
