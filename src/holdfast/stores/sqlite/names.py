"""The names in a session store, read without touching it, for shell completion.

An ordinary connection may migrate the store, create files next to it, or wait. This one does none
of that. Where it would have to, it returns nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

_PATIENCE = 0.2


def session_names(path: Path, prefix: str, limit: int) -> Sequence[tuple[str, str, float]]:
    """Ids with this prefix, the newest first, each with its title and start time."""
    found = _asked(
        path,
        "SELECT id, coalesce(title, ''), started_at FROM sessions WHERE substr(id, 1, ?) = ?"
        " ORDER BY started_at DESC, rowid DESC LIMIT ?",
        (len(prefix), prefix, limit),
    )
    return [(str(name), str(title), float(began)) for name, title, began in found]


def source_names(path: Path) -> Sequence[str]:
    found = _asked(path, "SELECT DISTINCT source FROM sessions ORDER BY source", ())
    return [str(source) for (source,) in found]


def _asked(path: Path, statement: str, given: tuple[object, ...]) -> Sequence[Sequence[Any]]:
    options = _how(path)
    if options is None:
        return ()
    try:
        with closing(
            sqlite3.connect(
                f"file:{quote(str(path.absolute()))}?{options}", uri=True, timeout=_PATIENCE
            )
        ) as db:
            return db.execute(statement, given).fetchall()
    except (sqlite3.Error, UnicodeError):
        return ()


def _how(path: Path) -> str | None:
    """The URI options for the store; None if it must not be opened. A store that no process has
    open has no write-ahead log and is read as a plain file. With a log, the shared-memory file is
    needed, which must not be created here."""
    if not path.is_file():
        return None
    if not path.with_name(f"{path.name}-wal").exists():
        return "mode=ro&immutable=1"
    return "mode=ro" if path.with_name(f"{path.name}-shm").exists() else None
