"""All sessions of a store, or all but a few, leave in one short step.

A row that is deleted leaves every index of its table, one by one: 240 ms for 100,000 messages.
Where no row is to stay, SQLite gives back the pages of a table as they are: 26 ms. So the few rows
that stay are set aside, the tables are emptied, and they return, all in one transaction.

Foreign keys would make SQLite look at each row after all. Without them it is up to us what becomes
of rows that refer to a session: which tables have such rows, the schema says.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from holdfast.stores.sessions.session_rows import AMONG
from holdfast.stores.sqlite import search_index

#: A page takes 1.5 µs. Other writers wait for less than a tenth of a second, on a busy machine too.
_MOST_BYTES = 160 * 1024 * 1024
#: Rows that stay are written again, with their place in every index.
_MOST_STAY = 2_000
#: What is announced together is one line of the log.
_MOST_SESSIONS = 10_000


def is_short(sessions: int, used_bytes: int, staying: float) -> bool:
    """Whether that many sessions can leave a store of this size in one step, with about so many
    messages `staying`."""
    return sessions <= _MOST_SESSIONS and used_bytes <= _MOST_BYTES and staying <= _MOST_STAY


def delete(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Delete sessions and everything that belongs to them. Inside a write transaction without
    foreign keys; children that stay know by now which parents they lose."""
    search_index.forget(db, numbers)  # the reference before the data
    for table, column in (*_belonging(db), ("sessions", "number")):
        _keep_others(db, table, column, json.dumps(numbers))
    db.execute(
        "UPDATE sessions SET parent = NULL"
        " WHERE parent IS NOT NULL AND parent NOT IN (SELECT number FROM sessions)"
    )


def _belonging(db: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """The tables whose rows go with a session, each with its column of sessions."""
    yield from db.execute(
        """
        SELECT t.name, f."from" FROM sqlite_schema t JOIN pragma_foreign_key_list(t.name) f
        WHERE t.type = 'table' AND f."table" = 'sessions' AND f.on_delete = 'CASCADE'
        """
    ).fetchall()


def _keep_others(db: sqlite3.Connection, table: str, column: str, leaving: str) -> None:
    """Empty a table but for the rows of other sessions, those included that are not there."""
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
