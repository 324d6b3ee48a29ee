"""What an import needs from a session store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from holdfast.model.session import Message, Session


class ImportStore(Protocol):
    """Whole sessions to write, in one run: it is entered once, for the whole import.

    `add` and `replace` are all or nothing each, also when several stand in one transaction.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> None: ...

    def transaction(self) -> AbstractContextManager[object]: ...

    def taken(self, session_id: str) -> str | None:
        """The id in the store that this one equals, or differs from in case only."""

    def brought(self, session_id: str) -> bool:
        """Whether this run has stored the session."""

    def holder(self, session_id: str) -> str | None:
        """Who holds the session open, in words."""

    def routed(self, key: str) -> Session | None: ...

    def descends(self, session_id: str, ancestor: str) -> bool:
        """Whether one session comes from another, over any number of steps, or is the same."""

    def add(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        """Store a session; its totals are those of the messages."""

    def replace(self, session: Session, messages: Iterable[Message], *, now: float) -> None:
        """Store a session in the place of the one that has its id. Its children stay its own."""

    def waiting(self, field: str) -> Sequence[tuple[str, str]]:
        """Sessions without a parent that name one in this extra field: its id and theirs."""

    def link(self, session_id: str, parent_id: str, *, field: str) -> None:
        """Give a session its parent and drop the extra field that named it."""
