"""Import: JSONL lines into a store, each session whole or not at all.

Lines are read and checked outside any transaction and stored in small batches, so that other
writers get their turn. A parent may follow later in the file, or in a later import: until then the
child keeps its id in an extra field (`session_line.AWAITED_PARENT`).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Protocol, Self

from holdfast.errors import UsageError
from holdfast.model.json_value import JsonValue
from holdfast.model.session import AWAITED_PARENT, Message, Session
from holdfast.ports.runs import Progress
from holdfast.services.exchange.json_lines import SHORT, ByteLines, RawLine, raw_lines
from holdfast.services.exchange.line_reader import ReadSession, read_messages, read_session
from holdfast.value import dataclass, field, replace


class ImportStore(Protocol):
    """A session store that takes in whole sessions. It is entered once for the whole import.

    Each `add` and `replace` is all or nothing, even when several share a transaction.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> None: ...

    def transaction(self) -> AbstractContextManager[object]: ...

    def taken(self, session_id: str) -> str | None:
        """The id in the store that equals this one, or differs only in case; None if there is
        none."""

    def brought(self, session_id: str) -> bool:
        """True if this import stored the session."""

    def holder(self, session_id: str) -> str | None:
        """A description of the process that holds the session open; None if there is none."""

    def routed(self, key: str) -> Session | None: ...

    def descends(self, session_id: str, ancestor: str) -> bool:
        """True if the first session is the second, or descends from it."""

    def add(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        """Store a session; its totals are those of the messages."""

    def replace(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        """Replace the session that has this id. Its children stay its children."""

    def waiting(self) -> Sequence[tuple[str, str]]:
        """The sessions that wait for their parent: their ids and the parents' ids."""

    def link(self, session_id: str, parent_id: str) -> None:
        """Give a session the parent that it waited for."""


#: The most that one transaction stores: other writers wait about a tenth of a second for it.
_BATCH_SESSIONS = 100
_BATCH_MESSAGES = 2_000
_BATCH_BYTES = SHORT


@dataclass(frozen=True, slots=True, kw_only=True)
class LineNote:
    """A note about a line. `session` is known if the line was made from another file."""

    line: int
    text: str
    session: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"line": self.line, "session": self.session or None, "reason": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport(JsonValue):
    """The result of an import. `messages` is how many were stored. `notes` are about sessions that
    were stored, but not exactly as in their line."""

    imported: int = 0
    replaced: int = 0
    skipped: tuple[str, ...] = ()
    refused: tuple[LineNote, ...] = ()
    notes: tuple[str, ...] = ()
    messages: int = 0
    stopped: bool = False


def import_sessions(
    store: ImportStore,
    stream: ByteLines,
    *,
    replace: bool,
    now: float,
    progress: Progress | None = None,
) -> ImportReport:
    """Store every session of `stream`. Safe to run again: sessions that exist are skipped."""
    return import_lines(store, raw_lines(stream), replace=replace, now=now, progress=progress)


def import_lines(
    store: ImportStore,
    lines: Iterable[RawLine],
    *,
    replace: bool,
    now: float,
    progress: Progress | None = None,
) -> ImportReport:
    """The same for lines that the caller has read or made."""
    with store:
        run = _Import(store=store, replace=replace, now=now, progress=progress)
        for line in lines:
            if not line.is_blank:
                run.take(line)
            if run.stopped:
                break
        run.store_batch()
        run.link()
    return run.report()


@dataclass(slots=True, kw_only=True)
class _Import:
    """An import in progress: the batch being collected, and the counts for the report."""

    store: ImportStore
    replace: bool
    now: float
    progress: Progress | None
    batch: list[tuple[RawLine, ReadSession]] = field(default_factory=list)
    imported: int = 0
    replaced: int = 0
    messages: int = 0
    skipped: list[str] = field(default_factory=list)
    refused: list[LineNote] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: bool = False

    def take(self, line: RawLine) -> None:
        try:
            read = read_session(line.text(), keep=line.is_short)
        except UsageError as error:
            self._refuse(line, error)
            return
        if not line.is_short:
            self.store_batch()  # earlier lines first, then this one alone
        self.batch.append((line, read))
        if not line.is_short or self._batch_is_full():
            self.store_batch()

    def store_batch(self) -> None:
        if self.batch:
            with self.store.transaction():
                for line, read in self.batch:
                    self._put(line, read)
            self.batch.clear()
        if self.progress is not None:
            self.progress.step("importing messages", self.messages, None)
            self.stopped = self.progress.stop_requested()

    def link(self) -> None:
        """Link children to parents that arrived after them."""
        for child, parent in self.store.waiting():
            with self.store.transaction():
                is_there = self.store.taken(parent) == parent
                if is_there and not self.store.descends(parent, child):
                    self.store.link(child, parent)
                elif self.store.brought(child):
                    why = "descends from it" if is_there else "is not in the store"
                    self.notes.append(
                        f"{child}: its parent {parent} {why}, so it has no parent for now"
                    )

    def report(self) -> ImportReport:
        return ImportReport(
            imported=self.imported,
            replaced=self.replaced,
            skipped=tuple(self.skipped),
            refused=tuple(sorted(self.refused, key=lambda each: each.line)),
            notes=tuple(self.notes),
            messages=self.messages,
            stopped=self.stopped,
        )

    def _batch_is_full(self) -> bool:
        return (
            len(self.batch) >= _BATCH_SESSIONS
            or sum(read.message_count for _, read in self.batch) >= _BATCH_MESSAGES
            or sum(line.size for line, _ in self.batch) >= _BATCH_BYTES
        )

    def _put(self, line: RawLine, read: ReadSession) -> None:
        session_id = read.session.id
        taken = self.store.taken(session_id)
        if taken == session_id and not self.replace and not self.store.brought(session_id):
            self.skipped.append(session_id)
            return
        current = self._elsewhere(read.session)
        try:
            self._check_place(session_id, taken)
            self._store(line, read, is_taken=taken is not None, with_route=current is None)
        except UsageError as error:
            self._refuse(line, error)
            return
        self.messages += read.message_count
        self.notes += (f"{session_id}: {note}" for note in (*read.notes, *line.notes))
        if current:
            note = f"its routing key belongs to {current} and stays there"
            self.notes.append(f"{session_id}: {note}")

    def _check_place(self, session_id: str, taken: str | None) -> None:
        if taken is None:
            return
        if taken != session_id:
            raise UsageError(f"the id {session_id} differs from {taken} only in case")
        if self.store.brought(session_id):
            raise UsageError(f"the id {session_id} is already used in an earlier line")
        if holder := self.store.holder(session_id):
            raise UsageError(f"the session {session_id} is held open by {holder}")

    def _store(self, line: RawLine, read: ReadSession, *, is_taken: bool, with_route: bool) -> None:
        session = self._with_parent(read.session)
        if not with_route:
            session = replace(session, routing_key=None)
        messages: Iterable[Message] | None = read.messages
        if messages is None:
            messages = read_messages(line.text(), session.started_at)
        if is_taken:
            self.store.replace(session, messages, now=self.now)
            self.replaced += 1
        else:
            self.store.add(session, messages, now=self.now)
            self.imported += 1

    def _with_parent(self, session: Session) -> Session:
        parent = session.parent_id
        if parent is None:
            return session
        if self.store.taken(parent) == parent and not self.store.descends(parent, session.id):
            return session
        extra = {**session.extra, AWAITED_PARENT: parent}
        return replace(session, parent_id=None, extra=extra)

    def _elsewhere(self, session: Session) -> str | None:
        """The other session that has its routing key now, if any. An import must not point a key
        that is in use back to an old session."""
        current = None if session.routing_key is None else self.store.routed(session.routing_key)
        return None if current is None or current.id == session.id else current.id

    def _refuse(self, line: RawLine, error: UsageError) -> None:
        # Interned: a file in another format may repeat the same error a million times.
        text = sys.intern(error.message)
        self.refused.append(LineNote(line=line.number, text=text, session=line.session))


class ImportTrial:
    """An `ImportStore` for a dry run: finds out what an import would store, skip and refuse, but
    stores nothing. It reads what exists from another store, and keeps only the ids of what is
    added. Without another store, nothing exists."""

    def __init__(self, store: ImportStore | None) -> None:
        self._store = store
        self._parents: dict[str, str | None] = {}
        self._names: dict[str, str] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if self._store is not None:
            self._open.enter_context(self._store)
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def transaction(self) -> AbstractContextManager[object]:
        return nullcontext()

    def taken(self, session_id: str) -> str | None:
        known = self._names.get(session_id.lower())
        if known is not None or self._store is None:
            return known
        return self._store.taken(session_id)

    def brought(self, session_id: str) -> bool:
        return session_id.lower() in self._names

    def holder(self, session_id: str) -> str | None:
        return None if self._store is None else self._store.holder(session_id)

    def routed(self, key: str) -> Session | None:
        return None if self._store is None else self._store.routed(key)

    def descends(self, session_id: str, ancestor: str) -> bool:
        seen: set[str] = set()
        current: str | None = session_id
        while current is not None and current not in seen:
            if current == ancestor:
                return True
            seen.add(current)
            if current not in self._parents:
                return self._store is not None and self._store.descends(current, ancestor)
            current = self._parents[current]
        return False

    def add(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        deque(messages, maxlen=0)  # read them all, to find invalid ones
        self._names[session.id.lower()] = session.id
        self._parents[session.id] = session.parent_id

    def replace(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        self.add(session, messages, now=now)

    def waiting(self) -> Sequence[tuple[str, str]]:
        return ()

    def link(self, session_id: str, parent_id: str) -> None:
        """Nothing waits."""
