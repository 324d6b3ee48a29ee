"""Freeing the space of Hermes's database, and rebuilding its search tables in large removals.

Hermes keeps the text of every message three times: in its row and in two search tables. Triggers
take a removed message out of these word by word, which is most of the cost of a removal. If more
goes than stays, it is faster to rebuild the search tables with what stays, in one transaction, and
to remove the rest afterwards: the triggers find nothing to take out. Messages that such a run does
not remove after all are indexed again at its end, or by the next run.

The file shrinks only with a VACUUM, because Hermes does not turn on `auto_vacuum`. A VACUUM keeps
every writer waiting. So it runs only if it takes a moment, or if nobody else has the database open.
Otherwise Hermes reuses the free pages.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Collection
from pathlib import Path

from holdfast.errors import BusyError, StorageError, in_voice
from holdfast.homes.hermes.state_db.database import HermesDatabase, others_have_open
from holdfast.homes.hermes.state_db.search_beside import STAYING, IndexBeside, clear
from holdfast.homes.hermes.state_db.search_fill import fill, indexing_many, kept_up_to_date
from holdfast.stores.files import make_private_dir, replace, storage_errors
from holdfast.stores.sqlite.database import pragma
from holdfast.stores.sqlite.survey import used_bytes

#: The search tables are rebuilt if more than this share of the messages goes and the rest is few
#: enough to be indexed in less than a second; if nobody waits, in a few seconds.
_MOST_GOES = 1 / 2
_FEW_STAY = 2_000
_FEW_STAY_ALONE = 20_000
#: Messages that leave at once if nobody waits: in two seconds.
_MOST_AT_ONCE = 150_000
#: Messages that are indexed again in one transaction.
_AT_ONCE = 200
#: A VACUUM of so many pages takes less than a second.
_FEW_PAGES = 10_000
#: A smaller share of free pages is not worth a VACUUM of a large file.
_LEAST_SHARE = 0.1
#: Where what stays is written to the log, to the file, and beside it: as often as this.
_ROOM = 3
_MARKER = "search-renewal.json"


class SearchRenewal:
    """Rebuilds the search tables. A marker file says so after a kill."""

    def __init__(self, database: HermesDatabase, state: Path) -> None:
        self._database = database
        self._marker = state / _MARKER
        self._beside: IndexBeside | None = None
        self._leaving = 0

    def is_worth_it(self, going: Collection[str]) -> bool:
        """Whether few messages stay when these sessions go."""
        if not self._database.schema.search_tables:
            return False
        with self._database.read() as db:
            [messages] = db.execute("SELECT count(*) FROM messages").fetchone()
            [leaving] = db.execute(
                "SELECT count(*) FROM messages "
                "WHERE session_id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(going)),),
            ).fetchone()
            needed = used_bytes(db) * (messages - leaving) / max(1, messages)
        if shutil.disk_usage(self._database.path.parent).free < _ROOM * needed:
            return False
        self._leaving = leaving
        few = _FEW_STAY if others_have_open(self._database.path) else _FEW_STAY_ALONE
        return bool(leaving > messages * _MOST_GOES and messages - leaving <= few)

    def begin(self, going: Collection[str]) -> bool:
        """Index what stays beside the database, while sessions that were found worth it are copied.
        Returns whether all of them may then leave in one transaction: nobody else has the database
        open, and it is no longer than one that indexes what stays."""
        if self._leaving > _MOST_AT_ONCE or others_have_open(self._database.path):
            return False
        with self._database.read() as db:
            self._beside = IndexBeside(
                db, self._database.schema, self._marker.parent, self._database.path, going
            )
        return True

    def wait(self) -> None:
        """Until what stays is indexed. Before the transaction: nobody waits for it there."""
        if self._beside is not None:
            self._beside.wait()

    def renew(self, db: sqlite3.Connection, going: Collection[str]) -> None:
        """Rebuild the search tables with everything that stays, in the caller's transaction.
        Readers see the old tables until it commits. The connection must not use them any more, not
        even in this transaction: what was indexed beside the database may have been moved in."""
        with storage_errors(f"write {self._marker}"):
            make_private_dir(self._marker.parent)
            replace(self._marker, b"{}")  # before the tables, so that a kill is noticed
        beside = self._beside
        if beside is not None:  # nobody else is there: the VACUUM that follows writes all of it
            db.execute("PRAGMA wal_autocheckpoint = 0")
        is_exact = beside is not None and beside.is_exact(db)
        lacking = []
        ready = {table.name: table for table in kept_up_to_date(db, self._database.schema)}
        for name in self._database.schema.search_tables:
            [sql] = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
            db.execute(f"DROP TABLE {name}")
            db.execute(sql)
            table = ready.get(name) if is_exact else None
            if beside is None or table is None or not beside.moved_in(db, table):
                lacking.append(name)
        with indexing_many(db, lacking):
            for name in lacking:
                fill(db, name, STAYING, (json.dumps(list(going)),))

    def finish(self) -> None:
        """Put the messages that stayed after all back into the search tables."""
        self.close()
        if self._marker.exists():
            self.complete()
            self._marker.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove what was indexed beside the database, also by a run that was killed."""
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.wait()
        clear(self._marker.parent)

    def complete(self) -> None:
        """Put every message that a search table lacks into it."""
        while self._index_some():
            pass

    def _index_some(self) -> bool:
        with self._database.write() as db:
            # One statement for each table: for each statement FTS5 writes out what it has gathered.
            indexed = [
                fill(
                    db,
                    table,
                    f"NOT EXISTS (SELECT 1 FROM {table}_docsize d WHERE d.id = m.id)",  # noqa: S608 - known name
                    (_AT_ONCE,),
                    "LIMIT ?",
                )
                for table in self._database.schema.search_tables
            ]
        return _AT_ONCE in indexed


def is_search_due(state: Path) -> bool:
    """Whether a run may have left messages out of the search tables."""
    return (state / _MARKER).exists()


def give_back(database: HermesDatabase) -> None:
    """Shrink the file to what it holds. Raises `BusyError` if Hermes would have to wait."""
    wanted = ("page_count", "freelist_count", "page_size", "auto_vacuum")
    with database.read() as db:
        pages, free, size, gives_back_itself = (pragma(db, name) for name in wanted)
    used = pages - free
    if gives_back_itself:
        database.script("PRAGMA incremental_vacuum")
    elif free and (used <= _FEW_PAGES or _is_free(database, pages, free)):
        _check_room(database, used * size)
        database.vacuum()
    database.truncate_log()


def _is_free(database: HermesDatabase, pages: int, free: int) -> bool:
    if free < pages * _LEAST_SHARE:
        return False  # Hermes reuses them
    if others_have_open(database.path):
        raise BusyError(
            in_voice(
                "Hermes has its database open, and a VACUUM would keep it waiting. Hermes uses "
                "free pages again; to give them back, run `holdfast maintain --force` while it "
                "does not run."
            )
        )
    return True


def _check_room(database: HermesDatabase, needed: int) -> None:
    """VACUUM writes a copy of what is left, and writes that copy into the log."""
    if shutil.disk_usage(database.path.parent).free < _ROOM * needed:
        raise StorageError(
            f"There is no room for a VACUUM of {database.path}; its free pages are used again.",
            hint="Free some space, then run `holdfast maintain --force`.",
        )
