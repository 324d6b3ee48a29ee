"""Homes that real agents made, recorded by `tools/record_home.py`, as samples of the factory.

Claude Code 2.1.325, Codex 0.166.0, Gemini CLI 0.61.0, OpenCode 1.18.33: three runs without a
terminal, one of them resumed, an interactive one, and one that was killed in mid-answer.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import Home
from holdfast.homes.agents.signs_of_life import process_domain, start_ticks
from tests.contract.agents.home import AgentHome, append, hold, unpack

DAY = 86_400.0
#: The homes were made on 2026-11-16.
NOW = 1_794_800_000.0 + 200 * DAY


def session_ids(home: Home) -> set[str]:
    """Without subagents, which stand inside their session."""
    return {each.id for each in home.sessions.find(roots=True)}


def make_claude(root: Path) -> None:
    """Its processes were of this machine, which the recording does not name."""
    unpack("claude-code", ".claude", root)
    for path in root.glob("sessions/*.json"):
        said = json.loads(path.read_text())
        path.write_text(json.dumps({**said, "pidDomain": process_domain()}))


def transcript(home: Home, name: str) -> Path:
    return next(home.path.glob(f"projects/*/{name}.jsonl"))


def touch_claude(home: Home, name: str) -> None:
    append(transcript(home, name), {"type": "last-prompt", "sessionId": name})


def revive_claude(home: Home, name: str) -> None:
    me = os.getpid()
    said = {"pid": me, "sessionId": name, "procStart": start_ticks(me)}
    (home.path / "sessions" / f"{me}.json").write_text(json.dumps(said))


def renew_claude(root: Path) -> None:
    newest = max(root.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_mtime)
    append(newest, {"type": "system", "version": "99.0.0"})


def make_codex(root: Path) -> None:
    unpack("codex", ".codex", root)


def touch_codex(home: Home, name: str) -> None:
    append(next(home.path.glob(f"sessions/*/*/*/*{name}.jsonl")), {"type": "event_msg"})


def revive_codex(home: Home, name: str) -> None:
    hold(home.path / "thread-writer-locks" / f"{name}.lock")


def renew_codex(root: Path) -> None:
    with closing(sqlite3.connect(root / "state_5.sqlite")) as db:
        db.execute("CREATE TABLE thread_moods (thread_id TEXT, mood TEXT)")


def make_gemini(root: Path) -> None:
    unpack("gemini", ".gemini", root)


def chat(home: Home, name: str) -> Path:
    return next(home.path.glob(f"tmp/*/chats/session-*-{name[:8]}.jsonl"))


def touch_gemini(home: Home, name: str) -> None:
    append(chat(home, name), {"$set": {"summary": "another one"}})


def renew_gemini(root: Path) -> None:
    path = next(root.glob("tmp/*/chats/session-*.jsonl"))
    path.write_text(path.read_text().replace('"startTime"', '"begunAt"', 1))


def make_opencode(root: Path) -> None:
    unpack("opencode", ".local/share/opencode", root)


def touch_opencode(home: Home, name: str) -> None:
    with closing(sqlite3.connect(home.path / "opencode.db")) as db, db:
        db.execute("UPDATE session SET time_updated = time_updated + 1 WHERE id = ?", (name,))


def renew_opencode(root: Path) -> None:
    with closing(sqlite3.connect(root / "opencode.db")) as db:
        db.execute("CREATE TABLE mood (session_id TEXT, mood TEXT)")


FOUR = (
    AgentHome(
        name="claude-code",
        people="Claude Code",
        folder=".claude",
        make=make_claude,
        touch=touch_claude,
        renew=renew_claude,
        revive=revive_claude,
        whole="9ef6511f-b4c0-4f86-8f80-e160f2b5b17f",
        file="projects/*/9ef6511f*.jsonl",
        sessions=5,
    ),
    AgentHome(
        name="codex",
        people="Codex",
        folder=".codex",
        make=make_codex,
        touch=touch_codex,
        renew=renew_codex,
        revive=revive_codex,
        database="state_5.sqlite",
        whole="01a1e1fd-70c0-7792-a4d6-c7beb94ec621",
        file="sessions/*/*/*/*-01a1e1fd-70c0*.jsonl",
        sessions=4,
    ),
    AgentHome(
        name="gemini",
        people="Gemini CLI",
        folder=".gemini",
        make=make_gemini,
        touch=touch_gemini,
        renew=renew_gemini,
        whole="325eb53c-6202-4a7f-aba8-cc0393484994",
        file="tmp/*/chats/*-325eb53c.jsonl",
        sessions=4,
    ),
    AgentHome(
        name="opencode",
        people="OpenCode",
        folder=".local/share/opencode",
        make=make_opencode,
        touch=touch_opencode,
        renew=renew_opencode,
        database="opencode.db",
        whole="ses_e1e00e40dffe9sOJcHqZsbpE5X",
        file="opencode.db",
        words_in=("part", "data"),
        sessions=3,
    ),
)
