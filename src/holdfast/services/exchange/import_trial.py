"""An import that stores nothing: what it would store, skip and refuse is all that it finds out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Self

from holdfast.model.session import Message, Session
from holdfast.services.exchange.session_import import ImportStore


class ImportTrial:
    """An `ImportStore` that asks another one what is there, and keeps only the ids of what it is
    given. Without another one, nothing is there."""

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
        deque(messages, maxlen=0)  # reading them all is what finds a bad one
        self._names[session.id.lower()] = session.id
        self._parents[session.id] = session.parent_id

    def replace(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        self.add(session, messages, now=now)

    def waiting(self) -> Sequence[tuple[str, str]]:
        return ()

    def link(self, session_id: str, parent_id: str) -> None:
        """Nothing waits."""
