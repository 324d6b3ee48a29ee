"""The reading half of a session store in SQL, for our own stores and those of agents."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from holdfast.errors import UnknownSessionError
from holdfast.model.arguments import MOST_NAMED, check_id, named
from holdfast.model.item import Problem
from holdfast.model.opening import LOOKED_AT, opening_of
from holdfast.model.session import Message, Session, SessionFilter, SessionOrder, Tokens
from holdfast.policy.prices import Price, Prices
from holdfast.stores.sessions.messages import Pages, paged
from holdfast.stores.sessions.session_rows import (
    LARGEST,
    LAST_ACTIVE,
    order,
    page,
    tables,
    where,
    within_64_bits,
)
from holdfast.stores.sqlite.database import Database


class SqlSessions:
    """The sessions `s` of `_tables`, under our column names. Each read sees everything committed
    before it, and totals are kept with each message: there is nothing to refresh or to count."""

    database: Database
    keeps_usage = True

    # --- How a store spells its rows --------------------------------------------------------------

    def _tables(self, wanted: SessionFilter) -> str:
        return tables(wanted)

    def _where(self, wanted: SessionFilter) -> tuple[str, list[Any]]:
        return where(wanted)

    def _found(
        self, db: sqlite3.Connection, chosen: str, by: str, parameters: Sequence[Any]
    ) -> list[Session]:
        """The sessions whose numbers the query `chosen` returns, in the order `by`."""
        raise NotImplementedError

    def _pages(self, session_id: str, *, newest_first: bool) -> Pages:
        """A function that reads the messages of a session page by page."""
        raise NotImplementedError

    def _message(self, row: Sequence[Any]) -> Message:
        raise NotImplementedError

    def _check_id(self, text: str) -> str:
        return check_id(text)

    def _unknown(self, session_id: str) -> UnknownSessionError:
        hint = "`holdfast sessions list` shows them."
        return UnknownSessionError(f"There is no session {session_id!r}.", hint=hint)

    # --- Reading ----------------------------------------------------------------------------------

    def transaction(self) -> AbstractContextManager[object]:
        """Several calls as one transaction: all of them take effect, or none."""
        return self.database.write()

    def resolve(self, prefix: str) -> str:
        """The id that is `prefix`, or the only one that starts with it; the error lists ambiguous
        ones."""
        wanted = SessionFilter(id_prefix=self._check_id(prefix))
        condition, parameters = self._where(wanted)
        with self.database.read() as db:
            rows = db.execute(
                f"""
                SELECT s.id, count(*) OVER () FROM {self._tables(wanted)} WHERE {condition}
                ORDER BY s.id = ? DESC, {LAST_ACTIVE} DESC, s.id LIMIT ?
                """,  # noqa: S608 - no user text
                (*parameters, prefix, MOST_NAMED),
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
        condition, parameters = self._where(wanted)
        with self.database.read() as db:
            by = order(order_by, set_prices(db, prices) if prices else None)
            # The numbers first: joins are then made only for the sessions of this page.
            chosen = (
                f"SELECT s.number FROM {self._tables(wanted)} "  # noqa: S608 - no user text
                f"WHERE {condition} ORDER BY {by} LIMIT ? OFFSET ?"
            )
            return self._found(db, chosen, by, [*parameters, *page(limit, offset)])

    def routed(self, key: str) -> Session | None:
        """The session that a routing key points to now."""
        found = self.find(SessionFilter(routing_key=key), limit=1)
        return found[0] if found else None

    def count(self, wanted: SessionFilter) -> int:
        condition, parameters = self._where(wanted)
        with self.database.read() as db:
            [number] = db.execute(
                f"SELECT count(*) FROM {self._tables(wanted)} WHERE {condition}",  # noqa: S608 - no user text
                parameters,
            ).fetchone()
        return int(number)

    def sources(self) -> Sequence[str]:
        table = self._tables(SessionFilter())
        with self.database.read() as db:
            rows = db.execute(f"SELECT DISTINCT s.source FROM {table} ORDER BY s.source")  # noqa: S608 - our own names
            return [source for (source,) in rows]

    def folders(self) -> Mapping[str, str]:
        table = self._tables(SessionFilter())
        with self.database.read() as db:
            rows = db.execute(f"SELECT s.id, s.cwd FROM {table} WHERE s.cwd <> ''")  # noqa: S608 - our own names
            return dict(rows.fetchall())

    def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Message]:
        rows = paged(
            self._pages(session_id, newest_first=newest_first),
            after=within_64_bits(after),
            before=within_64_bits(LARGEST if before is None else before),
            limit=limit,
            newest_first=newest_first,
        )
        return map(self._message, rows)

    def openings(self, ids: Sequence[str]) -> Mapping[str, str]:
        return {each: opening_of(self.messages(each, limit=LOOKED_AT)) for each in ids}

    def count_messages(self) -> None: ...

    def refresh(self) -> None: ...

    def unlisted(self) -> Sequence[Problem]:
        return ()

    def unsearched(self) -> Sequence[Problem]:
        return ()


def set_prices(db: sqlite3.Connection, prices: Prices) -> str:
    """An SQL expression for the cost of a session at these prices; valid for this connection until
    the next call. An unknown cost counts as 0: a sort order has no place for it."""
    of_model: dict[str | None, Price | None] = {}

    def priced(model: str | None, tokens_in: int, tokens_out: int, cached: int) -> float:
        if model not in of_model:
            of_model[model] = prices.of(model)
        price = of_model[model]
        tokens = Tokens(input=tokens_in, output=tokens_out, cached=cached)
        return 0.0 if price is None else price.cost_of(tokens)

    db.create_function("priced", 4, priced)
    unpriced = "s.unpriced_in, s.unpriced_out, s.unpriced_cached"
    any_of_it = unpriced.replace(",", " +")
    return f"(s.cost + CASE WHEN {any_of_it} = 0 THEN 0 ELSE priced(s.model, {unpriced}) END)"
