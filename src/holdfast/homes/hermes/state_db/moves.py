"""Moves Hermes's sessions out of its database and back: the engine, their undo copies, their
lineage.

Hermes's own triggers remove deleted messages from its search tables and add returned ones. Tables
that only name sessions are left alone, as after a removal by Hermes itself.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.hermes import life
from holdfast.homes.hermes.life import Signs
from holdfast.homes.hermes.state_db.database import HermesDatabase, give_back
from holdfast.homes.hermes.state_db.rows import sessions_table
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.search_ahead import Ahead, WorkAhead, from_ahead, inserted
from holdfast.homes.hermes.state_db.search_tables import (
    SearchRenewal,
    fill,
    indexing_many,
    kept_up_to_date,
    without_triggers,
)
from holdfast.homes.hermes.state_db.sessions import HermesSessionStore
from holdfast.homes.hermes.state_db.undo_copies import (
    MESSAGES,
    PREFIX,
    RAW,
    SESSIONS,
    copied_rows,
    copied_tables,
    packer,
    unpack,
)
from holdfast.model.plan import PlanItem
from holdfast.model.stored_session import EVERYTHING, Found, Returned
from holdfast.ports.runs import Clock
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.stores.sessions.session_rows import AMONG
from holdfast.stores.sqlite.bundle import BundleFolder, opened, quoted
from holdfast.stores.sqlite.moves import DatabaseEngine, Judge, SessionSql
from holdfast.stores.sqlite.space import rest

#: Messages per transaction: a few tenths of a second if each has to leave the search tables.
_MOST_INDEXED = 400
#: The same for messages that are no longer in the search tables. An undo brings them back in
#: batches of this size, and each then goes through the triggers: Hermes must not wait longer than
#: its lock timeout.
_MOST_UNINDEXED = 2_000
#: Messages per bundle if all are removed at once. Restoring them takes 0.2 s.
_MOST_COPIED = 4_000
#: Hermes retries the lock with delays of up to a tenth of a second.
_PAUSE = 0.03


class HermesEngine(DatabaseEngine):
    """Moves the sessions of one Hermes home."""

    most_copied = _MOST_COPIED

    def __init__(
        self, store: HermesSessionStore, root: Path, state: Path, clock: Clock, after: float
    ) -> None:
        super().__init__(store.database, clock)
        self.database: HermesDatabase = store.database
        self._store = store
        self._root = root
        self._after = after
        self._awaited = AwaitedParents(state)
        self.search = SearchRenewal(store.database, state)
        self._to_go: Sequence[str] = ()
        self._ahead: Ahead | None = None
        #: True if files are attached to the connection, or parts were moved in.
        self._is_used_up = False

    def sql(self) -> SessionSql:
        return SessionSql(
            tables=sessions_table(self.database.schema),
            last_active="s.last_active_at",
            last_said="s.last_said_at",
            flag="s.agent_archived",
            weight="s.message_count",
            first_message="(SELECT min(m.id) FROM messages m WHERE m.session_id = s.id)",
        )

    def judge(self, db: sqlite3.Connection, numbers: Sequence[int]) -> Judge:
        signs = self.signs()
        return lambda _, name, ended, idle: signs.judge(name, ended=ended, idle=idle)

    def signs(self) -> Signs:
        schema, now = self.database.schema, self._clock()
        with self.database.read() as db:
            return life.look(self._root, self.database.path, db, schema, now=now, after=self._after)

    def copies(self, folder: Path) -> BundleFolder:
        return BundleFolder(folder, copied_tables(self.database.schema), {"pack": packer()})

    def prepare(self, items: Sequence[PlanItem]) -> int:
        self.finish_search()
        self.rest()
        going = [item.id for item in items]
        if not self.search.is_worth_it(going):
            return _MOST_INDEXED
        self._to_go = going
        return EVERYTHING if self.search.begin(going) else _MOST_UNINDEXED

    def finish_search(self) -> None:
        """Put back messages that an earlier run, finished or killed, left out of the search
        tables."""
        self._to_go = ()
        self.search.finish()

    def delete(self, going: Sequence[Found], *, for_good: bool = False) -> None:
        """Delete sessions with everything that belongs to them; their children stay, without a
        parent."""
        schema = self.database.schema
        ids = (json.dumps([each.id for each in going]),)
        with self.database.write() as db, contextlib.ExitStack() as until_gone:
            if self._to_go:
                # Only with the first removal: its intent is in the log by now, so the run that
                # settles a killed one knows that there is something to finish here.
                to_go, self._to_go = self._to_go, ()
                self._is_used_up = True
                self.search.renew(db, to_go)
                # The triggers would find nothing, and must not read tables into which pages were
                # moved.
                until_gone.enter_context(without_triggers(db, schema, "delete"))
            self._store.ledger.note(db, schema, f"s.id {AMONG}", *ids)
            db.execute(
                f"UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id {AMONG}",  # noqa: S608 - our own text
                ids,
            )
            for table in schema.belonging:
                db.execute(f"DELETE FROM {quoted(table)} WHERE session_id {AMONG}", ids)  # noqa: S608 - quoted name
            db.execute(f"DELETE FROM sessions WHERE id {AMONG}", ids)  # noqa: S608 - our own text

    def made_ready(self, bundles: Mapping[Path, Sequence[str]]) -> Generator[Path]:
        with self.database.read() as db:
            tables = kept_up_to_date(db, self.database.schema)
        with contextlib.closing(WorkAhead(bundles, tables)) as work:
            for bundle in bundles:
                self._ahead = work.of(bundle)  # before the transaction, where it would block Hermes
                yield bundle
                self._ahead = None
                work.done_with(bundle)

    @contextlib.contextmanager
    def transaction(self, *, empties: bool = False) -> Iterator[None]:
        if self._to_go:
            self.search.wait()  # before the transaction, where it would block Hermes
        try:
            with super().transaction(empties=empties):
                yield
        finally:
            if self._is_used_up:
                self._is_used_up = False
                self.database.reconnect()
                self.search.close()

    def put_back(self, bundle: Path, ids: Collection[str]) -> Returned:
        self._is_used_up = self._ahead is not None
        with self.database.write() as db, opened(bundle) as copies:
            refused = _put_back(db, self.database.schema, copies, ids, self._awaited, self._ahead)
            return Returned(refused=refused)

    def relate(self, parents: Mapping[str, str], children: Mapping[str, Sequence[str]]) -> None:
        with self.database.write() as db:
            _relate(db, parents, children, self._awaited)

    def rest(self) -> None:
        rest(self.database, _PAUSE)

    def give_back(self) -> None:
        self.finish_search()
        give_back(self.database)


# --- Restoring ------------------------------------------------------------------------------------


def _put_back(
    db: sqlite3.Connection,
    schema: Schema,
    copies: sqlite3.Connection,
    ids: Collection[str],
    awaited: AwaitedParents,
    ahead: Ahead | None,
) -> Mapping[str, str]:
    """Restore sessions exactly. Returns the reasons why some could not be restored, by id."""
    chosen = copies.execute(
        f"SELECT number, id, children FROM sessions WHERE id {AMONG} ORDER BY number",  # noqa: S608 - our own text
        (json.dumps(list(ids)),),
    ).fetchall()
    listed = copies.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    tables = {name: name.removeprefix(RAW) for (name,) in listed if name != SESSIONS}
    refused: dict[str, str] = {}
    children: dict[str, list[str]] = {}
    parents: dict[str, str] = {}
    back: list[int] = []
    for number, name, own_children in chosen:
        [(place, row)] = copied_rows(copies, RAW + SESSIONS, number)
        title = row.get("title")
        other = title_holder(db, title)
        if other is not None:
            refused[name] = f"session {other} has its title now; rename that one and undo again"
            continue
        if row["parent_session_id"] is not None:
            parents[name] = row["parent_session_id"]
        insert(db, schema, SESSIONS, place, row | {"parent_session_id": None})
        children[name] = json.loads(own_children)
        back.append(number)
        for copy, table in tables.items():
            if table not in (SESSIONS, MESSAGES) and table in schema.columns:
                for place, each in copied_rows(copies, copy, number):
                    insert(db, schema, table, place, each)
    expected = ahead is not None and {*back} == ahead.sessions
    if ahead is None or not expected or not from_ahead(db, schema, ahead):
        _put_messages_back(db, schema, copies, back)
    _relate(db, parents, children, awaited)
    return refused


def _put_messages_back(
    db: sqlite3.Connection, schema: Schema, copies: sqlite3.Connection, sessions: Sequence[int]
) -> None:
    """Insert the messages of these sessions, all at once. If Hermes has recreated the database
    since, another message may have taken a number; then they are inserted one by one."""
    cursor = copies.execute(
        f"SELECT * FROM messages WHERE session {AMONG} ORDER BY number",  # noqa: S608 - our own text
        (json.dumps(sessions),),
    )
    columns = [quoted(column[0].removeprefix(PREFIX)) for column in cursor.description[2:]]
    db.execute("DROP TABLE IF EXISTS temp.back")
    db.execute(f"CREATE TEMP TABLE back ({', '.join(columns)})")
    db.executemany(
        f"INSERT INTO temp.back VALUES ({', '.join('?' * len(columns))})",  # noqa: S608 - marks alone
        (tuple(map(unpack, values)) for _, _, *values in cursor),
    )
    if inserted(db, schema, "temp.back"):
        with indexing_many(db, schema.search_tables):
            for table in schema.search_tables:
                fill(db, table, "m.id IN (SELECT b.id FROM temp.back b)")
    else:
        for number in sessions:
            for place, each in copied_rows(copies, MESSAGES, number):
                insert(db, schema, MESSAGES, place, each)
    db.execute("DROP TABLE temp.back")


def title_holder(db: sqlite3.Connection, title: str | None) -> str | None:
    """The session with a title; titles are unique in Hermes."""
    row = db.execute("SELECT id FROM sessions WHERE title = ?", (title,)).fetchone()
    return None if row is None else str(row[0])


def insert(
    db: sqlite3.Connection, schema: Schema, table: str, place: int, row: Mapping[str, Any]
) -> None:
    """Insert a row under its old rowid if that is free. In tables other than sessions and messages,
    an existing row with the same key stays."""
    columns = [column for column in schema.columns[table] if column in row]
    values = [row[column] for column in columns]
    taken = db.execute(
        f"SELECT 1 FROM {quoted(table)} WHERE rowid = ?",  # noqa: S608 - quoted name
        (place,),
    ).fetchone()
    if taken and table == MESSAGES:
        columns.remove("id")  # Hermes has recreated the database: use the next number
        values = [row[column] for column in columns]
    elif not taken and table != MESSAGES:
        columns, values = ["rowid", *columns], [place, *values]
    marks = ", ".join("?" * len(columns))
    verb = "INSERT" if table in (SESSIONS, MESSAGES) else "INSERT OR IGNORE"
    db.execute(
        f"{verb} INTO {quoted(table)} ({', '.join(map(quoted, columns))}) VALUES ({marks})", values
    )


# --- Lineage --------------------------------------------------------------------------------------

AWAITED_PARENTS = "awaited-parents.json"


class AwaitedParents:
    """Which children wait for parents that are not in the store: Hermes's rows have no column for
    that. A process that changes these notes holds the lock of the home."""

    def __init__(self, state: Path) -> None:
        self._path = state / AWAITED_PARENTS

    def add(self, parents: Mapping[str, str]) -> None:
        """Note parents by child."""
        known = self._read()
        if parents.items() <= known.items():
            return
        with storage_errors(f"write {self._path}"):
            make_private_dir(self._path.parent)
            replace(self._path, json.dumps({**known, **parents}).encode())

    def among(self, names: Collection[str]) -> Mapping[str, str]:
        """The notes in which one of these is the child or the parent."""
        return {
            child: parent
            for child, parent in self._read().items()
            if child in names or parent in names
        }

    def _read(self) -> dict[str, str]:
        """The notes; empty if they cannot be read: a child then stays without its parent."""
        try:
            notes = json.loads(read_file(self._path))
        except (OSError, ValueError):
            return {}
        return {str(c): str(p) for c, p in notes.items()} if isinstance(notes, dict) else {}


def _relate(
    db: sqlite3.Connection,
    parents: Mapping[str, str],
    children: Mapping[str, Sequence[str]],
    awaited: AwaitedParents,
) -> None:
    """Connect returned sessions with their parents, and with those children that have no other
    parent by now. `children` has every returned session. If one of a pair is missing, a note
    remembers the relation until it returns."""
    wanted = dict(awaited.among(children))
    wanted |= {child: parent for parent, own in children.items() for child in own}
    wanted |= parents
    rows = db.execute(
        f"SELECT id FROM sessions WHERE id {AMONG}",  # noqa: S608 - our own text
        (json.dumps([*wanted, *wanted.values()]),),
    )
    there = {name for (name,) in rows}
    both = {child: parent for child, parent in wanted.items() if {child, parent} <= there}
    # Before the rows: an unneeded note is harmless, a missing one loses a parent.
    awaited.add({child: wanted[child] for child in wanted.keys() - both.keys()})
    db.executemany(
        "UPDATE sessions SET parent_session_id = ? WHERE id = ? AND parent_session_id IS NULL",
        [(parent, child) for child, parent in both.items()],
    )
