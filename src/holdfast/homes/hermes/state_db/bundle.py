"""Undo copies of Hermes's sessions: every row that belongs to them, column for column.

A bundle has the form of our own, so that whoever keeps bundles need not know whose they are:
`sessions` and `messages` with the number of each. Beside its number a row has all its columns as
they are called in Hermes, with `h_` before their names; other tables stand there as `raw_<table>`.

Hermes keeps text as it was said. Copies of it stay for days and count against the caps: long text
is packed, which makes a copy a third as large.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.hermes.state_db.rows import names, quoted
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.stores.sqlite.bundle import FORMAT, BundleFolder

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: Shorter text stays readable to any SQLite tool.
_WORTH_PACKING = 512
_LEVEL = 1
#: The first byte of every value of bytes in a copy: what the rest is.
_TEXT, _BYTES = b"z", b"b"


def packed(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[Any]]:
    """Rows as they go into a copy. In one loop: there are millions of values."""
    for row in rows:
        yield [
            value
            if (kind := value.__class__) is not bytes
            and (kind is not str or len(value) < _WORTH_PACKING)
            else _pack(value)
            for value in row
        ]


def unpacked(value: Any) -> Any:
    """A value of a copy as it was; raises `zstd.ZstdError` when it is none of ours."""
    if not isinstance(value, bytes):
        return value
    if value[:1] == _TEXT:
        return zstd.decompress(value[1:]).decode()
    return value[1:]


def _pack(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return _BYTES + value
    return _TEXT + zstd.compress(value.encode(), _LEVEL)


MESSAGES = "messages"
RAW = "raw_"
_PREFIX = "h_"
_AMONG = "IN (SELECT value FROM json_each(?))"
_INDEX = "sessions"


class HermesBundleFolder(BundleFolder):
    """The bundles of one operation on a Hermes home."""

    _schema = f"""
        PRAGMA journal_mode = OFF;
        PRAGMA synchronous = OFF;
        PRAGMA user_version = {FORMAT};
    """

    def __init__(self, folder: Path, schema: Schema) -> None:
        super().__init__(folder)
        self._of = schema

    def write(self, db: sqlite3.Connection, numbers: Sequence[int], first: int, last: int) -> Path:
        """Copy sessions into a new bundle. `db` is at one moment of the store."""
        return self._make(first, last, lambda bundle: self._fill(bundle, db, json.dumps(numbers)))

    def _fill(self, bundle: sqlite3.Connection, db: sqlite3.Connection, chosen: str) -> None:
        bundle.execute(
            "CREATE TABLE sessions (number INTEGER PRIMARY KEY, id, started_at, children)"
        )
        rows = db.execute(
            f"""
            SELECT s.rowid, s.id, s.started_at,
                   (SELECT json_group_array(c.id) FROM sessions c WHERE c.parent_session_id = s.id)
            FROM sessions s WHERE s.rowid {_AMONG}
            """,  # noqa: S608 - our own text
            (chosen,),
        )
        bundle.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?)", rows)
        self._copy(bundle, db, "sessions", "s.rowid", chosen)
        for table in self._of.belonging:
            self._copy(bundle, db, table, "o.rowid", chosen)

    def _copy(
        self,
        bundle: sqlite3.Connection,
        db: sqlite3.Connection,
        table: str,
        owner: str,
        chosen: str,
    ) -> None:
        columns = self._of.columns[table]
        kept = [_PREFIX + column for column in columns]
        own = MESSAGES if table == MESSAGES else RAW + table
        key = "number INTEGER PRIMARY KEY" if table == MESSAGES else "number INTEGER"
        # Declared without types: a value is stored as it comes.
        bundle.execute(f"CREATE TABLE {quoted(own)} ({key}, session INTEGER, {names(kept)})")
        join = "" if table == "sessions" else "JOIN sessions o ON o.id = s.session_id"
        rows = db.execute(
            f"""
            SELECT s.rowid, {owner}, {", ".join(f"s.{quoted(each)}" for each in columns)}
            FROM {quoted(table)} s {join} WHERE {owner} {_AMONG}
            """,  # noqa: S608 - quoted names
            (chosen,),
        )
        _insert(bundle, own, packed(rows), 2 + len(columns))

    def _keep(
        self, smaller: sqlite3.Connection, bundle: sqlite3.Connection, kept: Sequence[int]
    ) -> None:
        tables = bundle.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
        for table, sql in tables.fetchall():
            smaller.execute(sql)
            key = "number" if table == _INDEX else "session"
            rows = bundle.execute(
                f"SELECT * FROM {quoted(table)} WHERE {key} {_AMONG}",  # noqa: S608 - quoted name
                (json.dumps(kept),),
            )
            _insert(smaller, table, rows, len(rows.description))


def copied_tables(copies: sqlite3.Connection) -> list[str]:
    """The tables that a bundle holds rows of, by Hermes's names."""
    rows = copies.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return [name.removeprefix(RAW) for (name,) in rows if name == MESSAGES or name.startswith(RAW)]


def copied_rows(
    copies: sqlite3.Connection, table: str, session: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table that belong to a session, each with its number."""
    own = MESSAGES if table == MESSAGES else RAW + table
    cursor = copies.execute(
        f"SELECT * FROM {quoted(own)} WHERE session = ? ORDER BY number",  # noqa: S608 - quoted name
        (session,),
    )
    columns = [column[0].removeprefix(_PREFIX) for column in cursor.description[2:]]
    for number, _, *values in cursor:
        yield number, dict(zip(columns, map(unpacked, values), strict=True))


def _insert(
    bundle: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]], width: int
) -> None:
    """From one cursor into another file: no more than a row is in memory."""
    marks = ", ".join("?" * width)
    bundle.executemany(f"INSERT INTO {quoted(table)} VALUES ({marks})", rows)  # noqa: S608 - quoted name
