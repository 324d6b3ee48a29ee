"""Connections to Hermes's database, beside Hermes itself.

Nothing of ours is put beside the file, and no setting that stays in it is changed. A database whose
schema is not known is read only, and Hermes may bring it to a newer one at any time: so that is
asked again inside every transaction that writes.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import DamageError, SchemaError
from holdfast.homes.hermes.state_db import schema as schemas
from holdfast.homes.hermes.state_db.openers import others_have_open
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.values import relation_of
from holdfast.stores.sqlite.database import BUSY_SECONDS, Database
from holdfast.stores.sqlite.gate import Gate


class HermesDatabase(Database):
    """One `state.db`. `schema` is what it was when it was last looked at."""

    schema: Schema

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._seen: int | None = None
        super().__init__(path, create=False, busy_seconds=busy_seconds)

    def _accept(self) -> None:
        with self.read() as db:
            self._look(db)

    def _configure(self, connection: sqlite3.Connection) -> None:
        connection.create_function("relation_of", 4, relation_of, deterministic=True)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        # Many builds of SQLite overwrite each page that is freed, which costs twenty times what
        # the removal does. FAST overwrites where a page is written anyway.
        connection.execute("PRAGMA secure_delete = FAST")

    def _make_gate(self) -> Gate:
        return _NoGate(self.path)

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """What SQLite says of a table or a text that is not what it was: damage, or a newer form
        that is not known."""
        try:
            with super().read() as db:
                yield db
        except sqlite3.Error as error:
            unknown = self.schema.unknown if self._seen is not None else None
            if unknown is not None:
                raise SchemaError(
                    f"{self.path} cannot be read: {error}; {unknown}.",
                    hint="Upgrade Holdfast.",
                ) from error
            raise DamageError(
                f"{self.path} cannot be read: {error}.",
                hint="`holdfast doctor` looks at all of it. Nothing was changed.",
            ) from error

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        self.check_writable()
        with super().write() as db:
            self._look(db)
            self.check_writable()
            yield db

    def script(self, statements: str) -> None:
        self.check_writable()
        super().script(statements)

    def vacuum(self) -> None:
        self.check_writable()
        super().vacuum()

    def check_writable(self) -> None:
        """Raise `SchemaError` for a database that may only be read."""
        if self.schema.unknown is not None:
            raise SchemaError(
                f"{self.path} is not changed: {self.schema.unknown}.",
                hint="Everything that only reads works. Upgrade Holdfast to change this home.",
            )

    def _look(self, db: sqlite3.Connection) -> None:
        [cookie] = db.execute("PRAGMA schema_version").fetchone()
        if cookie != self._seen or self.schema.version != _version(db):
            self.schema = schemas.read(db)
            self._seen = cookie


def _version(db: sqlite3.Connection) -> object:
    with contextlib.suppress(sqlite3.OperationalError):
        row = db.execute("SELECT version FROM schema_version").fetchone()
        return row[0] if row else None
    return None


class _NoGate(Gate):
    """Hermes does not queue up. It asks SQLite for the lock again and again, and anybody who has
    the database open may be doing so."""

    def __init__(self, database: Path) -> None:
        self._database = database

    @contextlib.contextmanager
    def passed(self, patience: float) -> Iterator[None]:
        yield

    def is_awaited(self) -> bool:
        return others_have_open(self._database)

    def close(self) -> None:
        """It holds nothing."""
