"""What stays in a home of Hermes, indexed for search beside its database while the rest is copied.

The index counts only if nobody has changed the database since: SQLite says of each connection
whether another one has committed. Otherwise the search tables are filled as usual.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Collection
from pathlib import Path

from holdfast.homes.hermes.state_db import search_parts
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.search_fill import SearchTable, kept_up_to_date
from holdfast.stores.files import make_private_dir
from holdfast.stores.sqlite.bundle import unchanging
from holdfast.stores.sqlite.database import pragma

_NAMES = "search-*.tmp"
STAYING = "m.session_id NOT IN (SELECT value FROM json_each(?))"


class IndexBeside:
    """The index of the messages of all sessions but those that go. One thread for each table."""

    def __init__(
        self,
        db: sqlite3.Connection,
        schema: Schema,
        folder: Path,
        database: Path,
        going: Collection[str],
    ) -> None:
        """Inside a transaction of `db` that reads."""
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
        """Whether nothing has changed since. Inside a transaction that writes, and before it
        does."""
        return db is self._connection and _age(db) == self._age

    def moved_in(self, db: sqlite3.Connection, table: SearchTable) -> bool:
        """Move the index of a table that is empty in, if it could be made. The caller's connection
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
            f"SELECT m.id, {table.text} FROM source.messages m WHERE {STAYING} ORDER BY m.id",  # noqa: S608 - text of a known trigger
            database,
            (chosen,),
        )

    def _path(self, table: SearchTable) -> Path:
        return self._folder / _NAMES.replace("*", table.name)


def clear(folder: Path) -> None:
    """Remove what a killed run left."""
    for path in folder.glob(_NAMES):
        search_parts.dropped(path)


def _age(db: sqlite3.Connection) -> tuple[int, int]:
    """Changes when another connection commits, or when this one writes anything."""
    return pragma(db, "data_version"), db.total_changes
