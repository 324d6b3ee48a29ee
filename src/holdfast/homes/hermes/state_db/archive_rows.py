"""Hermes's sessions on their way into the archive, and back: all rows that belong to them.

The line of a session in its bundle can be imported into a Holdfast home. Its extra fields hold the
values that only Hermes has, which is enough to restore the rows exactly.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import DamageError, UsageError
from holdfast.homes.archive.session_rows import RowsOut
from holdfast.homes.hermes.state_db import moves, values
from holdfast.homes.hermes.state_db.moves import HermesEngine
from holdfast.homes.hermes.state_db.sessions import HermesSessionStore
from holdfast.model.session import Json, Session
from holdfast.services.exchange.json_lines import ByteLines, raw_lines
from holdfast.services.exchange.line_reader import ReadSession, read_session
from holdfast.stores.archive.bundle_manifest import BundleManifest
from holdfast.stores.sessions.session_rows import AMONG
from holdfast.stores.sqlite.bundle import quoted
from holdfast.stores.sqlite.foreign import dicts
from holdfast.value import replace

#: Extra fields of a line: rows of other tables, and the columns of the tables.
_TABLES = "hermes_tables"
_COLUMNS = "hermes_columns"
_NUMBER = "hermes_number"


class HermesRows(RowsOut):
    """The rows of one Hermes home."""

    def __init__(self, store: HermesSessionStore, engine: HermesEngine) -> None:
        super().__init__(store, engine)
        self._hermes = engine
        self._store = store

    def read(self, ids: Sequence[str]) -> Mapping[str, Session]:
        with self._store.database.read() as db:
            rows = db.execute(f"SELECT rowid FROM sessions WHERE id {AMONG}", (json.dumps(ids),))  # noqa: S608 - our own text
            numbers = [number for (number,) in rows]
            sessions = self._store.read(db, numbers, whole=True)
            return {
                each.id: self._with_tables(db, number, each)
                for number, each in zip(numbers, sessions, strict=True)
            }

    def put_back(self, manifest: BundleManifest, line: ByteLines) -> str:
        wanted = manifest.session
        read = _read(line)
        if read.session.id != wanted.id:
            raise DamageError("its line holds another session")
        with self._store.database.write() as db:
            other = moves.title_holder(db, wanted.title)
            if other is not None:
                raise UsageError(f"session {other} has its title now; rename that one first")
            self._insert(db, read, wanted)
            parents = {} if wanted.parent_id is None else {wanted.id: wanted.parent_id}
            self._hermes.relate(parents, {wanted.id: list(manifest.children)})
            if not _is_as_archived(self._store.get(wanted.id), wanted, read):
                raise DamageError("its line does not match its record")
        return ""

    def _with_tables(self, db: sqlite3.Connection, number: int, session: Session) -> Session:
        schema = self._store.database.schema
        tables: dict[str, Json] = {}
        for table in schema.belonging:
            if table != "messages":
                rows = dicts(
                    db.execute(
                        f"SELECT rowid AS {_NUMBER}, * FROM {quoted(table)} WHERE session_id = ?",  # noqa: S608 - quoted name
                        (session.id,),
                    )
                )
                tables[table] = [
                    {name: values.to_json(value) for name, value in row.items()} for row in rows
                ]
        columns: dict[str, Json] = {
            table: list(schema.columns[table]) for table in ("sessions", "messages")
        }
        more: dict[str, Json] = {_TABLES: tables, _COLUMNS: columns, _NUMBER: number}
        return replace(session, extra={**session.extra, **more})

    def _insert(self, db: sqlite3.Connection, read: ReadSession, wanted: Session) -> None:
        extra = read.session.extra
        columns = _mapping(extra.get(_COLUMNS))
        row = _row(columns.get("sessions"), _mapping(extra.get(values.EXTRA)))
        if row.get("ended_at") is None:  # older versions archived open sessions with a new end
            row |= {"ended_at": wanted.ended_at, "end_reason": wanted.end_reason}
        schema = self._store.database.schema
        number = extra.get(_NUMBER)
        place = number if isinstance(number, int) else 0
        moves.insert(db, schema, "sessions", place, row | {"parent_session_id": None})
        for message in read.messages or ():
            each = values.message_row(message) | {"session_id": wanted.id}
            whole = _row(columns.get("messages"), each)
            moves.insert(db, schema, "messages", int(whole["id"]), whole)
        for table, rows in _mapping(extra.get(_TABLES)).items():
            if table in schema.belonging and isinstance(rows, list):
                for side in map(_mapping, rows):
                    number = side.pop(_NUMBER, 0)
                    moves.insert(db, schema, table, number, _row(list(side), side))


def _is_as_archived(back: Session, wanted: Session, read: ReadSession) -> bool:
    """Compare with both counts: bundles of older versions also count messages that were taken
    back."""
    stored = replace(back, message_count=len(read.messages or ()))
    return wanted.version in (back.version, stored.version)


def _read(line: ByteLines) -> ReadSession:
    for raw in raw_lines(line):
        return read_session(raw.text(), keep=True, foreign=True)
    raise DamageError("its line is empty")


def _row(columns: object, kept: Mapping[str, Any]) -> dict[str, Any]:
    """All columns of the original table; those without a kept value are NULL."""
    names = columns if isinstance(columns, list) else list(kept)
    return {str(name): values.from_json(kept.get(str(name))) for name in names}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
