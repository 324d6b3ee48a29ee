"""Freeing space for the file system, in steps so short that writers hardly notice.

What was deleted leaves free pages; what left the search index leaves its words there until the
parts of the index are merged; and all of it passes through the write-ahead log. A full VACUUM
would do the first in one long step, with room for a second copy of everything; it is taken only
where little is left to copy.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.errors import BusyError, StorageError
from holdfast.stores.files import allocated_bytes
from holdfast.stores.sqlite import search_index
from holdfast.stores.sqlite.database import Database, pragma
from holdfast.stores.sqlite.schema import beside
from holdfast.stores.sqlite.survey import OWED, message_count, used_bytes

#: Pages that are given back in one step: a few milliseconds.
_PAGES = 150
#: How long the log is when whoever commits writes it into the file, which is what SQLite has set.
#: And after how many steps it is done here, before it is that long.
_LOG_PAGES = 1_000
_STEPS = 5
#: Pages of the index that are merged in one step. Each holds hundreds of words, so it takes longer.
_MERGED_PAGES = 100
#: The index is merged when at least this share of the messages has left it.
_GARBAGE_SHARE = 0.05
#: In a store with no more bytes than these, also when any message left it for good: that takes at
#: most 3.5 seconds of processor time, in steps of 10 ms.
_SOON_MERGED = 512 * 1024 * 1024
#: Long enough for a waiting process to notice: the lock itself is not fair.
_PAUSE = 0.003
#: Rewriting so few pages takes less time than a step of giving back.
_FEW_PAGES = 2_000
#: A log that grows as it likes takes some megabytes; others want to write too.
_LITTLE_ROOM = 64 * 1024 * 1024
#: A merge that changed fewer rows had nothing left to do.
_MERGED = 2
#: How many parts of one size FTS5 merges by default.
_PARTS = 4
#: Removals of which each leaves a part of the index, before these are merged: FTS5 insists on it at
#: sixteen. Until then it would be for nothing if all parts are merged in the end.
UNMERGED = 10
#: Pages that are merged in one transaction between two removals: two milliseconds. And for how much
#: text that left the index a page is merged.
_PAGES_BETWEEN, _BYTES_OF_A_PAGE = 64, 1_000

Told = Callable[[], None]


def give_back(database: Database, tell: Told = lambda: None) -> None:
    """Shrink the file to its content. Safe to stop anywhere, and to repeat."""
    with database.read() as db:
        owed = db.execute("SELECT value FROM facts WHERE name = ?", (OWED,)).fetchone()
    # The old index goes first: the new one takes its pages, and a full disk has no others.
    with _in_steps(database):
        for steps in (_drop_old_index, _index, _merge, _vacuum):
            for _ in steps(database):
                tell()
                rest(database)
        if owed:
            # What another process removed since is still owed: it may be killed now.
            with contextlib.suppress(BusyError, StorageError), database.write() as db:
                db.execute("DELETE FROM facts WHERE name = ? AND value = ?", (OWED, *owed))
    database.truncate_log()


def owe(db: sqlite3.Connection) -> None:
    """Note that rows leave, in their transaction: free pages still hold what was in them, so a run
    that is killed before it gives these back leaves that to the next one."""
    db.execute(
        "INSERT INTO facts (name, value) VALUES (?, 1) "
        "ON CONFLICT (name) DO UPDATE SET value = value + 1",
        (OWED,),
    )


@contextlib.contextmanager
def _in_steps(database: Database) -> Iterator[None]:
    db = database.connection()
    checkpoint_later(db)
    try:
        yield
    finally:
        checkpoint_at_once(db)


def checkpoint_later(db: sqlite3.Connection) -> None:
    """After a commit SQLite does not write the log into the file, for which others would wait at
    the gate: `rest` does it."""
    db.execute("PRAGMA wal_autocheckpoint = 0")


def checkpoint_at_once(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")


def rest(database: Database, pause: float = _PAUSE) -> None:
    """Between two steps: let others who wait have a turn, and where there is little room on the
    disk, do not let the write-ahead log take it."""
    if database.is_awaited():
        time.sleep(pause)
    database.checkpoint(every=_STEPS)
    if shutil.disk_usage(database.path.parent).free < _LITTLE_ROOM:
        database.truncate_log()


def footprint(database: Database) -> int:
    """What the store takes on the disk, according to the file system."""
    return sum(_allocated(beside(database.path, suffix)) for suffix in ("", "-wal"))


def renew_index(database: Database) -> None:
    """Start the search index over: cheaper than removing most messages one by one.

    What it does not have yet is searched without it, and `give_back` brings it up to date.
    """
    for _ in _drop_old_index(database):  # a run that was killed may have left one
        rest(database)
    with database.write() as db:
        search_index.start_over(db)


def _index(database: Database) -> Iterator[None]:
    more = True
    while more:
        with database.write() as db:
            more = search_index.catch_up_some(db)
        yield


def _drop_old_index(database: Database) -> Iterator[None]:
    with database.read() as db:
        more = search_index.has_old(db)
    while more:
        with database.write() as db:
            more = search_index.drop_some_of_old(db)
        yield


def unmerged(db: sqlite3.Connection) -> contextlib.AbstractContextManager[None]:
    """FTS5 merges nothing of its own accord, which can take ten times as long as the removal of
    which it is a part: `merge_some` does it later. In the caller's transaction."""
    return search_index.set_to(db, "automerge", 0, usual=_PARTS)


def merge_some(database: Database, removed: int) -> None:
    """Merge about as much of the index as FTS5 would have for so many bytes of text that left it,
    in short transactions. Nobody waits for them to be on the disk: a merge changes no message. On
    a full disk, or behind a writer that takes long, it is left for later."""
    pages = removed // _BYTES_OF_A_PAGE
    more = True
    with contextlib.suppress(BusyError, StorageError), _in_steps(database):
        while more and pages >= 0:
            with database.write(flushed=False) as db:
                more = _merged(db, _PAGES_BETWEEN)
            pages -= _PAGES_BETWEEN
            rest(database)


def _merge(database: Database) -> Iterator[None]:
    """Merge all parts of the index, if there is enough to gain by it, otherwise those of which
    there are many. The words of a removed message are gone only when all parts are merged: until
    then one part has its words, and a newer one says that they do not count."""
    with database.read() as db:
        everything = search_index.garbage(db) > message_count(db) * _GARBAGE_SHARE or (
            search_index.has_left_for_good(db) and used_bytes(db) <= _SOON_MERGED
        )
    pages = -_MERGED_PAGES if everything else _MERGED_PAGES  # FTS5: begin with all, or go on
    more = True
    while more:
        with database.write() as db:
            more = _merged(db, pages)
            if everything and not more:
                search_index.forget_garbage(db)
        pages = _MERGED_PAGES
        yield


def _merged(db: sqlite3.Connection, pages: int) -> bool:
    """Merge so many pages of the index; whether there was anything to merge."""
    before = db.total_changes
    search_index.command(db, "merge", pages)
    return db.total_changes - before >= _MERGED


def _vacuum(database: Database) -> Iterator[None]:
    with database.read() as db:
        free = pragma(db, "freelist_count")
        used = pragma(db, "page_count") - free
    if free > used <= _FEW_PAGES:
        # Somebody reads, or there is no room for a copy: then step by step.
        with contextlib.suppress(BusyError, StorageError):
            database.vacuum()
            free = _free_pages(database)
            yield
    while free:
        database.script(f"PRAGMA incremental_vacuum({_PAGES})")
        before, free = free, _free_pages(database)
        if free >= before:
            return  # others are making free pages as fast
        yield


def _free_pages(database: Database) -> int:
    with database.read() as db:
        return pragma(db, "freelist_count")


def _allocated(path: Path) -> int:
    try:
        return allocated_bytes(path.stat())
    except FileNotFoundError:
        return 0
