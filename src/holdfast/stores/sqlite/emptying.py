"""Deletes all sessions of a store, or all but a few, in one short step.

A deleted row leaves every index of its table one by one: 240 ms for 100,000 messages. If no row
stays, SQLite frees the pages of a table without reading them: 26 ms. So the few rows that stay are
set aside, the tables are emptied, and these rows are inserted again, all in one transaction.

Foreign keys would make SQLite look at each row after all. Without them, this module must handle the
rows that refer to a session; the schema says which tables have such rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from holdfast.stores.sessions.session_rows import AMONG
from holdfast.stores.sqlite import search_index

#: A page takes 1.5 µs. Other writers wait less than a tenth of a second, even on a busy machine.
_MOST_BYTES = 160 * 1024 * 1024
#: Rows that stay are written again, with their entries in every index.
_MOST_STAY = 2_000
#: Removals announced together are one line of the log.
_MOST_SESSIONS = 10_000


def is_short(sessions: int, used_bytes: int, staying: float) -> bool:
    """True if that many sessions can leave a store of this size in one step, with about `staying`
    messages left."""
    return sessions <= _MOST_SESSIONS and used_bytes <= _MOST_BYTES and staying <= _MOST_STAY


def delete(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Delete sessions and everything that belongs to them. Call it inside a write transaction
    without foreign keys, once children that stay have noted which parents they lose."""
    search_index.forget(db, numbers)  # the reference before the data
    for table, column in (*_belonging(db), ("sessions", "number")):
        _keep_others(db, table, column, json.dumps(numbers))
    db.execute(
        "UPDATE sessions SET parent = NULL"
        " WHERE parent IS NOT NULL AND parent NOT IN (SELECT number FROM sessions)"
    )


def _belonging(db: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """The tables whose rows go with a session, each with the column that refers to it."""
    yield from db.execute(
        """
        SELECT t.name, f."from" FROM sqlite_schema t JOIN pragma_foreign_key_list(t.name) f
        WHERE t.type = 'table' AND f."table" = 'sessions' AND f.on_delete = 'CASCADE'
        """
    ).fetchall()


def _keep_others(db: sqlite3.Connection, table: str, column: str, leaving: str) -> None:
    """Empty a table except for rows of other sessions, even of sessions that do not exist."""
    db.execute(
        f"""
        CREATE TEMP TABLE staying AS SELECT * FROM main.{table} WHERE {column} IN (
            SELECT {column} FROM (SELECT DISTINCT {column} FROM main.{table})
            WHERE {column} NOT {AMONG})
        """,  # noqa: S608 - names of our schema
        (leaving,),
    )
    db.execute(f"DELETE FROM main.{table}")  # noqa: S608 - see above
    db.execute(f"INSERT INTO main.{table} SELECT * FROM temp.staying")  # noqa: S608 - see above
    db.execute("DROP TABLE temp.staying")
