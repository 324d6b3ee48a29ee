"""The check-up of a session store: file, pages, references, messages, totals, index, log.

It only reads. It creates no file next to the store, and no writer has to wait for it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from holdfast.errors import BusyError, DamageError, FullDiskError, HoldfastError
from holdfast.model.checkup import Finding, Severity
from holdfast.model.item import SPACE
from holdfast.model.text import format_bytes, format_count
from holdfast.ports.runs import Progress
from holdfast.stores.sqlite import survey, totals
from holdfast.stores.sqlite.database import sqlite_errors
from holdfast.stores.sqlite.pages import may_hold_rows
from holdfast.stores.sqlite.schema import (
    NewerSchemaError,
    at_rest,
    beside,
    error_code,
    open_to_look,
    pattern,
    prepared,
    schema_version,
)
from holdfast.value import replace

STORE = "session store"
PAGES = "pages"
REFERENCES = "references"
MESSAGES = "messages"
TOTALS = "totals"
INDEX = "search index"
WAL = "write-ahead log"
#: The checks in this module. `repair` in this package can repair what they find.
CHECKS = (STORE, PAGES, REFERENCES, MESSAGES, TOTALS, INDEX, WAL)

_REPAIR = "`holdfast doctor --repair` repairs it, after a backup."
_HOPELESS = (
    "This is not a database, and nothing in it is readable. Restore the home from a backup, or "
    "move the file away to start a new store."
)
_LARGE_WAL = 64 * 1024 * 1024
_EMPTY = Finding(check=STORE, message="nothing was stored yet")
_FULL = "The disk is full, so the store could not be checked."
_NOT_CHECKED = (
    "it was not checked: its folder is read-only, and its write-ahead log holds changes that are "
    "not in the store yet"
)
_TICK = 1_000_000  # steps of SQLite's virtual machine: some hundredths of a second

_Look = Callable[[sqlite3.Connection, Path, Progress], Iterator[Finding]]


def check(path: Path, progress: Progress) -> Sequence[Finding]:
    """Run all checks; each yields at least one finding."""
    before = at_rest(path)
    found = tuple(_check(path, progress, unchanging=before is not None))
    if before is not None and at_rest(path) != before:
        # A process opened the store meanwhile: what was read without locks may be half a change.
        found = tuple(_check(path, progress, unchanging=False))
    first = found[0]
    if first.severity is Severity.DAMAGE and first.repairable and not may_hold_rows(path):
        return replace(first, advice=_HOPELESS, repairable=False), *found[1:]
    return found


def _check(path: Path, progress: Progress, *, unchanging: bool) -> Iterator[Finding]:
    if not path.exists():
        yield Finding(check=STORE, message="no store exists yet")
        return
    try:
        with sqlite_errors(path):
            opened = open_to_look(path, unchanging=unchanging)
    except HoldfastError as error:
        yield _damage(STORE, error.message, error.hint or "", repairable=False)
        return
    with contextlib.closing(opened) as db:
        for number, (name, look) in enumerate(_LOOKS.items()):
            _show(progress, name, number, db)
            found = _carefully(name, look, db, path, progress)
            yield from found
            stumbled = name in (STORE, PAGES) and found[0].severity is not Severity.OK
            if stumbled or found == (_EMPTY,):
                break  # the next checks would fail for the same reason, or have nothing to look at
    yield _log(path)


def _show(progress: Progress, name: str, number: int, db: sqlite3.Connection) -> None:
    def tick() -> int:
        progress.step(f"checking: {name}", number, len(_LOOKS))
        return 0

    tick()
    db.set_progress_handler(tick, _TICK)


def _carefully(
    name: str, look: _Look, db: sqlite3.Connection, path: Path, progress: Progress
) -> Sequence[Finding]:
    """Run one check in one snapshot of the store. An error that stops it becomes a finding too."""
    try:
        with sqlite_errors(path):
            db.execute("BEGIN")
            return tuple(look(db, path, progress))
    except (BusyError, FullDiskError, NewerSchemaError) as error:
        if isinstance(error, FullDiskError):  # its message is about a change
            error = FullDiskError(_FULL, hint="Free some space and check again.")
        return (_warning(name, error.message, error.hint or ""),)
    except DamageError as error:
        return (_damage(name, error.message),)
    except HoldfastError as error:
        if name == STORE and not os.access(path.parent, os.W_OK) and os.access(path, os.R_OK):
            return (_warning(name, _NOT_CHECKED, "Check a copy of the home in another folder."),)
        return (_damage(name, error.message, error.hint or "", repairable=False),)
    except sqlite3.Error as error:
        return (_damage(name, f"{path} cannot be read: {error}"),)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _store(db: sqlite3.Connection, path: Path, _: Progress) -> Iterator[Finding]:
    """Check that the store is ours, of a known version, and has all its parts."""
    version = schema_version(db, path)
    missing = missing_parts(db, version)
    if missing:
        yield _damage(STORE, f"parts of it are missing: {', '.join(missing)}")
        return
    size = format_bytes(path.stat().st_size)
    yield Finding(check=STORE, message=f"{size}, schema {version}") if version else _EMPTY


def missing_parts(db: sqlite3.Connection, version: int) -> list[str]:
    """Tables and indexes that a store of this version must have, but this one lacks."""
    with contextlib.closing(pattern(version)) as whole:
        wanted = _parts(whole)
    return sorted(wanted - _parts(db))


def _parts(db: sqlite3.Connection) -> set[str]:
    rows = db.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%'")
    return {f"{kind} {name}" for kind, name in rows}


def page_problems(db: sqlite3.Connection) -> list[str]:
    """Problems that SQLite finds in its pages. Later versions of SQLite also check the search
    index; `index_in_step` checks it better."""
    rows = db.execute("PRAGMA integrity_check(100)").fetchall()
    return [
        " ".join(problem.split())
        for (problem,) in rows
        if problem != "ok" and "FTS5 table" not in problem
    ]


def _pages(db: sqlite3.Connection, _path: Path, _: Progress) -> Iterator[Finding]:
    problems = page_problems(db)
    if not problems:
        yield Finding(check=PAGES)
        return
    count = format_count(len(problems), "problem")
    yield _damage(PAGES, f"the database is damaged in {count}, first: {problems[0]}")


def _references(db: sqlite3.Connection, _path: Path, _: Progress) -> Iterator[Finding]:
    broken = sum(1 for _ in db.execute("PRAGMA foreign_key_check"))
    if not broken:
        yield Finding(check=REFERENCES)
        return
    what = format_count(broken, "row belongs", "rows belong")
    yield _damage(REFERENCES, f"{what} to sessions that do not exist")


def _messages(db: sqlite3.Connection, _path: Path, progress: Progress) -> Iterator[Finding]:
    """Check messages and totals in one walk over all messages."""
    totals.tally(db, lambda done: progress.step("reading every message", done, None))
    bad, first = totals.unreadable(db)
    if bad:
        amount = format_count(bad, "message")
        yield _damage(
            MESSAGES,
            f"{amount} cannot be read back, first number {first}",
            "`holdfast doctor --repair` removes them and keeps them in its backup. If you have "
            "an older backup of the home, look for them there first.",
        )
    else:
        yield Finding(check=MESSAGES)
    wrong, first_id = totals.wrong(db)
    if wrong:
        amount = format_count(wrong, "session")
        yield _damage(TOTALS, f"the totals of {amount} do not match their messages: {first_id}")
    else:
        yield Finding(check=TOTALS)


def _index(db: sqlite3.Connection, _path: Path, _: Progress) -> Iterator[Finding]:
    """FTS5 compares index and messages in a statement that holds the write lock for a long time. So
    it is run on a copy, which SQLite keeps in an unnamed temporary file."""
    try:
        with contextlib.closing(prepared(sqlite3.connect("", isolation_level=None))) as copy:
            db.backup(copy)
            in_step = index_in_step(copy)
    except sqlite3.OperationalError as error:
        if error_code(error) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN):
            raise
        yield _warning(
            INDEX,
            "it could not be compared with the messages: no room for a copy in the temporary "
            "folder",
            "Set SQLITE_TMPDIR to a folder with room for a copy of the store.",
        )
        return
    if in_step:
        yield Finding(check=INDEX)
    else:
        yield _damage(INDEX, "it is out of step with the messages: a search may miss some")


def _space(db: sqlite3.Connection, _path: Path, _: Progress) -> Iterator[Finding]:
    if survey.owes(db):
        yield _warning(
            SPACE,
            "a run that removed sessions was stopped before it released their space, or is "
            "still running: their content may still be readable in the file",
            "`holdfast doctor --repair` releases it, and so do `holdfast trash empty` and the "
            "next prune.",
            repairable=True,
        )


def index_in_step(db: sqlite3.Connection) -> bool:
    """True if the search index matches every message."""
    [indexed_to] = db.execute("SELECT max(value) FROM facts WHERE name = 'indexed_to'").fetchone()
    if not isinstance(indexed_to, int):
        return False
    try:
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        code = error_code(error)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return False
        raise
    return True


def _log(path: Path) -> Finding:
    try:
        size = beside(path, "-wal").stat().st_size
    except FileNotFoundError:
        size = 0
    except OSError as error:
        return _warning(WAL, f"cannot be read: {error.strerror}")
    if size < _LARGE_WAL:
        return Finding(check=WAL)
    return _warning(
        WAL,
        f"it has grown to {format_bytes(size)}: a program may have been reading for a long time",
        f"Close other programs that use the store; then {_REPAIR}",
        repairable=True,
    )


def _damage(check: str, message: str, advice: str = _REPAIR, *, repairable: bool = True) -> Finding:
    found = _warning(check, message, advice, repairable=repairable)
    return replace(found, severity=Severity.DAMAGE)


def _warning(check: str, message: str, advice: str = "", *, repairable: bool = False) -> Finding:
    return Finding(
        check=check,
        severity=Severity.WARNING,
        message=message,
        advice=advice,
        repairable=repairable,
    )


_LOOKS: dict[str, _Look] = {
    STORE: _store,
    PAGES: _pages,
    REFERENCES: _references,
    MESSAGES: _messages,
    INDEX: _index,
    SPACE: _space,
}
