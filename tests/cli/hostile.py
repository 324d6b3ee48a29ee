"""A home in which every text that Holdfast shows tries to steer the terminal."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast import Message
from holdfast.api.capture import open_recorder
from holdfast.api.sessions import open_sessions
from holdfast.homes.registry import open_home
from holdfast.model.session import Json
from holdfast.services.rollback import rollback
from tests.cli.every_command import say
from tests.cli.machine import DAY
from tests.git_remotes import bare

#: Every character that could do harm: controls, format characters, separators.
DANGEROUS = "".join(
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")
)
#: What a row, a message or a journal can hold: half a character too.
TEXT = f"\x1b]0;title\x07\x1b[31mred{DANGEROUS}\ud800\udcffend"
#: What the command line and the file system take: no NUL, no slash, at most 255 bytes.
WORD = "\x1b[31mred\x07\r\x9b31m\u202eevil\u2066\u200b\u2028\u2029\x7f\x85\udcff-end"
NAME = "\x1b[31m\x07\r\n\t\x9b\u202e\u2066\u200b\u2028\udcff.txt"

_SESSION = "20260101_090000_aaaaaa"
_OPEN = "20260102_090000_bbbbbb"
_ARCHIVED = "20260103_090000_cccccc"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where things are; `places` fills the braces of SENSIBLE."""

    root: Path
    places: Mapping[str, str]

    @property
    def home(self) -> Path:
        return self.root / "home"


def build(root: Path, now: float) -> World:
    home, project = root / "home", root / f"project {NAME}"
    root.mkdir(exist_ok=True)
    _sessions(home, now)
    checkpoint = _checkpoints(home, project, now)
    places = {
        "home": str(home),
        "session": _SESSION,
        "open": _OPEN,
        "project": str(project),
        "changed": str(project),
        "checkpoint": checkpoint,
        "exported": str(root / "exported.jsonl"),
    }
    at = ("--home", str(home))
    for words in (
        ("sessions", "archive", _ARCHIVED, "--yes"),
        ("sessions", "export", _SESSION, "--output", places["exported"]),
        ("sessions", "prune", "--title", WORD.replace("\udcff", ""), "--older-than", "1d", "--yes"),
        ("trash", "empty", "nothing", "--dry-run"),
        ("checkpoints", "remote", "add", "backup", str(bare(root / "remote.git"))),
        ("checkpoints", "push", "backup", "--all-projects"),
    ):
        say(*at, *words)
    (home / "checkpoints" / "machine").unlink()  # what was pushed is another machine's now
    _spoil(home)
    return World(root=root, places=places)


def copy(world: World, root: Path) -> World:
    """Another home like it; the project is shared."""
    shutil.copytree(world.home, root / "home", symlinks=True)
    fresh = {name: str(root / f"{name} {NAME}") for name in ("new", "plan")}
    return World(root=root, places={**world.places, "home": str(root / "home"), **fresh})


def _sessions(home: Path, now: float) -> None:
    at = [now - 100 * DAY]
    with open_sessions(home, clock=lambda: at[0]) as sessions:
        for number, each in enumerate((_SESSION, _OPEN, _ARCHIVED, "20260104_090000_dddddd")):
            sessions.create(source="cli", id=each, title="T", model="M", cwd="/c")
            contents: list[Json] = [f"word {TEXT}", [{"type": TEXT, "text": TEXT}, {TEXT: TEXT}]]
            for content in contents:
                sessions.append(
                    each,
                    Message(
                        role="user", content=content, tool_calls=[{"name": TEXT, "arguments": TEXT}]
                    ),
                    Message(role="tool", content=TEXT, tool_name="T"),
                )
            if number != 1:
                sessions.end(each)


def _spoil(home: Path) -> None:
    """Put the text where the library would refuse it: a file from elsewhere may hold anything."""
    text = TEXT.encode("utf-8", "replace").decode()
    with contextlib.closing(sqlite3.connect(home / "sessions.db")) as db, db:
        db.execute("UPDATE sessions SET title = ?1, model = ?1, cwd = ?1, source = ?1", (text,))
        db.execute("UPDATE sessions SET end_reason = ? WHERE ended_at IS NOT NULL", (text,))
        db.execute("UPDATE messages SET role = ?", (text,))
    for name in (f"session_{_OPEN}.json", f"request_dump_{_OPEN}_1.json", "session_x\x1b[31m.json"):
        (home / "sessions").mkdir(exist_ok=True)
        file = home / "sessions" / name
        file.write_text('{"platform": "\\u001b[31m"}')
        os.utime(file, (0, 0))
    (home / "sessions" / "session_20260105_090000_eeeeee.json").mkdir()


def _checkpoints(home: Path, project: Path, now: float) -> str:
    project.mkdir()
    (project / NAME).write_text("one\n")
    os.mkfifo(project / f"pipe {NAME}")
    reason = TEXT.encode("utf-8", "replace").decode().replace("\0", "")
    store = open_recorder(home, enabled=True, user_home=home).store
    first = store.take(project, reason=reason, now=now - DAY, session=reason, turn=reason)
    assert first.id is not None
    store.rename(store.get(first.id), reason)
    (project / NAME).write_text(f"two {WORD}\n", errors="surrogateescape")
    opened = open_home(home, clock=lambda: now)
    rollback(opened, store, first.id, command=reason, clock=lambda: now)
    opened.close()
    (project / NAME).write_text(f"three {WORD}\n", errors="surrogateescape")
    return first.id
