"""A new store from what can be read of a damaged one, and the two change places.

While the new file is made, nobody else may have the old one open: for the last program that uses
it, SQLite folds the log into the file, and then locks the others out. So at each moment a file that
is whole, with no log beside it that belongs to the other, has the name. A program that waited for
the lock meanwhile finds that its file was moved, and SQLite lets it write no more.
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
from holdfast.model.repair import Loss, Repair
from holdfast.ports import Progress
from holdfast.stores.files import PRIVATE_FILE, open_dir, sync_dir
from holdfast.stores.liveness import open_elsewhere
from holdfast.stores.sqlite import first_page, schema, totals
from holdfast.stores.sqlite.checkup import index_in_step, page_problems
from holdfast.stores.sqlite.rescue import Rescue
from holdfast.stores.sqlite.schema import beside, error_code, prepared

_WAIT = 5.0
_PAUSE = 0.05
_LOGS = ("-wal", "-journal")


def rebuild(path: Path, work: Path, backup: Path, progress: Progress) -> Repair:
    """Put a new store in the place of the old one, which stays as `backup`."""
    steps = []
    mended = not first_page.opens(path)
    if mended:
        _put_first_page(path, work, backup)
        steps.append("put back the first page, which was lost")
    with _alone(path) as old:
        losses, ledger_filled = _build(old, work, progress)
        _check_whole(work)
        if not mended:
            os.link(path, backup)
        # The old file has its second name by now: whichever has the first is a whole store.
        work.rename(path)
        sync_dir(path.parent)
    steps += ["saved every readable row into a new store", "rebuilt the search index"]
    if ledger_filled:
        steps.append(
            "counted what is missing in the totals of usage from the sessions that are left"
        )
    return Repair(backup=str(backup), steps=tuple(steps), losses=tuple(losses))


def rebuild_index(db: sqlite3.Connection, progress: Progress) -> None:
    """Index all messages anew. Inside a write transaction."""
    progress.step("rebuilding the search index", 0, None)
    db.execute(
        """
        INSERT OR REPLACE INTO facts (name, value)
        SELECT 'indexed_to', coalesce(max(number), 0) FROM messages
        """
    )
    db.execute("INSERT INTO message_index (message_index) VALUES ('rebuild')")


def _put_first_page(path: Path, work: Path, backup: Path) -> None:
    """Replace a store that SQLite cannot open by a copy that it can, its log folded in."""
    with open_dir(path.parent) as folder:
        in_use = open_elsewhere(path.name, folder)
    if in_use:
        raise _in_use(path, in_use)
    for side in ("", *_LOGS):
        if beside(path, side).exists():
            shutil.copyfile(beside(path, side), create(beside(work, side)))
    first_page.mend(work)
    with contextlib.closing(first_page.tolerant(work)) as db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
    sync(work)
    for side in ("", *_LOGS):
        if beside(path, side).exists():
            os.link(beside(path, side), beside(backup, side))
    # What the old log says is in the new file already; read with it, it would say the same again.
    work.rename(path)
    sync_dir(path.parent)
    for side in (*_LOGS, "-shm"):
        beside(path, side).unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[sqlite3.Connection]:
    """The store with its log folded in, locked against everybody else."""
    with contextlib.closing(first_page.tolerant(path)) as db:
        deadline = time.monotonic() + _WAIT
        while not _locked(db):
            if time.monotonic() >= deadline:
                raise _in_use(path, "open in another process")
            time.sleep(_PAUSE)
        yield db


def _locked(db: sqlite3.Connection) -> bool:
    """Whether nobody else has the store open now, nor can until this transaction ends."""
    try:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        db.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return False
        raise
    if db.execute("PRAGMA journal_mode").fetchone() == ("delete",):
        return True
    db.execute("ROLLBACK")  # somebody came between the two statements
    return False


def _in_use(path: Path, evidence: str) -> BusyError:
    return BusyError(
        f"{path} is damaged, and {evidence}; it was left alone.",
        hint="Close every program that uses this store, then try again.",
    )


def _build(old: sqlite3.Connection, work: Path, progress: Progress) -> tuple[Sequence[Loss], bool]:
    """What was lost, and whether the ledger had to be filled from what was not."""
    create(work)
    with contextlib.closing(prepared(sqlite3.connect(work, isolation_level=None))) as new:
        schema.migrate(new)
        # Nobody sees the file before it is whole: what a kill leaves of it is thrown away.
        new.execute("PRAGMA journal_mode = OFF").fetchall()
        new.execute("PRAGMA synchronous = OFF")
        rescue = Rescue(old, new, progress)
        losses = rescue.run()
        if not new.execute("SELECT 1 FROM sessions LIMIT 1").fetchone():
            raise DamageError(
                "Not a single session can be read; the store was left as it is.",
                hint="Restore the home from a backup, or move the file away to begin a new one.",
            )
        new.execute("BEGIN")
        totals.tally(new, lambda done: progress.step("counting messages", done, None))
        totals.correct(new)
        rebuild_index(new, progress)
        new.execute("COMMIT")
        # What building the index left free; as a script, because else Python frees one page only.
        new.executescript("PRAGMA incremental_vacuum")
        new.execute("PRAGMA journal_mode = WAL").fetchall()
    sync(work)
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
            f"The new store {work} is not what was written to it; the old one was left alone.",
            hint="Check the disk and the memory of this machine.",
        )


def create(path: Path) -> Path:
    """Make a private file; one that is there is an error."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
    return path


def sync(path: Path) -> None:
    """No connection to the file may be open: closing the descriptor would drop its locks."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
