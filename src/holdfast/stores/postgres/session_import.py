"""Adding whole sessions to the store, and replacing them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from typing import Self

from holdfast.errors import HoldfastError
from holdfast.model.guard import Guarded
from holdfast.model.session import AWAITED_PARENT, Message, Session
from holdfast.stores.postgres import guard_book, ledger, search_index
from holdfast.stores.postgres.database import Db
from holdfast.stores.postgres.guard_book import number_of
from holdfast.stores.postgres.sessions import PostgresSessionStore, delete, descends
from holdfast.stores.sessions.content import dump_extra, load_extra, storable
from holdfast.value import replace

_APPEND = 500
#: Not a valid id, so no caller can ask for a session that is being replaced.
_LEAVING = "/leaving"


class PostgresImport:
    """One import into a store, entered once. It belongs to one thread."""

    def __init__(
        self,
        store: PostgresSessionStore,
        keep_replaced: Callable[[Session, Iterable[Message]], None] | None = None,
        *,
        count_usage: bool = True,
    ) -> None:
        """Pass `count_usage=False` for sessions that were in this store before: its ledger already
        has their usage."""
        self._store = store
        self._keep_replaced = keep_replaced
        self._count_usage = count_usage
        self._database = store.database
        # In memory: normal work may not create tables, not even temporary ones.
        self._brought: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Index the imported messages: within a transaction nothing is indexed, and there may be no
        later append. If that fails, maintenance does it; the sessions are stored."""
        if self._brought and error[0] is None and not self._database.is_writing:
            with suppress(HoldfastError):
                search_index.catch_up_all(self._database)
        self._brought.clear()

    def transaction(self) -> AbstractContextManager[object]:
        return self._database.write()

    def taken(self, session_id: str) -> str | None:
        found = self._one("SELECT id FROM sessions WHERE lower(id) = lower(%s)", session_id)
        return str(found[0]) if found else None

    def brought(self, session_id: str) -> bool:
        found = self._one("SELECT number FROM sessions WHERE lower(id) = lower(%s)", session_id)
        return found is not None and found[0] in self._brought

    def holder(self, session_id: str) -> str | None:
        """The store cannot tell whether the process is alive, so every unreleased lease counts."""
        found = self._one(
            "SELECT l.process, l.host FROM leases l JOIN sessions s ON s.number = l.session "
            "WHERE NOT l.released AND lower(s.id) = lower(%s)",
            session_id,
        )
        return f"process {found[0]} on {found[1]}" if found else None

    def routed(self, key: str) -> Session | None:
        return self._store.routed(key)

    def descends(self, session_id: str, ancestor: str) -> bool:
        with self._database.read() as db:
            return descends(db, session_id, ancestor)

    def add(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        with self._database.write() as db, _savepoint(db):
            self._add(db, session, messages, now)

    def replace(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        with self._database.write() as db, _savepoint(db):
            # Locked: the copy of the old session must be complete.
            leaving = self._store.get(self.taken(session.id) or session.id)
            old = number_of(db, session.id)
            if self._keep_replaced is not None:  # the copy is made before the data goes
                self._keep_replaced(leaving, self._store.messages(leaving.id))
            if self._count_usage:
                ledger.take_off(db, old)
            # The new one gets a number that was never used: a reader in the middle of the old
            # session must not continue with messages of the new one.
            db.execute("UPDATE sessions SET id = %s WHERE number = %s", (_LEAVING, old))
            self._add(db, session, messages, now)
            db.execute(
                "UPDATE sessions SET parent = %s WHERE parent = %s",
                (number_of(db, session.id), old),
            )
            delete(db, [old])

    def waiting(self) -> Sequence[tuple[str, str]]:
        with self._database.read() as db:
            rows = db.execute(
                "SELECT id, extra FROM sessions WHERE parent IS NULL AND position(%s IN extra) > 0",
                (json.dumps(AWAITED_PARENT),),
            ).rows
        named = ((session_id, load_extra(extra).get(AWAITED_PARENT)) for session_id, extra in rows)
        return [(child, parent) for child, parent in named if isinstance(parent, str)]

    def link(self, session_id: str, parent_id: str) -> None:
        with self._database.write() as db:
            extra = dict(self._store.get(session_id).extra)
            extra.pop(AWAITED_PARENT, None)
            db.execute(
                "UPDATE sessions SET parent = %s, extra = %s WHERE number = %s",
                (number_of(db, parent_id), dump_extra(extra), number_of(db, session_id)),
            )

    def _add(self, db: Db, session: Session, messages: Iterable[Message], now: float) -> None:
        """Add a session and its messages. Only an open session accepts messages, so it is ended
        last."""
        is_open = replace(
            session,
            ended_at=None,
            end_reason=None,
            last_active_at=min(session.last_active_at, now),
        )
        self._store.create(is_open)
        rest = iter(messages)
        while some := list(islice(rest, _APPEND)):
            self._store.append(session.id, some, now=now, book=self._count_usage)
        if session.guarded is not None:
            self._bring_guarded(db, session, session.guarded)
        if session.ended_at is not None:
            self._store.end(session.id, session.end_reason or "", at=session.ended_at)
        self._brought.add(number_of(db, session.id))

    def _bring_guarded(self, db: Db, session: Session, guarded: Guarded) -> None:
        """Keep a guard's counts with the session: it must not begin its budget again."""
        guard_book.bring(db, number_of(db, session.id), guarded)
        if self._count_usage:
            for each in guarded.booked:
                ledger.add(db, {(each.day, session.source, each.model): each.usage})

    def _one(self, query: str, *values: str) -> tuple[object, ...] | None:
        return self._database.query(query, [storable(value) for value in values]).first


@contextmanager
def _savepoint(db: Db) -> Iterator[None]:
    """A part of a transaction that can fail on its own."""
    db.execute("SAVEPOINT whole_session")
    try:
        yield
    except BaseException:
        if db.wire.is_open:
            db.execute("ROLLBACK TO whole_session")
            db.execute("RELEASE whole_session")
        raise
    db.execute("RELEASE whole_session")
