"""The repair of a session store, after a backup: in place if its pages are sound, otherwise by
building a new store from what can be read of the old one.

    sessions.db.repair-<stamp>   a file being built; left by a kill, removed by the next repair
    sessions.db.backup-<stamp>   the store before the repair

In place, everything is one transaction; the backup is made inside it. While a new file is built, no
other process may have the old one open: when the last connection closes, SQLite folds the log into
the file and locks other processes out. So at each moment the name belongs to a complete file, and
no log next to it belongs to the other file. A program that waited for the lock meanwhile finds that
its file was moved, and SQLite does not let it write any more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.errors import BusyError, DamageError, StorageError
from holdfast.model.checkup import Loss, LostFrom, Repair
from holdfast.model.text import format_bytes, format_count
from holdfast.ports.runs import Progress
from holdfast.stores.files import PRIVATE_FILE, storage_errors, sync_dir
from holdfast.stores.open_files import open_elsewhere
from holdfast.stores.sqlite import pages, schema, search_index, totals
from holdfast.stores.sqlite.checkup import index_in_step, missing_parts, page_problems
from holdfast.stores.sqlite.database import Database, sqlite_errors
from holdfast.stores.sqlite.pages import Pages, joined
from holdfast.stores.sqlite.rescue import Rescue, drop_dangling
from holdfast.stores.sqlite.schema import (
    beside,
    error_code,
    open_to_look,
    prepared,
    schema_version,
    tells_nothing,
)

#: Free space needed on top of the store's size: the minimum for a small store.
_HEADROOM = 4 * 1024 * 1024
_WAIT = 5.0
_PAUSE = 0.05
_LOGS = ("-wal", "-journal")


def repair(path: Path, *, stamp: str, progress: Progress) -> Repair:
    """Repair the store at `path`. The caller has the home's lock. After an error, nothing has
    changed."""
    with storage_errors(f"repair {path}"), sqlite_errors(path):
        _clear(path)
        _check_room(path)
        work = beside(path, f".repair-{stamp}")
        backup = _free(beside(path, f".backup-{stamp}"))
        try:
            if _sound(path):
                with contextlib.suppress(DamageError):
                    return _in_place(path, work, backup, progress)
            return _rebuild(path, work, backup, progress)
        finally:
            _clear(path)


def fold_log(path: Path) -> Repair:
    """Checkpoint the write-ahead log into the store, so that the log can be truncated."""
    with contextlib.closing(Database(path, create=False)) as database:
        if _fold(database):
            return Repair(steps=("folded the write-ahead log into the store",))
    return Repair(steps=("left the write-ahead log: another program is reading the store",))


def _sound(path: Path) -> bool:
    """True if the pages can be written to; raises if the store is not ours, or from a newer
    version."""
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
                # Under the lock: the backup is exactly the state that is changed below.
                _back_up(path, work, backup, progress)
                steps, losses = _mend(db, progress)
        except BaseException as error:
            backup.unlink(missing_ok=True)
            if isinstance(error, sqlite3.Error):  # part of the index is gone, for example
                raise DamageError(f"{path} cannot be repaired in place: {error}") from error
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
    _create(work)
    with (
        contextlib.closing(open_to_look(path, unchanging=False)) as source,
        contextlib.closing(sqlite3.connect(work, isolation_level=None)) as target,
    ):
        source.backup(target)
    _sync(work)
    work.rename(backup)
    sync_dir(path.parent)


_UNREADABLE_OF = """
    SELECT s.id, count(*) AS lost FROM messages m JOIN sessions s ON s.number = m.session
    WHERE m.number IN (SELECT number FROM temp.unreadable)
    GROUP BY s.id ORDER BY lost DESC, s.id
"""


def _mend(db: sqlite3.Connection, progress: Progress) -> tuple[list[str], list[Loss]]:
    steps, losses = [], []
    dangling = drop_dangling(db)
    if dangling:
        steps.append(f"removed {format_count(dangling, 'reference')} to sessions that are gone")
    totals.tally(db, lambda done: progress.step("reading every message", done, None))
    bad = db.execute("SELECT number FROM temp.unreadable ORDER BY number").fetchall()
    if bad:
        lost = db.execute(_UNREADABLE_OF).fetchall()
        db.execute("DELETE FROM messages WHERE number IN (SELECT number FROM temp.unreadable)")
        steps.append(f"removed {format_count(len(bad), 'message')} that cannot be read back")
        ranges = joined((number, number) for (number,) in bad)
        sessions = tuple(LostFrom(session=each, count=count) for each, count in lost)
        losses.append(Loss(what="message", count=len(bad), ranges=ranges, sessions=sessions))
    wrong = totals.correct(db)
    if wrong:
        steps.append(f"recounted the totals of {format_count(wrong, 'session')}")
    _rebuild_index(db, progress)
    steps.append("rebuilt the search index")
    if db.execute("PRAGMA foreign_key_check").fetchone() or not index_in_step(db):
        raise DamageError("The store is still damaged after a repair in place.")
    return steps, losses


def _rebuild(path: Path, work: Path, backup: Path, progress: Progress) -> Repair:
    """Replace the old store with a new one. The old one stays as `backup`."""
    steps = []
    mended = not pages.opens(path)
    if mended:
        _put_first_page(path, work, backup)
        steps.append("put back the first page, which was lost")
    # The descriptor is opened first and closed last: closing it drops all locks on the file.
    with path.open("rb") as file, _alone(path) as old:
        [size] = old.execute("PRAGMA page_size").fetchone()
        found = Pages(file, size)
        # A header that was put back has an empty free list.
        free = None if mended else found.free()
        losses, ledger_filled = _build(old, found, free, work, progress)
        _check_whole(work)
        if not mended:
            os.link(path, backup)
        # The old file has its second name by now, so both names belong to complete stores.
        work.rename(path)
        sync_dir(path.parent)
    steps += ["saved every readable row into a new store", "rebuilt the search index"]
    if ledger_filled:
        steps.append("recounted missing usage totals from the sessions that are left")
    return Repair(backup=str(backup), steps=tuple(steps), losses=tuple(losses))


def _rebuild_index(db: sqlite3.Connection, progress: Progress) -> None:
    """Rebuild the index of all messages. Call it inside a write transaction."""
    progress.step("rebuilding the search index", 0, None)
    db.execute(
        """
        INSERT OR REPLACE INTO facts (name, value)
        SELECT 'indexed_to', coalesce(max(number), 0) FROM messages
        """
    )
    db.execute("INSERT INTO message_index (message_index) VALUES ('rebuild')")
    search_index.forget_garbage(db)  # and the word list: the index may have lacked some words


def _put_first_page(path: Path, work: Path, backup: Path) -> None:
    """Replace a store that SQLite cannot open with a copy that it can, with the log folded in."""
    in_use = open_elsewhere(path)
    if in_use:
        raise _in_use(path, in_use)
    for side in ("", *_LOGS):
        if beside(path, side).exists():
            shutil.copyfile(beside(path, side), _create(beside(work, side)))
    pages.put_first_page(work)
    with contextlib.closing(pages.tolerant(work)) as db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
    _sync(work)
    for side in ("", *_LOGS):
        if beside(path, side).exists():
            os.link(beside(path, side), beside(backup, side))
    # The new file already contains the changes in the old log, which would be applied once more.
    work.rename(path)
    sync_dir(path.parent)
    for side in (*_LOGS, "-shm"):
        beside(path, side).unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the store exclusively, with its log folded in."""
    with contextlib.closing(pages.tolerant(path)) as db:
        deadline = time.monotonic() + _WAIT
        while not _locked(db):
            if time.monotonic() >= deadline:
                raise _in_use(path, "open in another process")
            time.sleep(_PAUSE)
        yield db


def _locked(db: sqlite3.Connection) -> bool:
    """True if no other process has the store open, or can open it until this transaction ends."""
    try:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        db.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return False
        raise
    if db.execute("PRAGMA journal_mode").fetchone() == ("delete",):
        return True
    db.execute("ROLLBACK")  # another process came in between
    return False


def _in_use(path: Path, evidence: str) -> BusyError:
    return BusyError(
        f"{path} is damaged, and {evidence}; it was left alone.",
        hint="Close every program that uses this store, then try again.",
    )


def _build(
    old: sqlite3.Connection, found: Pages, free: set[int] | None, work: Path, progress: Progress
) -> tuple[Sequence[Loss], bool]:
    """Build the new store. Return what was lost, and whether the ledger was refilled from
    messages."""
    _create(work)
    with contextlib.closing(prepared(sqlite3.connect(work, isolation_level=None))) as new:
        schema.migrate(new)
        # The file is not visible before it is complete: what a kill leaves of it is thrown away.
        new.execute("PRAGMA journal_mode = OFF").fetchall()
        new.execute("PRAGMA synchronous = OFF")
        rescue = Rescue(old, new, found, free=free, progress=progress)
        losses = rescue.run()
        if not new.execute("SELECT 1 FROM sessions LIMIT 1").fetchone():
            raise DamageError(
                "Not a single session can be read; the store was left as it is.",
                hint="Restore the home from a backup, or move the file away to start a new one.",
            )
        new.execute("BEGIN")
        totals.tally(new, lambda done: progress.step("counting messages", done, None))
        totals.correct(new)
        _rebuild_index(new, progress)
        new.execute("COMMIT")
        # Free what building the index left; as a script, because `execute` frees only one page.
        new.executescript("PRAGMA incremental_vacuum")
        new.execute("PRAGMA journal_mode = WAL").fetchall()
    _sync(work)
    return losses, rescue.ledger_filled


def _check_whole(work: Path) -> None:
    with contextlib.closing(prepared(sqlite3.connect(work, isolation_level=None))) as new:
        whole = (
            not page_problems(new)
            and not new.execute("PRAGMA foreign_key_check").fetchone()
            and index_in_step(new)
        )
    if not whole:
        raise StorageError(
            f"The new store {work} differs from what was written; the old one was left alone.",
            hint="Check the disk and the memory of this machine.",
        )


def _create(path: Path) -> Path:
    """Create a private file; fail if the path exists."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
    return path


def _sync(path: Path) -> None:
    """Call it only when no connection has the file open: closing the descriptor would drop its
    locks."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _check_room(path: Path) -> None:
    size = sum(
        beside(path, side).stat().st_size for side in ("", "-wal") if beside(path, side).exists()
    )
    needed = size + size // 4 + _HEADROOM
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise StorageError(
            f"A repair of {path} needs about {format_bytes(needed)} next to it, and "
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
    """Remove unfinished files of an earlier repair, or of this one."""
    for left in path.parent.glob(f"{path.name}.repair-*"):
        left.unlink(missing_ok=True)
