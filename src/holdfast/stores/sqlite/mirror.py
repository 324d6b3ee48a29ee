"""A store that mirrors the sessions of another agent: we feed it, everybody else only reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

from holdfast.errors import UsageError
from holdfast.model.session import Addition, Message, Session, SessionChange
from holdfast.model.stored_session import Holder
from holdfast.stores.sqlite import ledger
from holdfast.stores.sqlite.sessions import SqliteSessionStore, delete

#: Messages that are stored in one go.
_PORTION = 500
#: How a session of another agent ends: nobody used it for long enough.
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

    def rename(self, session_id: str, title: str | None) -> Session:
        self._refuse(f"rename {session_id}")

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

    def count_messages(self) -> None:
        """Totals are kept with each message."""

    def refresh(self) -> None:
        """Every read sees what was committed before it."""

    def _refuse(self, what: str) -> NoReturn:
        raise UsageError(
            f"Cannot {what}: these are the sessions of {self._agent}, "
            f"and {self._agent} writes them itself.",
            hint="Sessions of your own belong into a Holdfast home.",
        )


_MIRRORED = "CREATE TABLE IF NOT EXISTS mirrored (id TEXT PRIMARY KEY, version TEXT NOT NULL)"


class MirrorStore(ForeignSessions, SqliteSessionStore):
    """An index of another agent's sessions: we feed it, everybody else reads it."""

    def __init__(self, path: Path, agent: str) -> None:
        ForeignSessions.__init__(self, agent)
        SqliteSessionStore.__init__(self, path)
        # A cache: a commit that a power cut takes back is made again by the next search.
        self.database.connection().execute("PRAGMA synchronous = NORMAL")
        with self.database.write() as db:
            db.execute(_MIRRORED)

    def versions(self) -> Mapping[str, str]:
        """The version of each session that the index holds."""
        with self.database.read() as db:
            return dict(db.execute("SELECT id, version FROM mirrored"))

    def feed(self, new: Session, messages: Iterator[Message], *, version: str) -> None:
        """Store a session as it is now, in place of what was here before."""
        with self.transaction():
            self.forget([new.id])
            SqliteSessionStore.create(self, _empty(new))
            while portion := list(islice(messages, _PORTION)):
                SqliteSessionStore.append(self, new.id, portion, now=new.last_active_at)
            if new.ended:
                SqliteSessionStore.end(self, new.id, IDLE, at=new.last_active_at)
            with self.database.write() as db:
                db.execute("INSERT INTO mirrored VALUES (?, ?)", (new.id, version))

    def forget(self, ids: Sequence[str]) -> None:
        """Drop what the index holds of sessions. The agent has them itself, or has not."""
        with self.database.write() as db:
            for each in ids:
                found = db.execute("SELECT number FROM sessions WHERE id = ?", (each,)).fetchall()
                for (number,) in found:
                    ledger.take_off(db, number)  # another agent's past is not ours to keep
                delete(db, [number for (number,) in found])
                db.execute("DELETE FROM mirrored WHERE id = ?", (each,))

    def size(self) -> int:
        return self.database.path.stat().st_size


def _empty(session: Session) -> Session:
    """A session before its first message. Its parent may be stored later, or never."""
    return Session(
        id=session.id,
        source=session.source,
        started_at=session.started_at,
        last_active_at=session.last_active_at,
        parent_id=session.parent_id,
        relation=session.relation,
        title=session.title,
        cwd=session.cwd,
        model=session.model,
    )
