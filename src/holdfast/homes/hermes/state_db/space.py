"""Giving the space of Hermes's database back, and its search tables where nearly all goes.

Hermes keeps the text of every message three times: in its row and in two search tables, whose
triggers take a message out of them word by word. That is most of what a removal costs. Where less
stays than goes, it is faster to make the search tables anew with what stays, in one transaction,
and to remove the rest then: of a row that is not in a search table the triggers have nothing to
take out. What such a run does not come to remove is searched again at its end, or by the next run.

The file itself shrinks only when it is written anew: Hermes does not turn on SQLite's own way to
give pages back. That keeps every writer waiting, so it is done where it takes a moment, or where
nobody else has the database open. Elsewhere the pages are free for Hermes to use again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Collection
from pathlib import Path

from holdfast.errors import BusyError, StorageError
from holdfast.homes.hermes.state_db.database import HermesDatabase, others_have_open
from holdfast.stores.files import make_private_dir, replace, storage_errors
from holdfast.stores.sqlite.database import pragma
from holdfast.stores.sqlite.survey import used_bytes

#: The search tables are made anew when more than this share of the messages goes, and what stays
#: is indexed again in less than a second; where nobody waits, in some seconds.
_MOST_GOES = 1 / 2
_FEW_STAY = 2_000
_FEW_STAY_ALONE = 20_000
#: So many messages are indexed again in one transaction.
_AT_ONCE = 200
#: Pages that are written anew in less than a second.
_FEW_PAGES = 10_000
#: Less is not worth it while others wait.
_LEAST_SHARE = 0.1
_ROOM = 2
_MARKER = "search-renewal.json"


class SearchRenewal:
    """Makes the search tables anew, and knows after a kill that it did."""

    def __init__(self, database: HermesDatabase, state: Path) -> None:
        self._database = database
        self._marker = state / _MARKER

    def is_worth_it(self, going: Collection[str]) -> bool:
        """Whether little stays of what is searched when these sessions go."""
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
            return False  # what stays is written into the log and into the file
        few = _FEW_STAY if others_have_open(self._database.path) else _FEW_STAY_ALONE
        return bool(leaving > messages * _MOST_GOES and messages - leaving <= few)

    def renew(self, db: sqlite3.Connection, going: Collection[str]) -> None:
        """Make the search tables anew, with all that stays, as a part of the caller's transaction.
        Readers see the old ones until that is done."""
        with storage_errors(f"write {self._marker}"):
            make_private_dir(self._marker.parent)
            replace(self._marker, b"{}")  # before the tables: a kill must not hide that it is due
        for table in self._database.schema.search_tables:
            [sql] = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
            db.execute(f"DROP TABLE {table}")
            db.execute(sql)
        # Hermes's own trigger puts a row that changes into its search tables.
        db.execute(
            """
            UPDATE messages SET role = role
            WHERE session_id NOT IN (SELECT value FROM json_each(?))
            """,
            (json.dumps(list(going)),),
        )

    def finish(self) -> None:
        """Bring what stayed after all back into the search tables."""
        if self._marker.exists():
            self.complete()
            self._marker.unlink(missing_ok=True)

    def complete(self) -> None:
        """Bring every message that is in none of the search tables into them."""
        while self._index_some():
            pass

    def _index_some(self) -> bool:
        missing = " OR ".join(
            f"NOT EXISTS (SELECT 1 FROM {table}_docsize d WHERE d.id = m.id)"  # noqa: S608 - known names
            for table in self._database.schema.search_tables
        )
        if not missing:
            return False
        with self._database.write() as db:
            rows = db.execute(
                f"SELECT m.id FROM messages m WHERE {missing} LIMIT ?",  # noqa: S608 - our own text
                (_AT_ONCE,),
            ).fetchall()
            db.executemany("UPDATE messages SET role = role WHERE id = ?", rows)
        return len(rows) == _AT_ONCE


def is_search_due(state: Path) -> bool:
    """Whether a run left something out of the search tables that may have to come back."""
    return (state / _MARKER).exists()


def give_back(database: HermesDatabase) -> None:
    """Bring the file down to what it holds, if that keeps nobody waiting.

    Raises `BusyError` when somebody would have to wait, and says so."""
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
        return False  # Hermes uses them again
    if others_have_open(database.path):
        raise BusyError(
            "Hermes has its database open, and writing it anew would keep it waiting. Free pages "
            "are used again; run `holdfast maintain --force` while Hermes is not running to give "
            "them back."
        )
    return True


def _check_room(database: HermesDatabase, needed: int) -> None:
    """VACUUM writes a copy of what is left, and that once more into the log."""
    if shutil.disk_usage(database.path.parent).free < _ROOM * needed:
        raise StorageError(
            f"There is no room to write {database.path} anew; its free pages are used again.",
            hint="Free some space, then run `holdfast maintain --force`.",
        )
