"""Undo copies of Hermes's sessions: the tables of a bundle, and how text is packed in it.

A bundle has the tables `sessions` and `messages` of our own bundles, so that the code for bundles
is the same for both. Every row has all its columns, under Hermes's names after `h_`. The rows of
other tables are in `raw_<table>`.

Hermes stores text uncompressed. Copies are kept for days and count against the caps, so long text
is packed, which reduces a copy to a third.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.stores.sessions.session_rows import AMONG
from holdfast.stores.sqlite.bundle import FIRST_MESSAGE, CopiedTable, quoted

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SESSIONS, MESSAGES = "sessions", "messages"
#: The prefixes of Hermes's columns, and of its other tables, in a bundle.
PREFIX = "h_"
RAW = "raw_"
#: Shorter text stays readable for any SQLite tool.
_WORTH_PACKING = 512
_LEVEL = 1
#: The first byte of every blob in a copy tells what the rest is.
_TEXT, _BYTES = b"z", b"b"


def copied_tables(schema: Schema) -> Sequence[CopiedTable]:
    index = CopiedTable(
        name=SESSIONS,
        columns=("number", FIRST_MESSAGE, "id", "started_at", "children"),
        query=f"""
            SELECT s.rowid,
                   (SELECT min(m.rowid) FROM store.messages m WHERE m.session_id = s.id),
                   s.id, s.started_at,
                   (SELECT json_group_array(c.id) FROM store.sessions c
                    WHERE c.parent_session_id = s.id)
            FROM store.sessions s WHERE s.rowid {AMONG}
        """,  # noqa: S608 - our own text
        by_rowid=True,
    )
    return [index, *(_table(schema, each) for each in (SESSIONS, *schema.belonging))]


def _table(schema: Schema, table: str) -> CopiedTable:
    columns = schema.columns[table]
    values = [packed(f"s.{quoted(column)}") for column in columns]
    owner = "s.rowid" if table == SESSIONS else "o.rowid"
    join = "" if table == SESSIONS else "JOIN store.sessions o ON o.id = s.session_id"
    return CopiedTable(
        name=table if table == MESSAGES else RAW + table,
        columns=("number", "session", *(PREFIX + column for column in columns)),
        query=f"""
            SELECT s.rowid, {owner}, {", ".join(values)}
            FROM store.{quoted(table)} s {join} WHERE {owner} {AMONG}
        """,  # noqa: S608 - quoted names
        by_rowid=table == MESSAGES,
    )


def copied_rows(
    copies: sqlite3.Connection, table: str, session: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of one session in a table of a bundle, each with its number."""
    cursor = copies.execute(
        f"SELECT * FROM {quoted(table)} WHERE session = ? ORDER BY number",  # noqa: S608 - quoted name
        (session,),
    )
    columns = [column[0].removeprefix(PREFIX) for column in cursor.description[2:]]
    for number, _, *values in cursor:
        yield number, dict(zip(columns, map(unpack, values), strict=True))


# --- Packed text ----------------------------------------------------------------------------------


def packer() -> Callable[[str | bytes], bytes]:
    """Return a function that packs the values of one copy, each as a separate frame, with one
    compressor: creating a compressor takes as long as using it."""
    compressor = zstd.ZstdCompressor(_LEVEL)

    def pack(value: str | bytes) -> bytes:
        if isinstance(value, bytes):
            return _BYTES + value
        return _TEXT + compressor.compress(value.encode(), compressor.FLUSH_FRAME)

    return pack


def packed(value: str) -> str:
    """SQL for a value as it is stored in a copy."""
    is_worth_it = f"typeof({value}) = 'blob' OR length({value}) >= {_WORTH_PACKING}"
    return f"CASE WHEN {is_worth_it} THEN pack({value}) ELSE {value} END"


def unpack(value: Any) -> Any:
    """The original of a value in a copy; raises `zstd.ZstdError` for bytes that `pack` did not
    write."""
    if not isinstance(value, bytes):
        return value
    if value[:1] == _TEXT:
        return zstd.decompress(value[1:]).decode()
    return value[1:]
