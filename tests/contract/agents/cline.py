"""Cline CLI 3.0.65: a run without the daemon, one that started a subagent, one that wrote a file
and was resumed in a terminal, and one that was killed in mid-answer."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, unpack

#: The folders that belong to sessions are called after their working directory, too.
SCRATCH = {
    "86a51659588ed673ee6e3f6307846b18": "1794804550205_3pu65",
    "7f1e83cab12b4fe9d818a0327fb18a55": "1794804580828_abhkb",
}
_held: list[int] = []


def make(root: Path, project: str = "/home/me/project/wwwwwwww") -> None:
    unpack("cline", ".cline/data", root)
    place_in(root, project)


def place_in(root: Path, project: str) -> None:
    """Sessions of the recorded home in another working directory."""
    with database(root) as db, db:
        db.execute("UPDATE sessions SET cwd = ?", (project,))
    for recorded, session in SCRATCH.items():
        name = sha256(f"{project}\0{session}".encode()).hexdigest()[:32]
        (root / "checkpoint-scratch" / recorded).rename(root / "checkpoint-scratch" / name)


def database(root: Path, name: str = "sessions") -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(root / "db" / f"{name}.db"))


def _touch(home: Home, name: str) -> None:
    with database(home.path) as db, db:
        db.execute("UPDATE sessions SET status = status || '!' WHERE session_id = ?", (name,))


def _renew(root: Path) -> None:
    with database(root) as db:
        db.execute("CREATE TABLE moods (session_id TEXT, mood TEXT)")


def _revive(home: Home, name: str) -> None:
    """The daemon starts, which may have any session."""
    lock = home.path / "locks" / "hub" / "production.json.instance.lock"
    _held.append(os.open(lock, os.O_RDWR | os.O_CREAT))
    fcntl.lockf(_held[-1], fcntl.LOCK_EX)


HOME = AgentHome(
    name="cline",
    people="Cline",
    folder=".cline/data",
    make=make,
    touch=_touch,
    renew=_renew,
    revive=_revive,
    whole="1794804550205_3pu65",
    file="sessions/1794804550205_3pu65/*.messages.json",
    sessions=5,
    database="db/sessions.db",
)
