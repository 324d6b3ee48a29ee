"""Mending a session store, after a backup: in place while its pages are sound, else anew.

    sessions.db.repair-<stamp>   a file in the making; left by a kill, removed by the next repair
    sessions.db.backup-<stamp>   the store as it was

In place, everything is one transaction; the backup is made inside it.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from holdfast.errors import DamageError, StorageError
from holdfast.model.repair import Loss, Repair
from holdfast.model.units import format_bytes, format_count
from holdfast.ports import Progress
from holdfast.stores.files import storage_errors, sync_dir
from holdfast.stores.sqlite import totals
from holdfast.stores.sqlite.checkup import index_in_step, missing_parts, page_problems
from holdfast.stores.sqlite.database import Database, sqlite_errors
from holdfast.stores.sqlite.rebuild import create, rebuild, rebuild_index, sync
from holdfast.stores.sqlite.rescue import drop_dangling
from holdfast.stores.sqlite.salvage import joined
from holdfast.stores.sqlite.schema import beside, open_to_look, schema_version, tells_nothing

#: Beside the bytes of the store itself: what a small one needs at least.
_HEADROOM = 4 * 1024 * 1024


def repair(path: Path, *, stamp: str, progress: Progress) -> Repair:
    """Mend the store at `path`; the caller has the home's lock. What raises changed nothing."""
    with storage_errors(f"repair {path}"), sqlite_errors(path):
        _clear(path)
        _check_room(path)
        work = beside(path, f".repair-{stamp}")
        backup = _free(beside(path, f".backup-{stamp}"))
        try:
            if _sound(path):
                with contextlib.suppress(DamageError):
                    return _in_place(path, work, backup, progress)
            return rebuild(path, work, backup, progress)
        finally:
            _clear(path)


def fold_log(path: Path) -> Repair:
    """Take what the write-ahead log holds into the store, so that the log can be short again."""
    with contextlib.closing(Database(path, create=False)) as database:
        if _fold(database):
            return Repair(steps=("folded the write-ahead log into the store",))
    return Repair(steps=("left the write-ahead log: another program is reading the store",))


def _sound(path: Path) -> bool:
    """Whether the pages can be written to; raises for a store that is not ours, or newer."""
    try:
        with contextlib.closing(open_to_look(path, unchanging=False)) as db:
            version = schema_version(db, path)
            return not missing_parts(db, version) and not page_problems(db)
    except sqlite3.DatabaseError as error:
        if tells_nothing(error):
            raise
        return False


def _in_place(path: Path, work: Path, backup: Path, progress: Progress) -> Repair:
    with contextlib.closing(Database(path, create=False)) as database:
        try:
            with database.write() as db:
                # With the lock: the backup is the very state that is changed below.
                _back_up(path, work, backup, progress)
                steps, losses = _mend(db, progress)
        except BaseException as error:
            backup.unlink(missing_ok=True)
            if isinstance(error, sqlite3.Error):  # a part of the index is gone, for example
                raise DamageError(f"{path} cannot be mended in place: {error}") from error
            raise
        _fold(database)
    return Repair(backup=str(backup), steps=tuple(steps), losses=tuple(losses))


def _fold(database: Database) -> bool:
    try:
        result = database.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:
        return False
    return bool(result[0] == 0)


def _back_up(path: Path, work: Path, backup: Path, progress: Progress) -> None:
    progress.step("making a backup", 0, None)
    create(work)
    with (
        contextlib.closing(open_to_look(path, unchanging=False)) as source,
        contextlib.closing(sqlite3.connect(work, isolation_level=None)) as target,
    ):
        source.backup(target)
    sync(work)
    work.rename(backup)
    sync_dir(path.parent)


def _mend(db: sqlite3.Connection, progress: Progress) -> tuple[list[str], list[Loss]]:
    steps, losses = [], []
    dangling = drop_dangling(db)
    if dangling:
        steps.append(f"took out {format_count(dangling, 'reference')} to sessions that are gone")
    totals.tally(db, lambda done: progress.step("reading every message", done, None))
    bad = db.execute("SELECT number FROM temp.unreadable ORDER BY number").fetchall()
    if bad:
        db.execute("DELETE FROM messages WHERE number IN (SELECT number FROM temp.unreadable)")
        steps.append(f"took out {format_count(len(bad), 'message')} that cannot be read back")
        ranges = joined((number, number) for (number,) in bad)
        losses.append(Loss(what="message", count=len(bad), ranges=ranges))
    wrong = totals.correct(db)
    if wrong:
        steps.append(f"recounted the totals of {format_count(wrong, 'session')}")
    rebuild_index(db, progress)
    steps.append("rebuilt the search index")
    if db.execute("PRAGMA foreign_key_check").fetchone() or not index_in_step(db):
        raise DamageError("The store is not whole after a repair in place.")
    return steps, losses


def _check_room(path: Path) -> None:
    size = sum(
        beside(path, side).stat().st_size for side in ("", "-wal") if beside(path, side).exists()
    )
    needed = size + size // 4 + _HEADROOM
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise StorageError(
            f"A repair of {path} needs about {format_bytes(needed)} beside it, and "
            f"{format_bytes(free)} are free; nothing was changed.",
            hint="Free some space on this file system and try again.",
        )


def _free(wanted: Path) -> Path:
    number, path = 1, wanted
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path


def _clear(path: Path) -> None:
    """Remove what an earlier repair, or this one, left in the making."""
    for left in path.parent.glob(f"{path.name}.repair-*"):
        left.unlink(missing_ok=True)
