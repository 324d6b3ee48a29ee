"""The rows of sessions that go to the archive, or come from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from holdfast.errors import DamageError, HoldfastError, UsageError
from holdfast.homes.session_mover import obstacle, runs
from holdfast.model.operation import Removal
from holdfast.model.report import Result
from holdfast.model.session import AWAITED_PARENT, Message, Session, SessionFilter
from holdfast.model.stored_session import Found
from holdfast.ports import Clock, SessionEngine
from holdfast.services.exchange.json_lines import ByteLines
from holdfast.services.exchange.session_import import import_sessions
from holdfast.stores.archive.beside import Beside
from holdfast.stores.sqlite.moves import SqliteEngine, key_stays
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.value import replace

#: How a session ended, and why.
Ended = tuple[Result, str]


class Rows(Protocol):
    """What the archive needs from a session store."""

    def read(self, ids: Sequence[str]) -> Mapping[str, Session]:
        """Those of these sessions that are there."""

    def messages(self, session_id: str) -> Iterator[Message]: ...

    def children(self, session_id: str) -> Sequence[str]: ...

    def obstacles(self, removals: Sequence[Removal]) -> Mapping[str, str]:
        """Why sessions may not go, by id: gone, changed since they were judged, or alive."""

    def remove_if_unchanged(self, removals: Sequence[Removal]) -> Mapping[str, Ended]:
        """Take out those that nothing stands against, asked in the transaction that does it."""

    def is_original(self, beside: Beside) -> bool:
        """Whether the session with this id is the one that was archived, and not another."""

    def put_back(self, beside: Beside, line: ByteLines) -> str:
        """Store a session as it was; raises `UsageError` when its place is taken. Returns what
        could not be as it was, in words, or nothing."""


def has_same_facts(one: Session, other: Session) -> bool:
    """Whether two sessions are the same in all that their messages do not say. Parent and routing
    key do not count: a parent may be elsewhere, and another may have the key."""
    return _facts(one) == _facts(other)


def _facts(session: Session) -> tuple[object, ...]:
    extra = {name: value for name, value in session.extra.items() if name != AWAITED_PARENT}
    own = (session.source, session.end_reason, extra)
    return session.id, session.version, session.started_at, *own


class RowsOut:
    """How rows leave a store for the archive: the same in every store that has an engine."""

    def __init__(self, engine: SessionEngine) -> None:
        self._engine = engine

    def obstacles(self, removals: Sequence[Removal]) -> Mapping[str, str]:
        found = self._look(removals)
        judged = ((each.item.id, obstacle(each, found)) for each in removals)
        return {name: why for name, why in judged if why is not None}

    def remove_if_unchanged(self, removals: Sequence[Removal]) -> Mapping[str, Ended]:
        ended: dict[str, Ended] = {}
        for run in runs(removals, self._look(removals)):
            try:
                ended |= self._remove(run)
            except HoldfastError as error:  # the transaction did not happen
                ended |= {each.item.id: (Result.FAILED, error.message) for each in run}
            self._engine.rest()
        return ended

    def _remove(self, run: Sequence[Removal]) -> Mapping[str, Ended]:
        with self._engine.transaction():
            found = self._look(run)
            obstacles = {each.item.id: obstacle(each, found) for each in run}
            going = [name for name, why in obstacles.items() if why is None]
            self._engine.delete([found[name] for name in going])
        return {
            name: (Result.REMOVED, "") if why is None else (Result.SKIPPED, why)
            for name, why in obstacles.items()
        }

    def _look(self, removals: Sequence[Removal]) -> Mapping[str, Found]:
        return self._engine.look([each.item.id for each in removals])


class StoreRows(RowsOut):
    """The rows of Holdfast's own store."""

    def __init__(self, store: SqliteSessionStore, engine: SqliteEngine, clock: Clock) -> None:
        super().__init__(engine)
        self._own = engine
        self._store = store
        self._clock = clock

    def read(self, ids: Sequence[str]) -> Mapping[str, Session]:
        return {each.id: each for each in self._store.find(SessionFilter(ids=tuple(ids)))}

    def messages(self, session_id: str) -> Iterator[Message]:
        return self._store.messages(session_id)

    def children(self, session_id: str) -> Sequence[str]:
        return [child.id for child in self._store.children(session_id)]

    def is_original(self, beside: Beside) -> bool:
        there = self.read([beside.session.id]).get(beside.session.id)
        if there is None or there.started_at != beside.session.started_at:
            return False
        first = next(self._store.messages(there.id, limit=1), None)
        if first is None and beside.first_message is None:
            # Without a message nothing but its looks tells it from one that took its place.
            return has_same_facts(there, beside.session)
        return (None if first is None else first.number) == beside.first_message

    def put_back(self, beside: Beside, line: ByteLines) -> str:
        wanted = beside.session
        with self._store.transaction():
            # What it used is in the ledger since it was first here.
            importing = SqliteImport(self._store, count_usage=False)
            report = import_sessions(importing, line, replace=False, now=self._clock())
            if report.refused:
                raise UsageError(report.refused[0].text)
            if wanted.id not in self.read([wanted.id]):
                raise DamageError("its line holds another session")
            self._own.adopt(wanted.id, beside.children, wanted.last_active_at)
            back = self._store.get(wanted.id)
            # Bundles of older versions count the messages that were taken back, too.
            stored = replace(back, message_count=report.messages)
            if wanted.version not in (back.version, stored.version):
                raise DamageError("its line does not hold what it should")
            if wanted.routing_key is None:
                return ""
            routed = self._store.routed(wanted.routing_key)
            return "" if routed is None or routed.id == wanted.id else key_stays(routed.id)
