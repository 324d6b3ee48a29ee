"""A SQLite store as the source or the target of a complete copy."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import SchemaError, UsageError
from holdfast.stores.sessions.content import BODY_IS_PACKED, FIELDS_ARE_PACKED, is_odd, storable
from holdfast.stores.sessions.session_rows import (
    AMONG,
    GUARDED_COLUMNS,
    LEASE_COLUMNS,
    SESSION_COLUMNS,
)
from holdfast.stores.sqlite import schema, search_index
from holdfast.stores.sqlite.database import sqlite_errors
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.store_copy import (
    FILLED_FROM,
    LEDGER_COLUMNS,
    MESSAGE_COLUMNS,
    Beside,
    Head,
    MessageRow,
    beside,
    head,
)

_PRINT = (
    "SELECT count(*), sum(message_count), max(last_active_at), sum(pinned), count(ended_at), "
    "(SELECT max(number) FROM messages) FROM sessions"
)


class SqliteSource:
    """A snapshot of a file; nothing is written to it."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        if not path.is_file():
            raise UsageError(f"There is no session store at {path}.")
        uri = path.absolute().as_uri() + "?mode=ro"
        with contextlib.ExitStack() as stack:
            stack.enter_context(sqlite_errors(path))
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None)
            stack.callback(self._db.close)
            if not self._holds_sessions():
                raise UsageError(
                    f"{path} is not a session store.",
                    hint="Name a home, its file sessions.db, or a database (postgresql://…).",
                )
            [version] = self._db.execute("PRAGMA user_version").fetchone()
            if version != schema.LATEST:
                raise SchemaError(
                    f"{path} has schema {version}; this version of Holdfast copies "
                    f"{schema.LATEST}.",
                    hint="`holdfast sessions list` in that home brings an older one up to date.",
                )
            self._db.execute("BEGIN")
            self._print = self._db.execute(_PRINT).fetchone()
            stack.pop_all()

    def _holds_sessions(self) -> bool:
        """True if this is a database with our tables."""
        try:
            found = self._db.execute(
                "SELECT count(*) FROM sqlite_schema WHERE name IN ('sessions', 'messages', 'facts')"
            ).fetchone()
        except sqlite3.DatabaseError as error:
            if schema.error_code(error) == sqlite3.SQLITE_NOTADB:
                return False
            raise
        return bool(found == (3,))

    def close(self) -> None:
        self._db.close()

    def heads(self) -> Iterator[Head]:
        return _heads(self._db)

    def messages(self, sessions: Sequence[int] | None = None) -> Iterator[MessageRow]:
        return _messages(self._db, sessions)

    def beside(self) -> Beside:
        return _beside(self._db)

    def filled_from(self) -> str | None:
        return _filled_from(self._db)

    def has_changed(self) -> bool:
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")
        return bool(self._db.execute(_PRINT).fetchone() != self._print)


class SqliteTarget:
    """A file that is being filled; created if there is none."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._store = SqliteSessionStore(path)
        self._database = self._store.database

    def close(self) -> None:
        self._store.close()

    def heads(self) -> Iterator[Head]:
        with self._database.read() as db:
            yield from _heads(db)

    def messages(self, sessions: Sequence[int] | None = None) -> Iterator[MessageRow]:
        with self._database.read() as db:
            yield from _messages(db, sessions)

    def beside(self) -> Beside:
        with self._database.read() as db:
            return _beside(db)

    def filled_from(self) -> str | None:
        with self._database.read() as db:
            return _filled_from(db)

    def has_changed(self) -> bool:
        return False

    def begin(self, source: str) -> None:
        with self._database.write() as db:
            db.execute("INSERT INTO facts (name, value) VALUES (?, ?)", (FILLED_FROM, source))

    def put(self, heads: Sequence[Head], messages: Iterable[MessageRow]) -> None:
        numbers = [head[0] for head in heads]
        with self._database.write() as db:
            _drop(db, numbers)
            _insert(db, "sessions", ("number", *SESSION_COLUMNS), heads)
            _insert(db, "messages", MESSAGE_COLUMNS, map(_stored, messages))
            search_index.remember(db, numbers)

    def drop(self, sessions: Sequence[int]) -> None:
        with self._database.write() as db:
            _drop(db, sessions)

    def put_beside(self, beside: Beside) -> None:
        with self._database.write() as db:
            for table in ("routes", "leases", "guarded", "ledger"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
            db.execute("UPDATE sessions SET parent = NULL WHERE parent IS NOT NULL")
            db.executemany(
                "UPDATE sessions SET parent = ? WHERE number = ?",
                [(parent, child) for child, parent in beside.parents],
            )
            _insert(db, "routes", ("key", "session"), beside.routes)
            _insert(db, "leases", LEASE_COLUMNS, beside.leases)
            _insert(db, "guarded", GUARDED_COLUMNS, beside.guarded)
            _insert(db, "ledger", LEDGER_COLUMNS, beside.ledger)

    def finish(self) -> None:
        with self._database.write() as db:
            db.execute("DELETE FROM facts WHERE name = ?", (FILLED_FROM,))

    def index(self) -> Iterator[int]:
        more = True
        while more:
            with self._database.write() as db:
                more = search_index.catch_up_some(db)
                [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
                left = newest - search_index.indexed(db)
            yield left


def _heads(db: sqlite3.Connection) -> Iterator[Head]:
    columns = ", ".join(SESSION_COLUMNS)
    for row in db.execute(f"SELECT number, {columns} FROM sessions ORDER BY number"):  # noqa: S608
        yield head(row)


def _messages(db: sqlite3.Connection, sessions: Sequence[int] | None) -> Iterator[MessageRow]:
    columns = ", ".join(MESSAGE_COLUMNS)
    condition, values = ("true", ()) if sessions is None else (f"session {AMONG}", (sessions,))
    for session, number, role, at, form, body, fields in db.execute(
        f"SELECT {columns} FROM messages WHERE {condition} ORDER BY session, number",  # noqa: S608
        [json.dumps(list(each)) for each in values],
    ):
        yield session, number, storable(role) or "", at, form, _raw(body), _raw(fields)


def _raw(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _stored(row: MessageRow) -> tuple[Any, ...]:
    *rest, form, body, fields = row
    return (
        *rest,
        form,
        _text(body, is_packed=bool(form & BODY_IS_PACKED)),
        _text(fields, is_packed=bool(form & FIELDS_ARE_PACKED)),
    )


def _text(raw: bytes | None, *, is_packed: bool) -> str | bytes | None:
    """Return a string where content.py writes a string."""
    if raw is None or is_packed:
        return raw
    with contextlib.suppress(UnicodeDecodeError):
        text = raw.decode()
        if not is_odd(text):
            return text
    return raw


def _beside(db: sqlite3.Connection) -> Beside:
    def rows(table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        names = ", ".join(columns)
        return list(db.execute(f"SELECT {names} FROM {table} ORDER BY {names}"))  # noqa: S608

    return beside(
        db.execute("SELECT number, parent FROM sessions WHERE parent IS NOT NULL ORDER BY number"),
        rows("routes", ("key", "session")),
        rows("leases", LEASE_COLUMNS),
        rows("guarded", GUARDED_COLUMNS),
        rows("ledger", LEDGER_COLUMNS),
    )


def _filled_from(db: sqlite3.Connection) -> str | None:
    row = db.execute("SELECT value FROM facts WHERE name = ?", (FILLED_FROM,)).fetchone()
    return None if row is None else str(row[0])


def _drop(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    search_index.forget(db, numbers)
    for table, column in (("messages", "session"), ("sessions", "number")):
        db.execute(
            f"DELETE FROM {table} WHERE {column} {AMONG}",  # noqa: S608 - our own names
            (json.dumps(list(numbers)),),
        )


def _insert(
    db: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    marks = ", ".join("?" for _ in columns)
    db.executemany(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})",  # noqa: S608 - our own names
        rows,
    )
