"""A store in PostgreSQL as the source or the target of a complete copy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import psycopg
from psycopg import sql

from holdfast.errors import BusyError
from holdfast.stores.postgres import address, schema, search_index
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.failure import as_ours
from holdfast.stores.postgres.ledger import SUMS
from holdfast.stores.postgres.operation_log import LOCK
from holdfast.stores.sessions.session_rows import GUARDED_COLUMNS, LEASE_COLUMNS, SESSION_COLUMNS
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

_AT_ONCE = 2_000
_PRINT = (
    "SELECT count(*), sum(message_count), max(last_active_at), count(*) FILTER (WHERE pinned), "
    "count(ended_at), (SELECT max(number) FROM messages) FROM sessions"
)
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _End:
    """A store, with a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._count = 0
        self.place = address.shown(url)
        with contextlib.closing(Database(url)) as database:
            schema.check(database)
        with as_ours(self.place):
            self._db = psycopg.connect(address.conninfo(url), autocommit=True)
            self._db.execute("SET search_path = holdfast, pg_catalog")

    def close(self) -> None:
        self._db.close()

    def heads(self) -> Iterator[Head]:
        columns = ", ".join(SESSION_COLUMNS)
        for row in self._all(f"SELECT number, {columns} FROM sessions ORDER BY number"):  # noqa: S608
            yield head(row)

    def messages(self, sessions: Sequence[int] | None = None) -> Iterator[MessageRow]:
        columns = ", ".join(MESSAGE_COLUMNS)
        condition = "true" if sessions is None else "session = ANY(%s::bigint[])"
        values = () if sessions is None else (list(sessions),)
        statement = f"SELECT {columns} FROM messages WHERE {condition} ORDER BY session, number"  # noqa: S608
        return cast("Iterator[MessageRow]", self._all(statement, *values))

    def beside(self) -> Beside:
        def rows(table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
            return list(self._all(f"SELECT {', '.join(columns)} FROM {table}"))  # noqa: S608

        return beside(
            self._all("SELECT number, parent FROM sessions WHERE parent IS NOT NULL ORDER BY 1"),
            rows("routes", ("key", "session")),
            rows("leases", LEASE_COLUMNS),
            rows("guarded", GUARDED_COLUMNS),
            self._all(
                f"SELECT day, source, model, {SUMS} FROM ledger GROUP BY 1, 2, 3"  # noqa: S608
            ),
        )

    def filled_from(self) -> str | None:
        found = list(self._all("SELECT value FROM facts WHERE name = %s", FILLED_FROM))
        return str(found[0][0]) if found else None

    def _within(self) -> AbstractContextManager[object]:
        """The transaction that a server-side cursor needs."""
        return self._db.transaction()

    def _all(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows in batches: a store does not fit into memory."""
        self._count += 1  # several cursors may be open at once
        name = f"holdfast_copy_{self._count}"
        with as_ours(self.place), self._within(), self._db.cursor(name=name) as rows:
            rows.itersize = _AT_ONCE
            rows.execute(statement, values)
            yield from rows


class PostgresSource(_End):
    """A snapshot of a store."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._db.execute(_SNAPSHOT)
        self._print = self._db.execute(_PRINT).fetchone()

    def has_changed(self) -> bool:
        with as_ours(self.place):
            self._db.execute("ROLLBACK")
            self._db.execute(_SNAPSHOT)
            return self._db.execute(_PRINT).fetchone() != self._print

    def _within(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()  # the whole copy is one transaction


class PostgresTarget(_End):
    """A store that is being filled. No other process changes it meanwhile."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        with as_ours(self.place):
            if self._db.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone() != (True,):
                self._db.close()
                raise BusyError(
                    f"Another process is changing {self.place}.",
                    hint="Wait until it has finished, then try again.",
                )

    def has_changed(self) -> bool:
        return False

    def begin(self, source: str) -> None:
        with as_ours(self.place):
            self._db.execute(
                "INSERT INTO facts (name, value) VALUES (%s, %s)", (FILLED_FROM, source)
            )

    def put(self, heads: Sequence[Head], messages: Iterable[MessageRow]) -> None:
        numbers = [each[0] for each in heads]
        with as_ours(self.place), self._db.transaction():
            self._drop(numbers)
            self._copy("sessions", ("number", *SESSION_COLUMNS), heads)
            self._copy("messages", MESSAGE_COLUMNS, messages)
            self._db.execute(
                "INSERT INTO unindexed (message, session) SELECT number, session FROM messages "
                "WHERE session = ANY(%s::bigint[])",
                (numbers,),
            )

    def drop(self, sessions: Sequence[int]) -> None:
        with as_ours(self.place), self._db.transaction():
            self._drop(sessions)

    def put_beside(self, beside: Beside) -> None:
        with as_ours(self.place), self._db.transaction():
            for table in ("routes", "leases", "guarded", "ledger"):
                self._db.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            self._db.execute("UPDATE sessions SET parent = NULL WHERE parent IS NOT NULL")
            self._db.execute(
                "UPDATE sessions s SET parent = g.parent "
                "FROM unnest(%s::bigint[], %s::bigint[]) AS g (number, parent) "
                "WHERE s.number = g.number",
                ([child for child, _ in beside.parents], [parent for _, parent in beside.parents]),
            )
            self._copy("routes", ("key", "session"), beside.routes)
            self._copy("leases", LEASE_COLUMNS, beside.leases)
            self._copy("guarded", GUARDED_COLUMNS, beside.guarded)
            self._copy("ledger", (*LEDGER_COLUMNS, "shard"), [(*row, 0) for row in beside.ledger])

    def finish(self) -> None:
        with as_ours(self.place), self._db.transaction():
            for table in ("sessions", "messages"):
                self._count_on(table)
            self._db.execute("DELETE FROM facts WHERE name = %s", (FILLED_FROM,))

    def index(self) -> Iterator[int]:
        with contextlib.closing(Database(self._url)) as database:
            [[left]] = database.query("SELECT count(*) FROM unindexed").rows
            while search_index.catch_up(database):
                left -= 2 * search_index.BATCH
                yield max(0, left)

    def _count_on(self, table: str) -> None:
        """Advance the sequence, which rows inserted with numbers do not. Setting it needs a right
        that daily work does without, so it is advanced by counting."""
        self._db.execute(
            sql.SQL(
                """
                WITH next AS (
                    SELECT nextval(pg_get_serial_sequence({name}, 'number')) AS at
                )
                SELECT count(nextval(pg_get_serial_sequence({name}, 'number')))
                FROM generate_series(
                    (SELECT at FROM next) + 1, (SELECT max(number) FROM {table}))
                """
            ).format(name=sql.Literal(f"holdfast.{table}"), table=sql.Identifier(table))
        )

    def _drop(self, numbers: Sequence[int]) -> None:
        for table, column in (
            ("unindexed", "session"),
            ("message_words", "session"),
            ("messages", "session"),
            ("sessions", "number"),
        ):
            self._db.execute(
                sql.SQL("DELETE FROM {} WHERE {} = ANY(%s::bigint[])").format(
                    sql.Identifier(table), sql.Identifier(column)
                ),
                (list(numbers),),
            )

    def _copy(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
            sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with self._db.cursor() as cursor, cursor.copy(statement) as copying:
            for row in rows:
                copying.write_row(row)
