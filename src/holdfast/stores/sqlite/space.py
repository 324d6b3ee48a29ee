"""Gives space back to the file system, in steps so short that writers hardly notice.

Deleted rows leave free pages. Words of deleted messages stay in the search index until parts of the
index are merged. All of it passes through the write-ahead log. A full VACUUM would free the pages
in one long step, with room for a second copy of everything; it is used only if little is left to
copy.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.errors import BusyError, StorageError
from holdfast.stores.disk import disk_room
from holdfast.stores.files import allocated_bytes
from holdfast.stores.sqlite import search_index
from holdfast.stores.sqlite.database import Database, pragma
from holdfast.stores.sqlite.schema import beside
from holdfast.stores.sqlite.survey import OWED, message_count, used_bytes

#: Pages given back in one step: a few milliseconds.
_PAGES = 150
#: The log's length, in pages, at which the next commit writes it into the file: SQLite's default.
#: And the number of steps after which it is done here, before the log is that long.
_LOG_PAGES = 1_000
_STEPS = 5
#: Pages of the index merged in one step. Each holds hundreds of words, so a step takes longer.
_MERGED_PAGES = 100
#: The index is merged if at least this share of the messages has left it.
_GARBAGE_SHARE = 0.05
#: A store of at most this many bytes is also merged if any message left it for good. That takes at
#: most 3.5 seconds of processor time, in steps of 10 ms.
_SOON_MERGED = 512 * 1024 * 1024
#: Long enough for a waiting process to get the lock, which is not fair.
_PAUSE = 0.003
#: Rewriting this few pages takes less time than a step of giving back.
_FEW_PAGES = 2_000
#: With less free space than this, the log is kept short: left alone it takes some megabytes, and
#: other programs need room too.
_LITTLE_ROOM = 64 * 1024 * 1024
#: A merge that changed fewer rows had nothing left to do.
_MERGED = 2
#: The number of parts of one size at which FTS5 merges by default.
_PARTS = 4
#: The parts of the index are merged after this many removals, each of which leaves one: at sixteen
#: FTS5 merges them itself. Merging earlier is wasted if all parts are merged in the end.
UNMERGED = 10
#: Pages merged in one transaction between two removals (two milliseconds), and bytes of removed
#: text for which one page is merged.
_PAGES_BETWEEN, _BYTES_OF_A_PAGE = 64, 1_000

Told = Callable[[], None]


def give_back(database: Database, tell: Told = lambda: None) -> None:
    """Shrink the file to its content. It can be stopped at any point, and repeated."""
    with database.read() as db:
        owed = db.execute("SELECT value FROM facts WHERE name = ?", (OWED,)).fetchone()
    # The old index goes first: the new one reuses its pages, and a full disk has no others.
    with _in_steps(database):
        for steps in (_drop_old_index, _index, _merge, _vacuum):
            for _ in steps(database):
                tell()
                rest(database)
        if owed:
            # Space of rows that another process removed since is still owed: it may be killed now.
            with contextlib.suppress(BusyError, StorageError), database.write() as db:
                db.execute("DELETE FROM facts WHERE name = ? AND value = ?", (OWED, *owed))
    database.truncate_log()


def owe(db: sqlite3.Connection) -> None:
    """Record, in the transaction that removes rows, that their space must be given back. Free pages
    still hold the old content, so if this run is killed, the next one has to finish."""
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
    """Do not checkpoint the log after a commit, while other writers wait at the gate: `rest` does
    it."""
    db.execute("PRAGMA wal_autocheckpoint = 0")


def checkpoint_at_once(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")


def rest(database: Database, pause: float = _PAUSE) -> None:
    """Call between two steps: gives waiting writers a turn, and keeps the write-ahead log short if
    there is little room on the disk."""
    if database.is_awaited():
        time.sleep(pause)
    database.checkpoint(every=_STEPS)
    room = disk_room(database.path.parent)
    if room is not None and room.free < _LITTLE_ROOM:
        database.truncate_log()


def footprint(database: Database) -> int:
    """The space that the store takes on the disk, according to the file system."""
    return sum(_allocated(beside(database.path, suffix)) for suffix in ("", "-wal"))


def renew_index(database: Database) -> None:
    """Start the search index over: cheaper than removing most messages one by one.

    Messages that it does not have yet are searched without it; `give_back` completes it.
    """
    for _ in _drop_old_index(database):  # a killed run may have left one
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
    """Turn off automatic merging, which can take ten times as long as the removal that triggers it:
    `merge_some` does it later. Call it inside a transaction."""
    return search_index.set_to(db, "automerge", 0, usual=_PARTS)


def merge_some(database: Database, removed: int) -> None:
    """Merge about as much of the index as FTS5 would have after the removal of that many bytes of
    text, in short transactions. They are not flushed: a merge changes no message. On a full disk,
    or behind a slow writer, the rest is left for later."""
    pages = removed // _BYTES_OF_A_PAGE
    more = True
    with contextlib.suppress(BusyError, StorageError), _in_steps(database):
        while more and pages >= 0:
            with database.write(flushed=False) as db:
                more = _merged(db, _PAGES_BETWEEN)
            pages -= _PAGES_BETWEEN
            rest(database)


def _merge(database: Database) -> Iterator[None]:
    """Merge all parts of the index if that frees enough, otherwise those of a size of which there
    are many. The words of a removed message are gone only when all parts are merged: until then one
    part has its words, and a newer one marks them as deleted."""
    with database.read() as db:
        everything = search_index.garbage(db) > message_count(db) * _GARBAGE_SHARE or (
            search_index.has_left_for_good(db) and used_bytes(db) <= _SOON_MERGED
        )
    pages = -_MERGED_PAGES if everything else _MERGED_PAGES  # negative: FTS5 starts with all parts
    more = True
    while more:
        with database.write() as db:
            more = _merged(db, pages)
            if everything and not more:
                search_index.forget_garbage(db)
        pages = _MERGED_PAGES
        yield


def _merged(db: sqlite3.Connection, pages: int) -> bool:
    """Merge up to this many pages of the index; return whether there was anything to merge."""
    before = db.total_changes
    search_index.command(db, "merge", pages)
    return db.total_changes - before >= _MERGED


def _vacuum(database: Database) -> Iterator[None]:
    with database.read() as db:
        free = pragma(db, "freelist_count")
        used = pragma(db, "page_count") - free
    if free > used <= _FEW_PAGES:
        # If there is a reader, or no room for a copy: step by step.
        with contextlib.suppress(BusyError, StorageError):
            database.vacuum()
            free = _free_pages(database)
            yield
    while free:
        database.script(f"PRAGMA incremental_vacuum({_PAGES})")
        before, free = free, _free_pages(database)
        if free >= before:
            return  # other processes free pages just as fast
        yield


def _free_pages(database: Database) -> int:
    with database.read() as db:
        return pragma(db, "freelist_count")


def _allocated(path: Path) -> int:
    try:
        return allocated_bytes(path.stat())
    except FileNotFoundError:
        return 0
