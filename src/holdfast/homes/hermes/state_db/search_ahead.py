"""Prepares the next bundles of an undo: unpacks them, and indexes them for search.

One thread per search table works ahead of the undo, without any lock on Hermes's database: SQLite
lets other threads run while it works. The results are files next to the bundles, with names that
the next run clears if this one is killed. If a file could not be made, that costs only time.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.homes.hermes.state_db import search_parts
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.search_tables import (
    SearchTable,
    fill,
    indexing_many,
    kept_up_to_date,
    without_triggers,
)
from holdfast.homes.hermes.state_db.undo_copies import MESSAGES, PREFIX, SESSIONS, unpack
from holdfast.stores.sessions.session_rows import AMONG
from holdfast.stores.sqlite.bundle import opened, quoted, unchanging
from holdfast.value import dataclass

#: Fewer messages are indexed quickly anyway, and as parts would only increase the number of parts.
_FEWEST = 500
#: How many bundles are prepared before the undo reaches them. Each takes some megabytes.
_AHEAD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """The messages of some sessions of a bundle: a file with the table `messages`, and for each
    search table that could be indexed, a file with its index."""

    sessions: frozenset[int]
    rows: Path
    indexes: Mapping[SearchTable, Path]


class WorkAhead:
    """Prepares files for bundles, in the order in which they will be needed."""

    def __init__(
        self, bundles: Mapping[Path, Sequence[str]], tables: Sequence[SearchTable]
    ) -> None:
        """`bundles` maps each bundle to the sessions wanted from it."""
        self._wanted = bundles
        self._bundles = list(bundles)
        self._tables = tables
        self._changed = threading.Condition()
        self._at = 0
        self._closed = False
        #: Whether each file could be made, by path.
        self._made: dict[Path, bool] = {}
        #: The sessions whose messages are in the file of a bundle.
        self._sessions: dict[Path, frozenset[int]] = {}
        self._threads = [
            threading.Thread(target=self._work, args=(table,), name=f"holdfast-{table.name}")
            for table in tables
        ]
        for thread in self._threads:
            thread.start()

    def of(self, bundle: Path) -> Ahead | None:
        """Wait for the files of a bundle, and return them."""
        if bundle not in self._bundles or not self._tables:
            return None
        with self._changed:
            self._at = self._bundles.index(bundle)
            self._changed.notify_all()
        rows = _rows(bundle)
        if not self._is_made(rows):
            return None
        indexes = {table: _index(bundle, table) for table in self._tables}
        made = {table: path for table, path in indexes.items() if self._is_made(path)}
        return Ahead(sessions=self._sessions[bundle], rows=rows, indexes=made)

    def done_with(self, bundle: Path) -> None:
        """Remove the files of a bundle."""
        for path in (_rows(bundle), *(_index(bundle, table) for table in self._tables)):
            search_parts.dropped(path)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for bundle in self._bundles:
            self.done_with(bundle)

    def _is_made(self, path: Path) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or path in self._made)
            return self._made.get(path, False)

    def _is_wanted(self, place: int) -> bool:
        """Wait until the undo is near; False if it will not reach this bundle any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or place <= self._at + _AHEAD)
            return not self._closed and place >= self._at

    def _work(self, table: SearchTable) -> None:
        for place, bundle in enumerate(self._bundles):
            made = False
            try:
                if self._is_wanted(place):
                    if table is self._tables[0]:
                        self._unpack(bundle)
                    made = self._is_made(_rows(bundle)) and search_parts.built(
                        _index(bundle, table),
                        table.name,
                        table.declared,
                        f"SELECT m.id, {table.text} FROM source.{MESSAGES} m ORDER BY m.id",  # noqa: S608 - text of a known trigger
                        _rows(bundle),
                    )
            finally:  # the undo must never wait for a thread that has ended
                if table is self._tables[0]:
                    self._tell(_rows(bundle), made)
                self._tell(_index(bundle, table), made)

    def _unpack(self, bundle: Path) -> None:
        self._sessions[bundle] = unpacked(_rows(bundle), bundle, self._wanted[bundle])
        self._tell(_rows(bundle), bool(self._sessions[bundle]))

    def _tell(self, path: Path, made: bool) -> None:
        with self._changed:
            self._made.setdefault(path, made)
            self._changed.notify_all()


def from_ahead(db: sqlite3.Connection, schema: Schema, ahead: Ahead) -> bool:
    """Insert the messages of a bundle, also into the search tables, in the caller's transaction.
    Returns False, with nothing changed, if a number is taken. The connection must be discarded
    after the transaction: files are attached to it, and see `search_parts`."""
    db.execute("ATTACH ? AS ahead", (unchanging(ahead.rows),))
    if not inserted(db, schema, f"ahead.{MESSAGES}"):
        return False
    lacking = []
    for place, table in enumerate(kept_up_to_date(db, schema)):
        index = ahead.indexes.get(table)  # missing if the table was declared differently
        if index is not None:
            db.execute(f"ATTACH ? AS index_{place}", (unchanging(index),))
        if index is None or not search_parts.moved_in(db, table.name, f"index_{place}"):
            lacking.append(table.name)
    with indexing_many(db, lacking):
        for name in lacking:
            fill(db, name, f"m.id IN (SELECT b.id FROM ahead.{MESSAGES} b)")  # noqa: S608 - our own name
    return True


def inserted(db: sqlite3.Connection, schema: Schema, source: str) -> bool:
    """Insert the messages of another table without firing triggers, in one statement and in the
    order of their numbers: FTS5 flushes what it has gathered for each statement that fires a
    trigger, and for each number below the last one. Returns False, with nothing changed, if a
    number is taken."""
    there = [column[0] for column in db.execute(f"SELECT * FROM {source} LIMIT 0").description]  # noqa: S608 - our own name
    names = ", ".join(quoted(name) for name in there if name in schema.columns[MESSAGES])
    with without_triggers(db, schema, "insert"):
        try:
            db.execute(
                f"INSERT INTO main.{MESSAGES} ({names}) "  # noqa: S608 - quoted names
                f"SELECT {names} FROM {source} ORDER BY id"
            )
        except sqlite3.IntegrityError:
            return False
    return True


def unpacked(path: Path, bundle: Path, ids: Sequence[str]) -> frozenset[int]:
    """Unpack the messages of these sessions into a new file, with Hermes's columns and values.
    Returns the rowids of the sessions; empty, and without a file, if that is not possible or not
    worthwhile."""
    try:
        sessions = _worth_it(bundle, ids)
        if sessions:
            with search_parts.made(path) as db:
                db.create_function("unpack", 1, unpack, deterministic=True)
                db.execute("ATTACH ? AS copies", (unchanging(bundle),))
                db.execute("BEGIN")
                _insert_unpacked(db, json.dumps([*sessions]))
                db.execute("COMMIT")
    except (OSError, HoldfastError, sqlite3.Error):
        search_parts.dropped(path)  # if the bundle is damaged, the undo will report it
        return frozenset()
    return sessions


def _worth_it(bundle: Path, ids: Sequence[str]) -> frozenset[int]:
    """The rowids of these sessions, if they have many messages together."""
    with opened(bundle) as copies:
        rows = copies.execute(
            f"SELECT number FROM {SESSIONS} WHERE id {AMONG}",  # noqa: S608 - our own text
            (json.dumps(ids),),
        )
        sessions = frozenset(number for (number,) in rows)
        [messages] = copies.execute(
            f"SELECT count(*) FROM {MESSAGES} WHERE +session {AMONG}",  # noqa: S608 - our own text
            (json.dumps([*sessions]),),
        ).fetchone()
    return sessions if messages >= _FEWEST else frozenset()


def _insert_unpacked(db: sqlite3.Connection, sessions: str) -> None:
    columns = [name for _, name, *_ in db.execute(f"PRAGMA copies.table_info({MESSAGES})")]
    theirs = [name.removeprefix(PREFIX) for name in columns if name.startswith(PREFIX)]
    kept = ["id INTEGER PRIMARY KEY" if name == "id" else quoted(name) for name in theirs]
    values = ", ".join(
        f"CASE typeof({each}) WHEN 'blob' THEN unpack({each}) ELSE {each} END"
        for each in (quoted(PREFIX + name) for name in theirs)
    )
    db.execute(f"CREATE TABLE main.{MESSAGES} ({', '.join(kept)})")
    # The plus keeps SQLite from using the index of sessions, which would require sorting.
    db.execute(
        f"INSERT INTO main.{MESSAGES} "  # noqa: S608 - quoted names
        f"SELECT {values} FROM copies.{MESSAGES} WHERE +session {AMONG} ORDER BY number",
        (sessions,),
    )


def _rows(bundle: Path) -> Path:
    return bundle.with_name(f".{bundle.stem}-rows.tmp")


def _index(bundle: Path, table: SearchTable) -> Path:
    return bundle.with_name(f".{bundle.stem}-{table.name}.tmp")
