"""A home with stored sessions, made from lines of JSONL, and all that a user can see of it."""

from __future__ import annotations

import io
import json
import os
import random
import stat
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.model.session import Message, Search, Session, SessionFilter
from holdfast.model.stored_session import Holder
from holdfast.model.usage import CostTotals
from holdfast.policy.prices import Prices, costs
from holdfast.ports.sessions import SessionStore
from holdfast.services.exchange.session_import import import_sessions
from holdfast.stores import processes
from holdfast.stores.sessions.survey import LifeSigns
from holdfast.stores.sqlite.moves import SqliteEngine
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore, delete

#: In every message, so that a search finds them all.
WORD = "zebra"
_EVERY_HIT = 1_000_000


def usage_of(store: SessionStore) -> CostTotals:
    """Everything that was ever used, as the ledger of a store says it."""
    return costs(store.usage_entries(), Prices())


def a_line(
    session_id: str,
    *,
    at: float,
    messages: int = 6,
    tokens: int = 0,
    cost: float = 0.0,
    size: int = 40,
    **fields: Any,
) -> dict[str, Any]:
    """A session that ended at a time and was last active then; a field that is given replaces the
    one here. `tokens` and `cost` are those of each message."""
    noise = random.Random(session_id).randbytes(size // 2).hex()  # nothing that could be packed
    said = f"{WORD} {session_id} {noise}"
    spoken = [
        {"role": "user", "content": said, "timestamp": at, "tokens": tokens, "cost": cost}
        for _ in range(messages)
    ]
    made = {
        "id": session_id,
        "source": "cli",
        "started_at": at,
        "ended_at": at,
        "end_reason": "done",
        "messages": spoken,
    }
    return made | fields


def an_open_line(session_id: str, *, at: float, **fields: Any) -> dict[str, Any]:
    return a_line(session_id, at=at, **fields) | {"ended_at": None, "end_reason": None}


def bring_in(root: Path, lines: Iterable[dict[str, Any]], *, now: float) -> None:
    """Import lines into the store of a home; the home is made when there is none."""
    with closing(SqliteSessionStore(root / "sessions.db")) as store:
        stream = io.BytesIO(b"".join(json.dumps(each).encode() + b"\n" for each in lines))
        report = import_sessions(SqliteImport(store, None), stream, replace=False, now=now)
        assert (report.refused, report.skipped) == ((), ())


def opened(root: Path) -> closing[SqliteSessionStore]:
    """The store of a home, as an agent has it open."""
    return closing(SqliteSessionStore(root / "sessions.db", create=False))


def file_of(store: SessionStore | None) -> SqliteSessionStore:
    """The store of a home that has it in a file, for a test that looks inside."""
    assert isinstance(store, SqliteSessionStore)
    return store


def a_dead_holder() -> Holder:
    """A process id that is in use again: the process that had it is provably gone."""
    return replace(processes.this_process(), started="1")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFile:
    """What undo must give back of one file: type and mode, time, content or link target."""

    mode: int
    mtime_ns: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A home as its user and its agents see it; messages with their numbers."""

    sessions: dict[str, Session]
    messages: dict[str, list[Message]]
    leases: dict[str, list[Lease]]
    hits: set[int]
    files: dict[str, SeenFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A row of the store: who holds or held a session."""

    session_id: str
    holder: Holder
    heartbeat: float
    released: bool


def leases_of(store: SqliteSessionStore, session_id: str) -> list[Lease]:
    with store.database.read() as db:
        rows = db.execute(
            """
            SELECT s.id, l.heartbeat, l.released, l.host, l.boot, l.process, l.started
            FROM sessions s JOIN leases l ON l.session = s.number WHERE s.id = ?
            """,
            (session_id,),
        ).fetchall()
    return [
        Lease(
            session_id=found,
            holder=Holder(host=host, boot=boot, process=process, started=started),
            heartbeat=heartbeat,
            released=bool(released),
        )
        for found, heartbeat, released, host, boot, process, started in rows
    ]


def see(root: Path) -> Seen:
    with opened(root) as store:
        sessions = {session.id: session for session in store.find(SessionFilter())}
        messages = {name: list(store.messages(name)) for name in sessions}
        hits = {hit.message.number or 0 for hit in _hits(store)}
        leases = {name: leases_of(store, name) for name in sessions}
    numbers = {each.number for said in messages.values() for each in said}
    assert hits == numbers, "search and store differ"
    return Seen(
        sessions=sessions, messages=messages, leases=leases, hits=hits, files=see_files(root)
    )


def _hits(store: SqliteSessionStore) -> Iterable[Any]:
    return store.search(Search(text=WORD, wanted=SessionFilter(), limit=_EVERY_HIT))


def see_files(root: Path) -> dict[str, SeenFile]:
    folder = root / "sessions"
    return {path.name: _file(path) for path in sorted(folder.iterdir())} if folder.exists() else {}


def _file(path: Path) -> SeenFile:
    status = path.lstat()
    content = b""
    if stat.S_ISLNK(status.st_mode):
        content = os.fsencode(path.readlink())
    elif stat.S_ISREG(status.st_mode):
        content = path.read_bytes()
    return SeenFile(mode=status.st_mode, mtime_ns=status.st_mtime_ns, content=content)


def remove_rows(store: SqliteSessionStore, session_id: str) -> None:
    """Take a session out of its store as if it had its copy elsewhere."""
    with store.database.write() as db:
        [number] = db.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()
        delete(db, [number])


def put_rows_back(store: SqliteSessionStore, bundle: Path, *ids: str) -> None:
    """Bring sessions back from a bundle, as an undo does."""
    engine = SqliteEngine(store, lambda: 0.0, LifeSigns(is_dead=lambda _: True, abandoned_after=0))
    with engine.transaction():
        engine.put_back(bundle, ids)


def check_whole(root: Path) -> None:
    """The database, its references and its search index are as they should be."""
    with opened(root) as store, store.database.write() as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")


def disk_bytes(*places: Path) -> int:
    """What the file system says that files and everything below folders take."""
    return sum(
        path.lstat().st_blocks * 512
        for place in places
        for path in [place, *place.rglob("*")]
        if path.is_symlink() or path.is_file()
    )
