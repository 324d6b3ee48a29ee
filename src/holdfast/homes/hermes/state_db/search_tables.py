"""Updates Hermes's search tables when many messages are removed or restored at once.

Hermes stores the text of every message three times: in its row and in two search tables. Triggers
insert each message into these and delete it again, word by word, which is most of the cost of a
removal. Filling one table after the other with one statement each takes a sixth less, and the
messages themselves need not be written. Which text of a message is searched is read from the
triggers in the database: `schema` knows them, and makes a database with other triggers read-only.

If more is removed than stays, it is faster to rebuild the search tables with what stays, in one
transaction, and to remove the rest afterwards: the triggers find nothing to delete. Messages that
such a run does not remove after all are indexed again at its end, or by the next run.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import SchemaError
from holdfast.homes.hermes.state_db import search_parts
from holdfast.homes.hermes.state_db.database import HermesDatabase, others_have_open
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.stores.files import make_private_dir, replace, storage_errors
from holdfast.stores.sqlite.bundle import unchanging
from holdfast.stores.sqlite.database import pragma
from holdfast.stores.sqlite.survey import used_bytes
from holdfast.value import dataclass

#: FTS5's defaults, and settings for many messages at once: the bytes gathered before a write, and
#: how many index parts of one size are merged into a larger one.
_DEFAULTS = {"hashsize": 1024 * 1024, "automerge": 4}
_FOR_MANY = {"hashsize": 16 * 1024 * 1024, "automerge": 8}
_INSERTS = re.compile(
    r"values\s*\(\s*new\.id\s*,(.*)\)\s*;\s*end\s*;?\s*$", re.IGNORECASE | re.DOTALL
)
_NEW = re.compile(r"\bnew\.", re.IGNORECASE)
#: The search tables are rebuilt if more than this share of the messages is removed and the rest is
#: few enough to be indexed in less than a second, or in a few seconds if no other process waits.
_MOST_GOES = 1 / 2
_FEW_STAY = 2_000
_FEW_STAY_ALONE = 20_000
#: Messages that are removed at once if no other process waits: in two seconds.
_MOST_AT_ONCE = 150_000
#: Messages that are indexed again per transaction.
_AT_ONCE = 200
#: How often what stays is written: to the WAL, to the file, and to the index next to it.
_ROOM = 3
_MARKER = "search-renewal.json"
#: The files of an index that is built next to the database.
_NAMES = "search-*.tmp"
_STAYING = "m.session_id NOT IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTable:
    """The declaration of a search table, and the searched text of a message `m`, in SQL."""

    name: str
    declared: str
    text: str


def kept_up_to_date(db: sqlite3.Connection, schema: Schema) -> Sequence[SearchTable]:
    """The search tables that Hermes's triggers update with each message."""
    found = []
    for table in schema.search_tables:
        text = _searched_text(db, table)
        if text is not None:
            [sql] = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
            found.append(SearchTable(name=table, declared=sql, text=text))
    return found


def fill(
    db: sqlite3.Connection, table: str, chosen: str, parameters: Sequence[Any] = (), end: str = ""
) -> int:
    """Insert the selected messages `m` into a search table. Returns their number: 0 if Hermes has
    no trigger for the table, and so does not keep it up to date itself."""
    text = _searched_text(db, table)
    if text is None:
        return 0
    return db.execute(
        f"INSERT INTO {table} (rowid, content) "  # noqa: S608 - known names, and text of a known trigger
        f"SELECT m.id, {text} FROM messages m WHERE {chosen} ORDER BY m.id {end}",
        parameters,
    ).rowcount


@contextlib.contextmanager
def without_triggers(db: sqlite3.Connection, schema: Schema, event: str) -> Iterator[None]:
    """Insert or delete messages without updating the search tables: these are filled at once,
    before or afterwards.

    All in the caller's transaction: other connections never see a database without these triggers,
    and after an error there is nothing to restore, because the caller rolls back.
    """
    found = ((table, _trigger(db, table, event)) for table in schema.search_tables)
    triggers = {table: sql for table, sql in found if sql}
    for table in triggers:
        db.execute(f"DROP TRIGGER {table}_{event}")
    yield
    for sql in triggers.values():
        db.execute(sql)


@contextlib.contextmanager
def indexing_many(db: sqlite3.Connection, tables: Collection[str]) -> Iterator[None]:
    """Let the search tables gather more before each write, and merge larger parts: that takes a
    quarter less time than the settings for single messages. All in the caller's transaction, so
    that other connections never see these settings, not even after a kill."""
    before = {table: _settings(db, table) for table in tables}
    for table in before:
        for name, value in _FOR_MANY.items():
            _set(db, table, name, value)
    yield
    db.execute("SAVEPOINT gathered")  # FTS5 writes what it has gathered, still with these settings
    db.execute("RELEASE gathered")
    for table, settings in before.items():
        for name, value in _DEFAULTS.items():
            _set(db, table, name, settings.get(name, value))
            if name not in settings:
                db.execute(f"DELETE FROM {table}_config WHERE k = ?", (name,))  # noqa: S608 - known name


def _searched_text(db: sqlite3.Connection, table: str) -> str | None:
    trigger = _trigger(db, table)
    if trigger is None:
        return None
    found = _INSERTS.search(trigger)
    if found is None:  # never skip messages silently
        raise SchemaError(f"The trigger {table}_insert is not known.", hint="Upgrade Holdfast.")
    return _NEW.sub("m.", found[1])


def _trigger(db: sqlite3.Connection, table: str, event: str = "insert") -> str | None:
    row = db.execute(
        "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?", (f"{table}_{event}",)
    ).fetchone()
    return None if row is None else str(row[0])


def _settings(db: sqlite3.Connection, table: str) -> dict[str, int]:
    rows = db.execute(f"SELECT k, v FROM {table}_config")  # noqa: S608 - known name
    return {name: value for name, value in rows if name in _DEFAULTS}


def _set(db: sqlite3.Connection, table: str, name: str, value: int) -> None:
    db.execute(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (name, value))  # noqa: S608 - known name


# --- What stays, indexed next to the database -----------------------------------------------------
# This runs while the rest is copied. The index is used only if the database has not changed since:
# SQLite tells a connection whether another one has committed. Otherwise the tables are filled as
# usual.


class IndexBeside:
    """The index of the messages of all sessions that stay. One thread per table."""

    def __init__(
        self,
        db: sqlite3.Connection,
        schema: Schema,
        folder: Path,
        database: Path,
        going: Collection[str],
    ) -> None:
        """Called inside a read transaction of `db`."""
        clear(folder)
        make_private_dir(folder)
        self._folder = folder
        self._connection = db
        self._age = _age(db)
        self._made: dict[SearchTable, bool] = {}
        chosen = json.dumps(list(going))
        self._threads = [
            threading.Thread(target=self._build, args=(table, database, chosen))
            for table in kept_up_to_date(db, schema)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        for thread in self._threads:
            thread.join()

    def is_exact(self, db: sqlite3.Connection) -> bool:
        """True if nothing has changed since. Called inside a write transaction, before it
        writes."""
        return db is self._connection and _age(db) == self._age

    def moved_in(self, db: sqlite3.Connection, table: SearchTable) -> bool:
        """Move the index into its empty table, if the index could be built. The caller's connection
        must not use the table any more, see `search_parts`."""
        if not self._made.get(table):
            return False
        name = f"beside_{table.name}"
        db.execute(f"ATTACH ? AS {name}", (unchanging(self._path(table)),))
        return search_parts.moved_in(db, table.name, name)

    def _build(self, table: SearchTable, database: Path, chosen: str) -> None:
        self._made[table] = search_parts.built(
            self._path(table),
            table.name,
            table.declared,
            f"SELECT m.id, {table.text} FROM source.messages m WHERE {_STAYING} ORDER BY m.id",  # noqa: S608 - text of a known trigger
            database,
            (chosen,),
        )

    def _path(self, table: SearchTable) -> Path:
        return self._folder / _NAMES.replace("*", table.name)


def clear(folder: Path) -> None:
    """Remove files left by a killed run."""
    for path in folder.glob(_NAMES):
        search_parts.dropped(path)


def _age(db: sqlite3.Connection) -> tuple[int, int]:
    """A value that changes when another connection commits, or when this one writes."""
    return pragma(db, "data_version"), db.total_changes


# --- A large removal ------------------------------------------------------------------------------


class SearchRenewal:
    """Rebuilds the search tables. A marker file records that after a kill."""

    def __init__(self, database: HermesDatabase, state: Path) -> None:
        self._database = database
        self._marker = state / _MARKER
        self._beside: IndexBeside | None = None
        self._leaving = 0

    def is_worth_it(self, going: Collection[str]) -> bool:
        """True if few messages stay after these sessions are removed."""
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
        """Build the index of what stays in its own file while the sessions are copied. To be called
        after `is_worth_it`.
        Returns whether all sessions may then be removed in one transaction: no other process has
        the database open, and the transaction is no longer than one that indexes what stays."""
        if self._leaving > _MOST_AT_ONCE or others_have_open(self._database.path):
            return False
        with self._database.read() as db:
            self._beside = IndexBeside(
                db, self._database.schema, self._marker.parent, self._database.path, going
            )
        return True

    def wait(self) -> None:
        """Wait until what stays is indexed. Called before the transaction, where it would block
        Hermes."""
        if self._beside is not None:
            self._beside.wait()

    def renew(self, db: sqlite3.Connection, going: Collection[str]) -> None:
        """Rebuild the search tables with everything that stays, in the caller's transaction.

        Readers see the old tables until it commits. The connection must not use them any more, not
        even in this transaction: an index built next to the database may have been moved in.
        """
        with storage_errors(f"write {self._marker}"):
            make_private_dir(self._marker.parent)
            replace(self._marker, b"{}")  # before the tables, so that a kill is noticed
        beside = self._beside
        if beside is not None:  # the VACUUM that follows writes everything, and nobody waits
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
                fill(db, name, _STAYING, (json.dumps(list(going)),))

    def finish(self) -> None:
        """Put messages that stayed after all back into the search tables."""
        self.close()
        if self._marker.exists():
            self.complete()
            self._marker.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the index built next to the database, including one of a killed run."""
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.wait()
        clear(self._marker.parent)

    def complete(self) -> None:
        """Insert every message that a search table lacks."""
        while self._index_some():
            pass

    def _index_some(self) -> bool:
        with self._database.write() as db:
            # One statement per table: FTS5 flushes what it has gathered after each statement.
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
    """True if a run may have left messages out of the search tables."""
    return (state / _MARKER).exists()
