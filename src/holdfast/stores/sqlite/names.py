"""The names in a session store, read without touching it: for a shell that completes a word.

A usual connection may migrate the store, create files next to it, or wait. This one does none of
that. Where it would have to, it answers nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

_PATIENCE = 0.2


def session_names(path: Path, prefix: str, limit: int) -> Sequence[tuple[str, str]]:
    """Ids that begin so, the newest row first, each with its title."""
    return _asked(
        path,
        "SELECT id, coalesce(title, '') FROM sessions WHERE substr(id, 1, ?) = ?"
        " ORDER BY rowid DESC LIMIT ?",
        (len(prefix), prefix, limit),
    )


def source_names(path: Path) -> Sequence[str]:
    found = _asked(path, "SELECT DISTINCT source, '' FROM sessions ORDER BY source", ())
    return [source for source, _ in found]


def _asked(path: Path, statement: str, given: tuple[object, ...]) -> Sequence[tuple[str, str]]:
    options = _how(path)
    if options is None:
        return ()
    try:
        with closing(
            sqlite3.connect(
                f"file:{quote(str(path.absolute()))}?{options}", uri=True, timeout=_PATIENCE
            )
        ) as db:
            return [(str(one), str(two)) for one, two in db.execute(statement, given)]
    except (sqlite3.Error, UnicodeError):
        return ()


def _how(path: Path) -> str | None:
    """A store that nobody has open has no write-ahead log, and is read as the file that it is. One
    with a log needs the file through which processes share it, which must not be made here."""
    if not path.is_file():
        return None
    if not path.with_name(f"{path.name}-wal").exists():
        return "mode=ro&immutable=1"
    return "mode=ro" if path.with_name(f"{path.name}-shm").exists() else None
