"""Freeing space for the file system, in steps so short that writers hardly notice.

What was deleted leaves free pages; what left the search index leaves its words there until the
parts of the index are merged; and all of it passes through the write-ahead log. A full VACUUM
would do the first in one long step, with room for a second copy of everything; it is taken only
where little is left to copy.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.errors import BusyError, StorageError
from holdfast.stores.files import allocated_bytes
from holdfast.stores.sqlite import search_index
from holdfast.stores.sqlite.database import Database, pragma
from holdfast.stores.sqlite.schema import beside
from holdfast.stores.sqlite.survey import message_count

#: Pages that are given back in one step: a few milliseconds.
_PAGES = 500
#: Pages of the index that are merged in one step. Each holds hundreds of words, so it takes longer.
_MERGED_PAGES = 100
#: The index is merged when at least this share of the messages has left it.
_GARBAGE_SHARE = 0.05
#: Long enough for a waiting process to notice: the lock itself is not fair.
_PAUSE = 0.003
#: Rewriting so few pages takes less time than a step of giving back.
_FEW_PAGES = 2_000
#: A log that grows as it likes takes some megabytes; others want to write too.
_LITTLE_ROOM = 64 * 1024 * 1024
#: A merge that changed fewer rows had nothing left to do.
_MERGED = 2

Told = Callable[[], None]


def give_back(database: Database, tell: Told = lambda: None) -> None:
    """Shrink the file to its content. Safe to stop anywhere, and to repeat."""
    # The old index goes first: the new one takes its pages, and a full disk has no others.
    for steps in (_drop_old_index, _index, _merge, _vacuum):
        for _ in steps(database):
            tell()
            rest(database)
    database.truncate_log()


def rest(database: Database, pause: float = _PAUSE) -> None:
    """Between two steps: let others who wait have a turn, and where there is little room on the
    disk, do not let the write-ahead log take it."""
    if database.is_awaited():
        time.sleep(pause)
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


def _merge(database: Database) -> Iterator[None]:
    """Merge the parts of the index, if there is enough to gain by it."""
    with database.read() as db:
        if search_index.garbage(db) <= message_count(db) * _GARBAGE_SHARE:
            return
    pages = -_MERGED_PAGES  # FTS5: begin to merge everything; after that, go on
    more = True
    while more:
        with database.write() as db:
            before = db.total_changes
            db.execute(
                "INSERT INTO message_index (message_index, rank) VALUES ('merge', ?)", (pages,)
            )
            more = db.total_changes - before >= _MERGED
            if not more:
                search_index.forget_garbage(db)
        pages = _MERGED_PAGES
        yield


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
