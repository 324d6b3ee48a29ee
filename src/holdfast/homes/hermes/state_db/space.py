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
from holdfast.homes.hermes.state_db.search_fill import fill, indexing_many
from holdfast.stores.files import make_private_dir, replace, storage_errors
from holdfast.stores.sqlite.database import pragma
from holdfast.stores.sqlite.survey import used_bytes

#: The search tables are rebuilt if more than this share of the messages goes and the rest is few
#: enough to be indexed in less than a second; if nobody waits, in a few seconds.
_MOST_GOES = 1 / 2
_FEW_STAY = 2_000
_FEW_STAY_ALONE = 20_000
#: Messages that are indexed again in one transaction.
_AT_ONCE = 200
#: A VACUUM of so many pages takes less than a second.
_FEW_PAGES = 10_000
#: A smaller share of free pages is not worth a VACUUM of a large file.
_LEAST_SHARE = 0.1
_ROOM = 2
_MARKER = "search-renewal.json"


class SearchRenewal:
    """Rebuilds the search tables. A marker file says so after a kill."""

    def __init__(self, database: HermesDatabase, state: Path) -> None:
        self._database = database
        self._marker = state / _MARKER

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
            return False  # what stays is written to the log and to the file
        few = _FEW_STAY if others_have_open(self._database.path) else _FEW_STAY_ALONE
        return bool(leaving > messages * _MOST_GOES and messages - leaving <= few)

    def renew(self, db: sqlite3.Connection, going: Collection[str]) -> None:
        """Rebuild the search tables with everything that stays, in the caller's transaction.
        Readers see the old tables until it commits."""
        with storage_errors(f"write {self._marker}"):
            make_private_dir(self._marker.parent)
            replace(self._marker, b"{}")  # before the tables, so that a kill is noticed
        for table in self._database.schema.search_tables:
            [sql] = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
            db.execute(f"DROP TABLE {table}")
            db.execute(sql)
        staying = "m.session_id NOT IN (SELECT value FROM json_each(?))"
        with indexing_many(db, self._database.schema):
            for table in self._database.schema.search_tables:
                fill(db, table, staying, (json.dumps(list(going)),))

    def finish(self) -> None:
        """Put the messages that stayed after all back into the search tables."""
        if self._marker.exists():
            self.complete()
            self._marker.unlink(missing_ok=True)

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
