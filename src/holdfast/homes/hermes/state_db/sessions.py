"""Hermes's sessions as a session store. Everything can be read; of writes, only titles and removals
are supported. Hermes writes its sessions itself, so all other writes are refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import UsageError
from holdfast.homes.hermes.state_db import search, survey, values
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.rows import Row, sessions_table, where
from holdfast.homes.hermes.state_db.usage import UsageLedger
from holdfast.model.arguments import check_foreign_id
from holdfast.model.plan import Action
from holdfast.model.session import (
    Hit,
    Message,
    Search,
    Session,
    SessionFilter,
)
from holdfast.model.usage import Share, StoreStats, UsageEntry
from holdfast.stores.sessions.messages import Pages
from holdfast.stores.sqlite.foreign import dicts
from holdfast.stores.sqlite.mirror import ForeignSessions
from holdfast.stores.sqlite.sql_sessions import SqlSessions


class HermesSessionStore(ForeignSessions, SqlSessions):
    """The sessions in one `state.db`."""

    deletes_every_delegate = True
    edits = frozenset({Action.RENAME})
    database: HermesDatabase

    def __init__(self, path: Path, state: Path) -> None:
        super().__init__("Hermes")
        self.database = HermesDatabase(path)
        self.ledger = UsageLedger(state)

    def close(self) -> None:
        self.database.close()

    # --- Reading ----------------------------------------------------------------------------------

    def get(self, session_id: str) -> Session:
        found = self.find(SessionFilter(ids=(session_id,)))
        if not found:
            raise self._unknown(session_id)
        return found[0]

    def _tables(self, wanted: SessionFilter) -> str:
        return sessions_table(self.database.schema)

    def _where(self, wanted: SessionFilter) -> tuple[str, list[Any]]:
        return where(wanted)

    def _check_id(self, text: str) -> str:
        return check_foreign_id(text)

    def _found(
        self, db: sqlite3.Connection, chosen: str, by: str, parameters: Sequence[Any]
    ) -> list[Session]:
        return self.read(db, [number for (number,) in db.execute(chosen, parameters)])

    def read(
        self, db: sqlite3.Connection, numbers: Sequence[int], *, whole: bool = False
    ) -> list[Session]:
        """Sessions by their rowids, in that order."""
        chosen = (json.dumps(numbers),)
        among = "IN (SELECT value FROM json_each(?))"
        table = sessions_table(self.database.schema)
        rows = dicts(
            db.execute(f"SELECT s.*, r.key FROM {table} WHERE s.number {among}", chosen)  # noqa: S608 - no user text
        )
        raw = dicts(
            db.execute(
                f"SELECT rowid AS holdfast_number, * FROM sessions WHERE rowid {among}",  # noqa: S608 - no user text
                chosen,
            )
        )
        raw_rows = {row.pop("holdfast_number"): row for row in raw}
        by_number = {
            row["number"]: values.session(row, raw_rows[row["number"]], whole=whole) for row in rows
        }
        return [by_number[number] for number in numbers]

    def delegates_of(self, ids: Sequence[str]) -> Sequence[str]:
        """As in Hermes: by its mark, regardless of the parent and the source of the session."""
        with self.database.read() as db:
            rows = db.execute(
                f"SELECT s.id, s.model_config FROM {sessions_table(self.database.schema)} "  # noqa: S608 - our own names
                f"WHERE instr(s.model_config, ?)",
                (values.DELEGATE_MARK,),
            )
            masters = {name: values.delegated_by(config) for name, config in rows}
        found, waiting = dict.fromkeys(ids), list(ids)
        while waiting:
            master = waiting.pop()
            new = [name for name, by in masters.items() if by == master and name not in found]
            found |= dict.fromkeys(new)
            waiting += new
        return list(found)[len(dict.fromkeys(ids)) :]

    def _pages(self, session_id: str, *, newest_first: bool) -> Pages:
        self._need(session_id)
        order = "DESC" if newest_first else "ASC"

        def read(after: int, before: int, most: int) -> Sequence[tuple[int, Row]]:
            with self.database.read() as db:
                rows = db.execute(
                    # `+id` makes SQLite use the index by session; by id it would read every
                    # message.
                    "SELECT * FROM messages WHERE session_id = ? AND +id > ? AND +id < ? "  # noqa: S608 - our own text
                    f"ORDER BY +id {order} LIMIT ?",
                    (session_id, after, before, most),
                )
                return [(row["id"], row) for row in dicts(rows)]

        return read

    def _message(self, row: Sequence[Any]) -> Message:
        return values.message(row[1])

    def search(self, asked: Search) -> Sequence[Hit]:
        with self.database.read() as db:
            rows = search.found(db, self.database.schema, asked)
            names = sorted({name for _, name, *_ in rows})
            numbers = [
                number
                for (number,) in db.execute(
                    "SELECT rowid FROM sessions WHERE id IN (SELECT value FROM json_each(?))",
                    (json.dumps(names),),
                )
            ]
            sessions = {each.id: each for each in self.read(db, numbers)}
            return search.hits(db, [row for row in rows if row[1] in sessions], sessions)

    def close_words(self, text: str) -> Sequence[str]:
        return ()

    def weigh(self, wanted: SessionFilter) -> Share:
        return survey.weigh(self.database, wanted)

    def statistics(self, *, now: float, ages: Sequence[tuple[str, float]]) -> StoreStats:
        return survey.statistics(self.database, now=now, ages=ages)

    def usage_entries(self, *, on: float | None = None) -> Sequence[UsageEntry]:
        with self.database.read() as db:
            return self.ledger.entries(db, self.database.schema, on=on)

    # --- Writing ----------------------------------------------------------------------------------

    def as_title(self, title: str | None) -> str | None:
        return values.clean_title(title)

    def rename(self, session_id: str, title: str | None) -> Session:
        """Titles are unique in Hermes, and must follow its rules."""
        title = values.clean_title(title)
        with self.database.write() as db:
            taken = db.execute(
                "SELECT id FROM sessions WHERE title = ? AND id != ?", (title, session_id)
            ).fetchone()
            if taken:
                raise UsageError(
                    f"Session {taken[0]} already has this title; titles are unique in Hermes."
                )
            changed = db.execute(
                "UPDATE sessions SET title = ? WHERE id = ?", (title, session_id)
            ).rowcount
        if not changed:
            raise self._unknown(session_id)
        return self.get(session_id)

    # --- Helpers ----------------------------------------------------------------------------------

    def _need(self, session_id: str) -> None:
        with self.database.read() as db:
            there = db.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if there is None:
            raise self._unknown(session_id)
