"""The sessions of Hermes as a session store. Everything can be read; only titles and removals are
written. Hermes writes its sessions itself, so all other writes are refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.errors import UnknownSessionError, UsageError
from holdfast.homes.hermes.state_db import search, survey, values
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.rows import Row, dicts, sessions_table, where
from holdfast.homes.hermes.state_db.usage import UsageLedger
from holdfast.model.arguments import MOST_NAMED, named
from holdfast.model.opening import LOOKED_AT, opening_of
from holdfast.model.plan import Action
from holdfast.model.session import (
    Hit,
    Message,
    Search,
    Session,
    SessionFilter,
    SessionOrder,
)
from holdfast.model.usage import Share, StoreStats, UsageEntry
from holdfast.policy.prices import Prices
from holdfast.stores.sqlite.messages import paged
from holdfast.stores.sqlite.mirror import ForeignSessions
from holdfast.stores.sqlite.session_rows import LARGEST, order, page, set_prices, within_64_bits

_LONGEST_ID = 300


class HermesSessionStore(ForeignSessions):
    """The sessions in one `state.db`."""

    deletes_every_delegate = True
    keeps_usage = True
    edits = frozenset({Action.RENAME})

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

    def resolve(self, prefix: str) -> str:
        """The id that is `prefix`, or the only one that starts with it. An error lists several."""
        if not prefix or len(prefix) > _LONGEST_ID or not prefix.isprintable():
            raise UsageError(f"{prefix[:_LONGEST_ID]!r} is not a session id.")
        with self.database.read() as db:
            rows = db.execute(
                f"""
                SELECT s.id, count(*) OVER () FROM {sessions_table(self.database.schema)}
                WHERE substr(s.id, 1, ?) = ? ORDER BY s.id = ? DESC, s.last_active_at DESC LIMIT ?
                """,  # noqa: S608 - our own names
                (len(prefix), prefix, prefix, MOST_NAMED),
            ).fetchall()
        total = rows[0][1] if rows else 0
        return named(prefix, [found for found, _ in rows], self._unknown(prefix), total=total)

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
    ) -> Sequence[Session]:
        condition, parameters = where(wanted)
        with self.database.read() as db:
            table = sessions_table(self.database.schema)
            by = order(order_by, set_prices(db, prices) if prices else None)
            numbers = [
                number
                for (number,) in db.execute(
                    f"SELECT s.number FROM {table} WHERE {condition} "  # noqa: S608 - no user text
                    f"ORDER BY {by} LIMIT ? OFFSET ?",
                    [*parameters, *page(limit, offset)],
                )
            ]
            return self.read(db, numbers)

    def read(
        self, db: sqlite3.Connection, numbers: Sequence[int], *, whole: bool = False
    ) -> list[Session]:
        """Sessions by the numbers of their rows, in that order."""
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

    def count(self, wanted: SessionFilter) -> int:
        condition, parameters = where(wanted)
        with self.database.read() as db:
            [number] = db.execute(
                f"SELECT count(*) FROM {sessions_table(self.database.schema)} WHERE {condition}",  # noqa: S608 - no user text
                parameters,
            ).fetchone()
        return int(number)

    def sources(self) -> Sequence[str]:
        with self.database.read() as db:
            table = sessions_table(self.database.schema)
            rows = db.execute(f"SELECT DISTINCT s.source FROM {table} ORDER BY s.source")  # noqa: S608 - no user text
            return [source for (source,) in rows]

    def delegates_of(self, ids: Sequence[str]) -> Sequence[str]:
        """As in Hermes: by its mark, whatever the parent and the source of the session are."""
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

    def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Message]:
        self._need(session_id)
        order = "DESC" if newest_first else "ASC"

        def read(after: int, before: int, most: int) -> Sequence[Row]:
            with self.database.read() as db:
                return dicts(
                    db.execute(
                        # `+id` keeps the index by session: by id, SQLite would read every message.
                        "SELECT * FROM messages WHERE session_id = ? AND +id > ? AND +id < ? "  # noqa: S608 - our own text
                        f"ORDER BY +id {order} LIMIT ?",
                        (session_id, after, before, most),
                    )
                )

        rows = paged(
            read,
            lambda row: int(row["id"]),
            after=within_64_bits(after),
            before=within_64_bits(LARGEST if before is None else before),
            limit=limit,
            newest_first=newest_first,
        )
        return map(values.message, rows)

    def openings(self, ids: Sequence[str]) -> Mapping[str, str]:
        return {each: opening_of(self.messages(each, limit=LOOKED_AT)) for each in ids}

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

    def transaction(self) -> AbstractContextManager[object]:
        return self.database.write()

    def routed(self, key: str) -> Session | None:
        found = self.find(SessionFilter(routing_key=key), limit=1)
        return found[0] if found else None

    # --- Together ---------------------------------------------------------------------------------

    def _need(self, session_id: str) -> None:
        with self.database.read() as db:
            there = db.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if there is None:
            raise self._unknown(session_id)

    def _unknown(self, session_id: str) -> UnknownSessionError:
        return UnknownSessionError(
            f"There is no session {session_id!r}.", hint="`holdfast sessions list` shows them."
        )
