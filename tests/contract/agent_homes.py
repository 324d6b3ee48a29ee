"""Homes that real agents made, recorded by `tools/record_home.py`, as samples of the factory.

Claude Code 2.1.325, Codex 0.166.0, Gemini CLI 0.61.0, OpenCode 1.18.33: three runs without a
terminal, one of them resumed, an interactive one, and one that was killed in mid-answer.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

from holdfast import Home
from holdfast.homes.life import process_domain, start_ticks

DAY = 86_400.0
#: The homes were made on 2026-11-16.
NOW = 1_794_800_000.0 + 200 * DAY
_DATA = Path(__file__).parents[1] / "data" / "homes"
#: Locks last as long as a descriptor is open.
_held: list[int] = []


def recorded(agent: str, folder: str, root: Path) -> None:
    """The home as the agent left it, at `root`."""
    around = root.with_name(f"{root.name}.recorded")
    with tarfile.open(_DATA / f"{agent}.tar.xz") as tar:
        tar.extractall(around, filter="tar")
    (around / folder).rename(root)


def session_ids(home: Home) -> set[str]:
    """Without subagents, which stand inside their session."""
    return {each.id for each in home.sessions.find(roots=True)}


def make_claude(root: Path) -> None:
    """Its processes were of this machine, which the recording does not name."""
    recorded("claude-code", ".claude", root)
    for path in root.glob("sessions/*.json"):
        said = json.loads(path.read_text())
        path.write_text(json.dumps({**said, "pidDomain": process_domain()}))


def transcript(home: Home, name: str) -> Path:
    return next(home.path.glob(f"projects/*/{name}.jsonl"))


def touch_claude(home: Home, name: str) -> None:
    _append(transcript(home, name), {"type": "last-prompt", "sessionId": name})


def revive_claude(home: Home, name: str) -> None:
    me = os.getpid()
    said = {"pid": me, "sessionId": name, "procStart": start_ticks(me)}
    (home.path / "sessions" / f"{me}.json").write_text(json.dumps(said))


def renew_claude(root: Path) -> None:
    newest = max(root.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_mtime)
    _append(newest, {"type": "system", "version": "99.0.0"})


def make_codex(root: Path) -> None:
    recorded("codex", ".codex", root)


def touch_codex(home: Home, name: str) -> None:
    _append(next(home.path.glob(f"sessions/*/*/*/*{name}.jsonl")), {"type": "event_msg"})


def revive_codex(home: Home, name: str) -> None:
    path = home.path / "thread-writer-locks" / f"{name}.lock"
    _held.append(os.open(path, os.O_RDWR | os.O_CREAT))
    fcntl.flock(_held[-1], fcntl.LOCK_EX)


def renew_codex(root: Path) -> None:
    with closing(sqlite3.connect(root / "state_5.sqlite")) as db:
        db.execute("CREATE TABLE thread_moods (thread_id TEXT, mood TEXT)")


def make_gemini(root: Path) -> None:
    recorded("gemini", ".gemini", root)


def chat(home: Home, name: str) -> Path:
    return next(home.path.glob(f"tmp/*/chats/session-*-{name[:8]}.jsonl"))


def touch_gemini(home: Home, name: str) -> None:
    _append(chat(home, name), {"$set": {"summary": "another one"}})


def renew_gemini(root: Path) -> None:
    path = next(root.glob("tmp/*/chats/session-*.jsonl"))
    path.write_text(path.read_text().replace('"startTime"', '"begunAt"', 1))


def make_opencode(root: Path) -> None:
    recorded("opencode", ".local/share/opencode", root)


def touch_opencode(home: Home, name: str) -> None:
    with closing(sqlite3.connect(home.path / "opencode.db")) as db, db:
        db.execute("UPDATE session SET time_updated = time_updated + 1 WHERE id = ?", (name,))


def renew_opencode(root: Path) -> None:
    with closing(sqlite3.connect(root / "opencode.db")) as db:
        db.execute("CREATE TABLE mood (session_id TEXT, mood TEXT)")


def _append(path: Path, record: dict[str, object]) -> None:
    """As the agent would, a second later: the laws are about the content, not about the clock."""
    status = path.stat()
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
