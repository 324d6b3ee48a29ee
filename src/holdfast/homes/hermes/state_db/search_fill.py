"""Many messages into Hermes's search tables at once, as Hermes's own triggers would put them there.

A trigger runs once for each message and writes to both tables in turn. To fill one table after the
other by one statement each takes a sixth less, and the messages themselves need not be written.
What of a message is searched is read from the triggers in the database: `schema` knows them, and
lets nobody write to a database that has others.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from holdfast.errors import SchemaError
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.value import dataclass

#: What FTS5 has when nobody set it, and what suits many messages at once: bytes that it gathers
#: before it writes them out, and parts of the index of one size that are merged to a larger one.
_DEFAULTS = {"hashsize": 1024 * 1024, "automerge": 4}
_FOR_MANY = {"hashsize": 16 * 1024 * 1024, "automerge": 8}
_INSERTS = re.compile(
    r"values\s*\(\s*new\.id\s*,(.*)\)\s*;\s*end\s*;?\s*$", re.IGNORECASE | re.DOTALL
)
_NEW = re.compile(r"\bnew\.", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTable:
    """How a search table is declared, and what of a message `m` it searches, in SQL."""

    name: str
    declared: str
    text: str


def kept_up_to_date(db: sqlite3.Connection, schema: Schema) -> Sequence[SearchTable]:
    """The search tables into which Hermes's triggers put each message."""
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
    """Put the messages `m` that a condition chooses into a search table. Returns how many: none if
    Hermes has no trigger for the table, and so does not keep it up to date itself."""
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
    """Insert or delete messages while the search tables stay as they are: they are filled at once,
    before or afterwards.

    All in the caller's transaction: nobody else ever sees a database without these triggers, and
    after an error there is nothing to bring back, because the caller gives the transaction up."""
    found = ((table, _trigger(db, table, event)) for table in schema.search_tables)
    triggers = {table: sql for table, sql in found if sql}
    for table in triggers:
        db.execute(f"DROP TRIGGER {table}_{event}")
    yield
    for sql in triggers.values():
        db.execute(sql)


@contextlib.contextmanager
def indexing_many(db: sqlite3.Connection, tables: Collection[str]) -> Iterator[None]:
    """Let the search tables gather more before they write it out, and merge larger parts: that
    takes a quarter less than what is right for one message at a time. All in the caller's
    transaction, so that nobody else ever sees these settings, not even after a kill."""
    before = {table: _settings(db, table) for table in tables}
    for table in before:
        for name, value in _FOR_MANY.items():
            _set(db, table, name, value)
    yield
    db.execute("SAVEPOINT gathered")  # FTS5 writes out what it has, by these settings
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
    if found is None:  # never pass over messages without a word
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
