"""A store that mirrors the sessions of another agent: we write it, everyone else only reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

from holdfast.errors import UsageError
from holdfast.model.session import Addition, Message, Session, SessionChange
from holdfast.model.stored_session import Holder
from holdfast.stores.sqlite.sessions import SqliteSessionStore, delete

#: Messages that are stored in one go.
_PORTION = 500
#: How a session of another agent ends: it was unused for long enough.
IDLE = "idle"


class ForeignSessions:
    """The writing half of a store whose sessions another agent writes: everything is refused."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def create(self, new: Session) -> Session:
        self._refuse(f"create {new.id}")

    def append(
        self, session_id: str, messages: Sequence[Message], *, now: float, book: bool = True
    ) -> Addition:
        self._refuse(f"append to {session_id}")

    def replace(
        self, session_id: str, messages: Sequence[Message], *, after: int, mark: str, now: float
    ) -> Addition:
        self._refuse(f"replace messages of {session_id}")

    def update(self, session_id: str, change: SessionChange) -> Session:
        self._refuse(f"change {session_id}")

    def end(self, session_id: str, reason: str, *, at: float) -> Session:
        self._refuse(f"end {session_id}")

    def reopen(self, session_id: str, *, at: float) -> Session:
        self._refuse(f"reopen {session_id}")

    def pin(self, session_id: str, pinned: bool) -> Session:
        raise UsageError(
            f"Cannot pin {session_id}: {self._agent} has no pins.",
            hint="Keep it with `pins` in the configuration: `holdfast config path` says where.",
        )

    def route(self, key: str, session_id: str) -> None:
        self._refuse(f"route to {session_id}")

    def hold(self, session_id: str, holder: Holder, *, now: float) -> bool:
        self._refuse(f"hold {session_id}")

    def release(self, session_id: str, holder: Holder) -> None:
        self._refuse(f"release {session_id}")

    def _refuse(self, what: str) -> NoReturn:
        raise UsageError(
            f"Cannot {what}: these are the sessions of {self._agent}, "
            f"and {self._agent} writes them itself.",
            hint="Write your own sessions to a Holdfast home.",
        )


class MirrorStore(ForeignSessions, SqliteSessionStore):
    """The index to be read. The agent itself writes its sessions."""

    def __init__(self, path: Path, agent: str) -> None:
        ForeignSessions.__init__(self, agent)
        SqliteSessionStore.__init__(self, path)

    def feed(self, new: Session, messages: Iterator[Message], *, ended: bool) -> None:
        """Store a session as it is now, in place of what was here before."""
        with self.transaction():
            self.forget(new.id)
            SqliteSessionStore.create(self, new)
            while portion := list(islice(messages, _PORTION)):
                SqliteSessionStore.append(self, new.id, portion, now=new.last_active_at, book=False)
            if ended:
                SqliteSessionStore.end(self, new.id, IDLE, at=new.last_active_at)

    def forget(self, session_id: str) -> None:
        """Drop what the index holds of a session. The agent has the session itself, or has not."""
        with self.database.write() as db:
            numbers = db.execute("SELECT number FROM sessions WHERE id = ?", (session_id,))
            delete(db, [number for (number,) in numbers.fetchall()])

    def size(self) -> int:
        return self.database.path.stat().st_size

    def rename(self, session_id: str, title: str | None) -> Session:
        self._refuse(f"rename {session_id}")
