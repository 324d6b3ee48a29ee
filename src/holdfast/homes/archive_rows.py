"""The rows of sessions on their way into the archive, and from a bundle back into the store."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Protocol

from holdfast.errors import UNREADABLE, DamageError, HoldfastError, UsageError, in_words
from holdfast.homes.archive_sources import SessionFolder
from holdfast.homes.own_store import OwnEngine
from holdfast.homes.session_folder import FOLDER
from holdfast.homes.session_mover import obstacle, runs
from holdfast.model.archive import Holds
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
from holdfast.model.stored_session import MOST_MESSAGES, Found
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import SessionEngine, SessionStore
from holdfast.services.exchange.json_lines import ByteLines, raw_lines
from holdfast.services.exchange.line_reader import read_messages
from holdfast.services.exchange.session_import import ImportStore, import_sessions
from holdfast.spine.outcomes import NO_SESSION_STORE
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.beside import Beside, NewerBundleError
from holdfast.stores.sessions.session_rows import key_stays
from holdfast.value import replace

TAKEN = (
    "a session with this id is in the store; the archived one stays in the archive. "
    "To get it back, delete the one in the store first"
)
HERE_ALREADY = "it is in the store already, the same; its bundle stays in the archive"
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

    def make_ready(self, items: Sequence[PlanItem]) -> int:
        """Make the store ready for these to leave it. Returns the message limit of a
        transaction."""

    def remove_if_unchanged(
        self, removals: Sequence[Removal], most: int = ...
    ) -> Mapping[str, Ended]:
        """Remove those without an obstacle, which is checked in the same transaction. One has
        about as many messages as `most` says."""

    def is_original(self, beside: Beside) -> bool:
        """Whether the session with this id is the one that was archived, and not another."""

    def put_back(self, beside: Beside, line: ByteLines) -> str:
        """Store a session as it was; raises `UsageError` when its place is taken. Returns what
        could not be restored exactly, in words, or nothing."""


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

    def __init__(self, store: SessionStore, engine: SessionEngine) -> None:
        self._sessions = store
        self._engine = engine

    def messages(self, session_id: str) -> Iterator[Message]:
        return self._sessions.messages(session_id)

    def children(self, session_id: str) -> Sequence[str]:
        wanted = SessionFilter(parent_id=session_id)
        return [each.id for each in self._sessions.find(wanted, order_by=SessionOrder.STARTED)]

    def is_original(self, beside: Beside) -> bool:
        there = self._sessions.find(SessionFilter(ids=(beside.session.id,)))
        if not there or there[0].started_at != beside.session.started_at:
            return False
        first = next(self._sessions.messages(there[0].id, limit=1), None)
        if first is None and beside.first_message is None:
            return self._looks_like(there[0], beside.session)
        return (None if first is None else first.number) == beside.first_message

    def _looks_like(self, there: Session, archived: Session) -> bool:
        """Whether a session without a message may be the archived one, which had none either."""
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
        for run in runs(removals, self._look(removals), most):
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

    def __init__(
        self,
        store: SessionStore,
        engine: OwnEngine,
        importing: Callable[[], ImportStore],
        clock: Clock,
    ) -> None:
        """`importing` takes in sessions that were here before: what they used is in the ledger
        since then."""
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

    def put_back(self, beside: Beside, line: ByteLines) -> str:
        wanted = beside.session
        with self._store.transaction():
            report = import_sessions(self._importing(), line, replace=False, now=self._clock())
            if report.refused:
                raise UsageError(report.refused[0].text)
            if wanted.id not in self.read([wanted.id]):
                raise DamageError("its line holds another session")
            self._own.adopt(wanted.id, beside.children, wanted.last_active_at)
            back = self._store.get(wanted.id)
            # Bundles of older versions count the messages that were taken back, too.
            stored = replace(back, message_count=report.messages)
            if wanted.version not in (back.version, stored.version):
                raise DamageError("its line does not match its record")
            if wanted.routing_key is None:
                return ""
            routed = self._store.routed(wanted.routing_key)
            return "" if routed is None or routed.id == wanted.id else key_stays(routed.id)


class Returner:
    """Brings archived sessions back. Safe to repeat after a kill at any point."""

    def __init__(
        self, archive: SessionArchive, rows: Callable[[], Rows | None], files: SessionFolder
    ) -> None:
        self.archive = archive
        self.rows = rows
        self.files = files

    def bring_back(self, file: str, *, again: bool = True) -> Ended:
        """The session of one bundle, whole or not at all. The bundle is for the caller to drop.
        `again` means that an earlier run may have brought it back; without it, one that is there
        already was not brought back, and its bundle may be all that another home has of it."""
        try:
            with self.archive.at_hand(file):
                return self._bring_back(file, again=again)
        except NewerBundleError as error:
            return Result.FAILED, f"{error.message}; {error.hint}"
        except DamageError as error:
            return Result.DAMAGED, f"its bundle is damaged, {error.message}: {file}"
        except HoldfastError as error:
            return Result.FAILED, error.message
        except OSError as error:
            return Result.FAILED, str(error.strerror or error)
        except UNREADABLE as error:
            return Result.DAMAGED, f"its bundle is damaged, {in_words(error)}: {file}"

    def is_back(self, beside: Beside, file: str) -> bool:
        """Whether the store has the very session that this bundle holds."""
        rows = self.rows()
        there = None if rows is None else rows.read([beside.session.id]).get(beside.session.id)
        if rows is None or there is None:
            return False
        return self._is_same(rows, there, beside.session, file)

    def _is_whole(self, beside: Beside, file: str) -> bool:
        is_session = beside.holds is Holds.SESSION
        return is_session and self.is_back(beside, file) and self.files.has_all(beside)

    def _bring_back(self, file: str, *, again: bool) -> Ended:
        read = self.archive.read(file)
        beside = read.beside
        if not again and self._is_whole(beside, file):
            return Result.SKIPPED, HERE_ALREADY
        # Before the rows: a session comes back whole, or stays in the archive whole.
        taken = self.files.in_the_way(beside)
        if taken:
            return Result.FAILED, _in_the_way(taken)
        result, note = self._put_back_rows(read, file)
        if result is not Result.BROUGHT_BACK:
            return result, note
        if beside.files:
            with self.archive.opened(file) as (raw, codec):
                taken = self.files.put_back(beside, raw, codec)
        # Another process may have taken a name in between.
        return (Result.FAILED, _in_the_way(taken)) if taken else (Result.BROUGHT_BACK, note)

    def _put_back_rows(self, read: bundle.Read, file: str) -> Ended:
        beside = read.beside
        if beside.holds is Holds.FILES:
            return Result.BROUGHT_BACK, ""  # the store has the rest
        rows = self.rows()
        if rows is None:
            return Result.FAILED, NO_SESSION_STORE
        there = rows.read([beside.session.id]).get(beside.session.id)
        if there is not None:
            # The same: a killed run came this far.
            same = self._is_same(rows, there, beside.session, file)
            return (Result.BROUGHT_BACK, "") if same else (Result.FAILED, TAKEN)
        if read.line is not None:
            kept = bundle.OneLine(io.BytesIO(read.line))
            return Result.BROUGHT_BACK, rows.put_back(beside, kept)
        with self.archive.opened(file) as (raw, codec), bundle.line_of(raw, codec) as line:
            return Result.BROUGHT_BACK, rows.put_back(beside, line)

    def _is_same(self, rows: Rows, there: Session, archived: Session, file: str) -> bool:
        """Whether a session in the store is the archived one, in all that would go with the bundle.
        Times and counts do not tell: an import may have brought the same ones with other words."""
        if not has_same_facts(there, archived):
            return False
        with self.archive.opened(file) as (raw, codec), bundle.line_of(raw, codec) as line:
            messages = chain.from_iterable(
                read_messages(each.text(), archived.started_at) for each in raw_lines(line)
            )
            pairs = zip_longest(messages, rows.messages(there.id))
            return all(
                ours is not None and theirs is not None and _said(ours) == _said(theirs)
                for ours, theirs in pairs
            )


def _said(message: Message) -> tuple[object, ...]:
    return (
        message.role,
        message.content,
        message.timestamp,
        message.tool_name,
        message.tool_calls,
        message.tool_call_id,
        message.reasoning,
        message.usage,
        message.cost,
        dict(message.extra),
    )


def _in_the_way(names: Sequence[str]) -> str:
    shown = ", ".join(f"{FOLDER}/{name}" for name in names)
    are = (
        "is not what was archived and is"
        if len(names) == 1
        else "are not what was archived and are"
    )
    return (
        f"{shown} {are} in the way; the bundle stays in the archive. Move it away and restore again"
    )
