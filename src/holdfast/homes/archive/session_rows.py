"""Moves the rows of sessions between the store and the archive."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from holdfast.errors import DamageError, HoldfastError, UsageError
from holdfast.homes.own_store import OwnEngine
from holdfast.homes.sessions.mover import at_once, obstacle, runs
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Result
from holdfast.model.session import (
    AWAITED_PARENT,
    Message,
    Session,
    SessionFilter,
    SessionOrder,
)
from holdfast.model.stored_session import MOST_MESSAGES, Coming, Found
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import SessionEngine, SessionStore
from holdfast.services.exchange.json_lines import ByteLines, raw_lines
from holdfast.services.exchange.line_reader import ReadSession, read_session
from holdfast.services.exchange.session_import import ImportStore, import_sessions
from holdfast.stores.archive import bundle
from holdfast.stores.archive.bundle_manifest import BundleManifest
from holdfast.stores.sessions.session_rows import key_stays
from holdfast.value import replace

#: The result for a session, and the reason.
Ended = tuple[Result, str]


class Rows(Protocol):
    """The operations that the archive needs from a session store."""

    def read(self, ids: Sequence[str]) -> Mapping[str, Session]:
        """Return those of these sessions that exist."""

    def messages(self, session_id: str) -> Iterator[Message]: ...

    def children(self, session_id: str) -> Sequence[str]: ...

    def obstacles(self, removals: Sequence[Removal]) -> Mapping[str, str]:
        """Why sessions must stay, by id: gone, changed since the plan was made, or alive."""

    def make_ready(self, items: Sequence[PlanItem]) -> int:
        """Prepare the store for removing these sessions. Returns how many messages one run may
        remove."""

    def remove_if_unchanged(
        self, removals: Sequence[Removal], most: int = ...
    ) -> Mapping[str, Ended]:
        """Remove the sessions without an obstacle, which is checked in the same transaction. `most`
        is the result of `make_ready`."""

    def left_for_good(self) -> None:
        """Note that archived sessions are being removed for good: none of their text may stay in
        the store."""

    def is_original(self, manifest: BundleManifest) -> bool:
        """True if the session with this id is the archived one, not another one with the same
        id."""

    def put_back(self, manifest: BundleManifest, line: ByteLines) -> str:
        """Restore a session exactly; raises `UsageError` if its id is taken. Returns a note about
        what could not be restored exactly, or ""."""

    def put_back_together(self, several: Sequence[tuple[BundleManifest, bytes]]) -> bool:
        """Restore sessions exactly, in one transaction: all of them, or raise. Returns False if
        this store restores sessions one by one."""


def has_same_facts(one: Session, other: Session) -> bool:
    """True if two sessions are equal apart from their messages. Parent and routing key do not
    count: the parent may be elsewhere, and another session may have the key."""
    return _facts(one) == _facts(other)


def _facts(session: Session) -> tuple[object, ...]:
    extra = {name: value for name, value in session.extra.items() if name != AWAITED_PARENT}
    own = (session.source, session.end_reason, extra)
    return session.id, session.version, session.started_at, *own


class RowsOut:
    """Removes rows for the archive: common to every store that has an engine."""

    def __init__(self, store: SessionStore, engine: SessionEngine) -> None:
        self._sessions = store
        self._engine = engine

    def messages(self, session_id: str) -> Iterator[Message]:
        return self._sessions.messages(session_id)

    def children(self, session_id: str) -> Sequence[str]:
        wanted = SessionFilter(parent_id=session_id)
        return [each.id for each in self._sessions.find(wanted, order_by=SessionOrder.STARTED)]

    def is_original(self, manifest: BundleManifest) -> bool:
        there = self._sessions.find(SessionFilter(ids=(manifest.session.id,)))
        if not there or there[0].started_at != manifest.session.started_at:
            return False
        first = next(self._sessions.messages(there[0].id, limit=1), None)
        if first is None and manifest.first_message is None:
            return self._looks_like(there[0], manifest.session)
        return (None if first is None else first.number) == manifest.first_message

    def _looks_like(self, there: Session, archived: Session) -> bool:
        """True if a session without messages may be the archived one, which had none either."""
        return True

    def obstacles(self, removals: Sequence[Removal]) -> Mapping[str, str]:
        found = self._look(removals)
        judged = ((each.item.id, obstacle(each, found)) for each in removals)
        return {name: why for name, why in judged if why is not None}

    def make_ready(self, items: Sequence[PlanItem]) -> int:
        return MOST_MESSAGES

    def remove_if_unchanged(
        self, removals: Sequence[Removal], most: int = MOST_MESSAGES
    ) -> Mapping[str, Ended]:
        ended: dict[str, Ended] = {}
        for run in runs(removals, self._look(removals), at_once(most)):
            try:
                ended |= self._remove(run)
            except HoldfastError as error:  # the transaction was rolled back
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

    def left_for_good(self) -> None:
        self._engine.left_for_good()

    def put_back_together(self, several: Sequence[tuple[BundleManifest, bytes]]) -> bool:
        return False

    def _look(self, removals: Sequence[Removal]) -> Mapping[str, Found]:
        return self._engine.look([each.item.id for each in removals])


class StoreRows(RowsOut):
    """The rows of Holdfast's own store."""

    def __init__(
        self,
        store: SessionStore,
        engine: OwnEngine,
        importing: Callable[[], ImportStore],
        clock: Clock,
    ) -> None:
        """`importing` imports sessions that were in this store before: their usage is already in
        the ledger."""
        super().__init__(store, engine)
        self._own = engine
        self._store = store
        self._importing = importing
        self._clock = clock

    def read(self, ids: Sequence[str]) -> Mapping[str, Session]:
        return {each.id: each for each in self._store.find(SessionFilter(ids=tuple(ids)))}

    def make_ready(self, items: Sequence[PlanItem]) -> int:
        return self._engine.prepare(items)

    def _looks_like(self, there: Session, archived: Session) -> bool:
        return has_same_facts(there, archived)

    def put_back(self, manifest: BundleManifest, line: ByteLines) -> str:
        wanted = manifest.session
        with self._store.transaction():
            report = import_sessions(self._importing(), line, replace=False, now=self._clock())
            if report.refused:
                raise UsageError(report.refused[0].text)
            if wanted.id not in self.read([wanted.id]):
                raise DamageError("its line holds another session")
            self._own.adopt(wanted.id, manifest.children, wanted.last_active_at)
            back = self._store.get(wanted.id)
            if not _is_version(back, report.messages, wanted.version):
                raise DamageError("its line does not match its record")
            if wanted.routing_key is None:
                return ""
            routed = self._store.routed(wanted.routing_key)
            return "" if routed is None or routed.id == wanted.id else key_stays(routed.id)

    def put_back_together(self, several: Sequence[tuple[BundleManifest, bytes]]) -> bool:
        read = {manifest.session.id: _read(manifest, line) for manifest, line in several}
        coming = [
            Coming(
                session=read[manifest.session.id].session,
                messages=read[manifest.session.id].messages or (),
                children=manifest.children,
                last_active_at=manifest.session.last_active_at,
            )
            for manifest, _ in several
        ]

        def check() -> None:
            there = self.read(list(read))
            for manifest, _ in several:
                name, wanted = manifest.session.id, manifest.session.version
                if not _is_version(there[name], read[name].message_count, wanted):
                    raise DamageError("its line does not match its record")

        done = self._own.bring(coming, self._clock(), check)
        self._own.rest()
        return done


def _read(manifest: BundleManifest, line: bytes) -> ReadSession:
    for raw in raw_lines(bundle.OneLine(io.BytesIO(line))):
        read = read_session(raw.text(), keep=True)
        if read.session.id == manifest.session.id:
            return read
    raise DamageError("its line holds another session")


def _is_version(back: Session, messages: int, wanted: str) -> bool:
    """Compare with both counts: bundles of older versions also count messages that were taken
    back."""
    return wanted in (back.version, replace(back, message_count=messages).version)
