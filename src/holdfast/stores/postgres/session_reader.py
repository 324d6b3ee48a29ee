"""Reading sessions and their messages in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.errors import UnknownSessionError
from holdfast.model.arguments import MOST_NAMED, check_id, named, unknown_session
from holdfast.model.item import Problem
from holdfast.model.opening import LOOKED_AT, opening_of
from holdfast.model.session import (
    Hit,
    Message,
    Relation,
    Search,
    Session,
    SessionFilter,
    SessionOrder,
)
from holdfast.model.usage import Share, StoreStats, UsageEntry
from holdfast.policy.prices import Prices
from holdfast.stores.postgres import ledger, search, survey
from holdfast.stores.postgres import messages as message_rows
from holdfast.stores.postgres.database import Database, Db
from holdfast.stores.postgres.rows import (
    COLUMNS,
    LAST_ACTIVE,
    SPELLED,
    TABLES,
    page,
    priced,
    tables,
    where,
)
from holdfast.stores.sessions import content
from holdfast.stores.sessions import messages as pure
from holdfast.stores.sessions.content import storable
from holdfast.stores.sessions.session_rows import LARGEST, order, session, within_64_bits

ONE = f"SELECT s.number, {COLUMNS} FROM {TABLES} WHERE s.id = %s"  # noqa: S608 - our own names
#: Delegates of sessions, and their delegates. UNION drops rows already found, so a cycle ends.
_DELEGATES = """
    WITH RECURSIVE masters (number) AS (
        SELECT number FROM sessions WHERE id = ANY(%(ids)s::text[])
        UNION
        SELECT s.number FROM sessions s JOIN masters m ON s.parent = m.number
        WHERE s.relation = %(relation)s
    )
    SELECT s.id FROM sessions s JOIN masters USING (number)
    WHERE s.id <> ALL(%(ids)s::text[]) ORDER BY s.number
"""


class PostgresSessionReader:
    """Every call is a read of its own, or part of the caller's transaction. In a write transaction
    it locks the rows of the sessions that it reads."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def get(self, session_id: str) -> Session:
        if self.database.is_writing:
            with self.database.write() as db:
                return self._numbered(db, session_id)[1]
        row = self.database.query(ONE, [storable(session_id)]).first
        if row is None:
            raise self._unknown(session_id)
        return session(row[1:])

    def resolve(self, prefix: str) -> str:
        """The id that is `prefix`, or the only one that starts with it; the error lists ambiguous
        ones."""
        wanted = SessionFilter(id_prefix=check_id(prefix))
        condition, values = where(wanted)
        rows = self.database.query(
            f"""
            SELECT s.id, count(*) OVER () FROM {tables(wanted)} WHERE {condition}
            ORDER BY s.id = %s DESC, {LAST_ACTIVE} DESC, s.id LIMIT %s
            """,  # noqa: S608 - no user text
            (*values, prefix, MOST_NAMED),
        ).rows
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
        condition, values = where(wanted)
        cost = None
        if prices is not None and order_by is SessionOrder.COST:
            with self.database.read() as db:
                cost = priced(db, prices)
        by = order(order_by, cost, SPELLED)
        # The numbers first: joins are then made only for the sessions of this page.
        rows = self.database.query(
            f"""
            SELECT {COLUMNS}
            FROM unnest(ARRAY(
                SELECT s.number FROM {tables(wanted)} WHERE {condition} ORDER BY {by}
                LIMIT %s OFFSET %s
            )) WITH ORDINALITY AS chosen (number, place)
            JOIN ({TABLES}) ON s.number = chosen.number ORDER BY chosen.place
            """,  # noqa: S608 - no user text
            [*values, *page(limit, offset)],
        )
        return [session(row) for row in rows]

    def routed(self, key: str) -> Session | None:
        """The session that a routing key points to now. Within a write transaction, no other
        process can point the key to another session until it ends."""
        if self.database.is_writing:
            with self.database.write() as db:
                self._lock_key(db, key)
        found = self.find(SessionFilter(routing_key=key), limit=1)
        return found[0] if found else None

    def count(self, wanted: SessionFilter) -> int:
        condition, values = where(wanted)
        [[number]] = self.database.query(
            f"SELECT count(*) FROM {tables(wanted)} WHERE {condition}",  # noqa: S608 - no user text
            values,
        ).rows
        return int(number)

    def sources(self) -> Sequence[str]:
        rows = self.database.query("SELECT DISTINCT source FROM sessions ORDER BY source")
        return [source for (source,) in rows]

    def folders(self) -> Mapping[str, str]:
        return dict(self.database.query("SELECT id, cwd FROM sessions WHERE cwd <> ''").rows)

    def delegates_of(self, ids: Sequence[str]) -> Sequence[str]:
        with self.database.read() as db:
            rows = db.execute(
                _DELEGATES,
                {"ids": [storable(each) for each in ids], "relation": Relation.DELEGATE.value},
            )
            return [name for (name,) in rows]

    def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Message]:
        with self.database.read() as db:
            number, _, _ = self._row(db, session_id)

        def read(after: int, before: int, most: int) -> Sequence[Sequence[Any]]:
            return message_rows.page(
                self.database, number, after, before, most, newest_first=newest_first
            )

        rows = pure.paged(
            read,
            after=within_64_bits(after),
            before=within_64_bits(LARGEST if before is None else before),
            limit=limit,
            newest_first=newest_first,
        )
        return (content.decode(*row) for row in rows)

    def openings(self, ids: Sequence[str]) -> Mapping[str, str]:
        return {each: opening_of(self.messages(each, limit=LOOKED_AT)) for each in ids}

    def search(self, asked: Search) -> Sequence[Hit]:
        return search.search(self.database, asked)

    def close_words(self, text: str) -> Sequence[str]:
        return search.suggestion(self.database, text)

    def unlisted(self) -> Sequence[Problem]:
        return ()

    def unsearched(self) -> Sequence[Problem]:
        return ()

    def weigh(self, wanted: SessionFilter) -> Share:
        """How many sessions match, and their share of the tables."""
        return survey.weigh(self.database, wanted)

    def statistics(self, *, now: float, ages: Sequence[tuple[str, float]]) -> StoreStats:
        return survey.statistics(self.database, now=now, ages=ages)

    def usage_entries(self, *, on: float | None = None) -> Sequence[UsageEntry]:
        with self.database.read() as db:
            return ledger.entries(db, on)

    def count_messages(self) -> None: ...

    def refresh(self) -> None: ...

    # --- Rows -------------------------------------------------------------------------------------

    def _lock_key(self, db: Db, key: str) -> None:
        db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", (key,))

    def _row(self, db: Db, session_id: str) -> tuple[int, float | None, float]:
        lock = " FOR UPDATE" if db.writing else ""
        row = db.execute(
            f"SELECT number, ended_at, last_active_at FROM sessions WHERE id = %s{lock}",  # noqa: S608
            (storable(session_id),),
        ).first
        if row is None:
            raise self._unknown(session_id)
        return row[0], row[1], row[2]

    def _numbered(self, db: Db, session_id: str) -> tuple[int, Session]:
        if db.writing:
            # Lock first: a statement that waited for a lock sees the new version of the locked row,
            # but rows joined to it as they were before.
            self._row(db, session_id)
        row = db.execute(ONE, (storable(session_id),)).first
        if row is None:
            raise self._unknown(session_id)
        return row[0], session(row[1:])

    def _unknown(self, session_id: str) -> UnknownSessionError:
        return unknown_session(session_id, self._beginning)

    def _beginning(self, prefix: str) -> Sequence[str]:
        beginning = storable(prefix) or ""
        rows = self.database.query(
            "SELECT id FROM sessions WHERE lower(substr(id, 1, %s)) = lower(%s) "
            "ORDER BY id LIMIT 2",
            (len(beginning), beginning),
        ).rows
        return [str(name) for (name,) in rows]
