"""A store that mirrors another agent's sessions. Only this code writes to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from holdfast.errors import BusyError, UsageError
from holdfast.model.plan import Action
from holdfast.model.session import Addition, Hit, Message, Session, SessionChange
from holdfast.model.stored_session import Holder
from holdfast.stores.sessions.session_rows import AMONG
from holdfast.stores.sqlite import search_index
from holdfast.stores.sqlite.database import pragma
from holdfast.stores.sqlite.sessions import SqliteSessionStore, delete
from holdfast.stores.sqlite.survey import message_count, used_bytes
from holdfast.value import dataclass

#: Messages stored in one transaction, and roughly the limit of their characters.
_PORTION = 500
_PORTION_TEXT = 4_000_000
#: The end reason of another agent's session: it was idle long enough.
IDLE = "idle"


_WRITE_ELSEWHERE = "Write your own sessions to a Holdfast home."
_ONLY_OURS = "Only sessions in Holdfast's own home can be renamed or ended."


class ForeignSessions:
    """The writing half of a store whose sessions another agent writes: it refuses every call."""

    edits: frozenset[Action] = frozenset()

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def create(self, new: Session) -> Session:
        self._refuse("create a session")

    def append(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        now: float,
        book: bool = True,
        then: Callable[[Addition], None] | None = None,
    ) -> Addition:
        self._refuse(f"append to {session_id}")

    def replace(
        self, session_id: str, messages: Sequence[Message], *, after: int, mark: str, now: float
    ) -> Addition:
        self._refuse(f"replace messages of {session_id}")

    def update(self, session_id: str, change: SessionChange) -> Session:
        self._refuse(f"change {session_id}")

    def end(self, session_id: str, reason: str, *, at: float) -> Session:
        self._refuse(f"end {session_id}", _ONLY_OURS)

    def reopen(self, session_id: str, *, at: float) -> Session:
        self._refuse(f"reopen {session_id}")

    def rename(self, session_id: str, title: str | None) -> Session:
        self._refuse(f"rename {session_id}", _ONLY_OURS)

    def as_title(self, title: str | None) -> str | None:
        return title

    def pin(self, session_id: str, pinned: bool) -> Session:
        raise UsageError(
            f"Cannot pin {session_id}: {self._agent} has no pins.",
            hint="Keep it with `pins` in the configuration: `holdfast config path` says where.",
        )

    def pins_of(self, session_id: str) -> tuple[bool, str]:
        return False, ""

    def route(self, key: str, session_id: str) -> None:
        self._refuse(f"route to {session_id}")

    def hold(self, session_id: str, holder: Holder, *, now: float) -> bool:
        self._refuse(f"write to {session_id}")

    def release(self, session_id: str, holder: Holder) -> None:
        self._refuse(f"release {session_id}")

    def _refuse(self, what: str, hint: str = _WRITE_ELSEWHERE) -> NoReturn:
        raise UsageError(f"Cannot {what}: {self._agent} writes its sessions itself.", hint=hint)


#: What the index has of each session. `why` is why part of it is missing; empty if nothing is.
_FED = """
CREATE TABLE IF NOT EXISTS fed (
    id TEXT PRIMARY KEY, version TEXT NOT NULL, ended INTEGER NOT NULL, active REAL NOT NULL,
    why TEXT NOT NULL
) WITHOUT ROWID
"""
#: The `why` of a session that is not in the index because the index is full.
LEFT_OUT = "the index is full"
_CUT = "it is searched by its beginning: the index is full"
#: Removing more than this share of the messages from the index costs more than rebuilding it.
_MANY = 0.25
#: The index is cleaned up when deleted entries are more than this share of its messages.
_GARBAGE = 0.2
#: The share of its messages that a full index drops at once.
_ROOM = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """What the index has of a session."""

    version: str
    ended: bool
    why: str


class MirrorStore(ForeignSessions, SqliteSessionStore):
    """A searchable index of another agent's sessions. Only this code writes to it."""

    def __init__(self, path: Path, agent: str) -> None:
        ForeignSessions.__init__(self, agent)
        SqliteSessionStore.__init__(self, path)
        db = self.database.connection()
        # A cache: the next search indexes again what a power cut loses.
        self.database.flushes = False
        # Deleted text must not be readable from the file.
        db.execute("PRAGMA secure_delete = ON")
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'fed'").fetchone():
            with self.database.write() as writing:
                writing.execute(_FED)

    def fed(self, ids: Sequence[str] | None = None, *, partly: bool = False) -> Mapping[str, Fed]:
        """What the index has of these sessions, or of all. With `partly`, only of sessions that it
        does not hold completely."""
        asked = "SELECT id, version, ended, why FROM fed"
        parameters: tuple[str, ...] = ()
        if ids is not None:
            asked, parameters = f"{asked} WHERE id {AMONG}", (json.dumps(ids),)
        elif partly:
            asked += " WHERE why <> ''"
        with self.database.read() as db:
            return {
                name: Fed(version=version, ended=bool(ended), why=why)
                for name, version, ended, why in db.execute(asked, parameters)
            }

    def feed(
        self, new: Session, messages: Iterator[Message], *, version: str, most_bytes: int
    ) -> None:
        """Store the current state of a session, replacing what the index had. Call it outside a
        transaction: each portion is one transaction, and the session counts as fed after the
        last."""
        self.forget([new.id])
        SqliteSessionStore.create(self, _empty(new))
        why = ""
        for number, portion in enumerate(_portions(messages)):
            if number and self.used_bytes() > most_bytes:
                why = _CUT
                break
            SqliteSessionStore.append(self, new.id, portion, now=new.last_active_at, book=False)
        if new.ended:
            SqliteSessionStore.end(self, new.id, IDLE, at=new.last_active_at)
        self._note([(new.id, version, int(new.ended), new.last_active_at, why)])

    def set_ended(self, session: Session) -> None:
        """Record that a session fell idle, or is active again, without a new message."""
        at = session.last_active_at if session.ended else None
        with self.database.write() as db:
            db.execute(
                "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ?",
                (at, IDLE if session.ended else None, session.id),
            )
            db.execute("UPDATE fed SET ended = ? WHERE id = ?", (int(session.ended), session.id))

    def leave_out(self, sessions: Sequence[tuple[str, str, float]], why: str = LEFT_OUT) -> None:
        """Record that sessions (id, version, last activity) are not in the index, and why."""
        with self.database.write():
            self.forget([name for name, _, _ in sessions])
            self._note([(name, version, 1, active, why) for name, version, active in sessions])

    def reconsider(self) -> None:
        """Forget that sessions were left out for lack of room."""
        with self.database.write() as db:
            db.execute("DELETE FROM fed WHERE why = ?", (LEFT_OUT,))

    def forget(self, ids: Sequence[str]) -> None:
        """Remove sessions from the index. The agent's own copy is not touched."""
        chosen = (json.dumps(ids),)
        with self.database.write() as db:
            rows = db.execute(
                f"SELECT number, message_count FROM sessions WHERE id {AMONG}",  # noqa: S608 - our own text
                chosen,
            ).fetchall()
            going = sum(count for _, count in rows)
            if going > _MANY * message_count(db) and going > search_index.BATCH:
                db.execute("INSERT INTO message_index (message_index) VALUES ('delete-all')")
                db.execute("UPDATE facts SET value = 0 WHERE name = 'indexed_to'")
                search_index.forget_garbage(db)
            if rows:
                delete(db, [number for number, _ in rows])
            db.execute(f"DELETE FROM fed WHERE id {AMONG}", chosen)  # noqa: S608 - our own text

    def make_room(self, newer_than: float) -> bool:
        """Drop the least recently active sessions, if they are older than `newer_than`; False if
        there are none."""
        with self.database.write() as db:
            left = max(1, int(message_count(db) * _ROOM))
            going = []
            for name, version, active, count in db.execute(
                """
                SELECT f.id, f.version, f.active, s.message_count FROM fed f
                JOIN sessions s ON s.id = f.id WHERE f.active < ? ORDER BY f.active
                """,
                (newer_than,),
            ):
                going.append((name, version, active))
                left -= count
                if left <= 0:
                    break
            self.leave_out(going)
        self.purge()
        return bool(going)

    def catch_up(self) -> None:
        """Index what the removal of many sessions left unindexed, and clean up if it is
        worthwhile."""
        with self.database.read() as db:
            newest = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()[0]
            behind = newest - search_index.indexed(db) >= search_index.BATCH
            garbage = search_index.garbage(db) > _GARBAGE * message_count(db)
        while behind:
            with self.database.write() as db:
                behind = search_index.catch_up_some(db)
        if garbage:
            self.purge()

    def purge(self) -> None:
        """Make what was removed unreadable: its words leave the index when the parts of the index
        are merged, its rows leave the log when the log starts over. Free pages go back to the file
        system."""
        with self.database.write() as db:
            if search_index.garbage(db):
                db.execute("INSERT INTO message_index (message_index) VALUES ('optimize')")
                search_index.forget_garbage(db)
            free, pages = pragma(db, "freelist_count"), pragma(db, "page_count")
        if free > _MANY * pages:
            with suppress(BusyError):
                self.database.script("PRAGMA incremental_vacuum")
        self.database.truncate_log()

    def places_of(self, hits: Sequence[Hit]) -> Sequence[int]:
        """The position of each hit in its session, counting from 1: message numbers in the index
        run across all sessions."""
        with self.database.read() as db:
            return [
                db.execute(
                    """
                    SELECT count(*) FROM messages
                    WHERE session = (SELECT number FROM sessions WHERE id = ?) AND number <= ?
                    """,
                    (each.session.id, each.message.number),
                ).fetchone()[0]
                for each in hits
            ]

    def used_bytes(self) -> int:
        """The size of the file without free pages."""
        return used_bytes(self.database.connection())

    def _note(self, fed: Sequence[tuple[str, str, int, float, str]]) -> None:
        with self.database.write() as db:
            db.executemany("INSERT OR REPLACE INTO fed VALUES (?, ?, ?, ?, ?)", fed)


def _portions(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Split by number and by length: one message may be as long as hundreds of others."""
    portion: list[Message] = []
    length = 0
    for message in messages:
        portion.append(message)
        length += len(message.content) if isinstance(message.content, str) else 0
        if len(portion) == _PORTION or length > _PORTION_TEXT:
            yield portion
            portion, length = [], 0
    if portion:
        yield portion


def _empty(session: Session) -> Session:
    """A session without its messages' totals. Its parent may be stored later, or never."""
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
