"""A machine of its own for each test: a user, a home with session files, and the command."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.runner import Result, Terminal, environment, on_terminal, run

DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What undo must give back of one file: type and mode, time, content or link target."""

    mode: int
    mtime_ns: int
    content: bytes


def entries(folder: Path) -> dict[str, Entry]:
    """Everything below a folder, the folder itself too."""
    found = {".": _entry(folder)}
    for path in sorted(folder.rglob("*")):
        found[os.fsdecode(os.fsencode(path.relative_to(folder)))] = _entry(path)
    return found


def _entry(path: Path) -> Entry:
    status = path.lstat()
    content = b""
    if stat.S_ISLNK(status.st_mode):
        content = os.fsencode(os.readlink(path))  # noqa: PTH115 - the target as it is written
    elif stat.S_ISREG(status.st_mode):
        content = path.read_bytes()
    return Entry(mode=status.st_mode, mtime_ns=status.st_mtime_ns, content=content)


@dataclass(slots=True, kw_only=True)
class Machine:
    """`home` is the usual one of `user`; commands work on it unless told otherwise."""

    root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _made: int = 0

    @property
    def user(self) -> Path:
        return self.root / "user"

    @property
    def home(self) -> Path:
        return self.user / ".holdfast"

    @property
    def sessions(self) -> Path:
        return self.home / "sessions"

    @property
    def trash(self) -> Path:
        return self.home / "trash"

    def env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return environment(self.user, **self.environment, **(more or {}))

    def run(
        self,
        *args: str | bytes,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        cwd: Path | None = None,
        before: Sequence[str] = (),
    ) -> Result:
        return run(args, self.env(env), stdin=stdin, cwd=cwd or self.root, before=before)

    def ok(self, *args: str, env: Mapping[str, str] | None = None) -> Result:
        """A run that must succeed."""
        result = self.run(*args, env=env)
        assert result.code == 0, result
        return result

    def json(self, *args: str, code: int = 0, env: Mapping[str, str] | None = None) -> Any:
        """The document of a run that must end with `code`."""
        result = self.run("--json", *args, env=env)
        assert result.code == code, result
        return result.document

    def terminal(
        self,
        *args: str,
        columns: int = 80,
        pipe_stdout: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[Terminal]:
        return on_terminal(args, self.env(env), columns=columns, pipe_stdout=pipe_stdout)

    def transcript(
        self, days: float = 100, *, source: str = "cli", kb: int = 4, home: Path | None = None
    ) -> Path:
        """A transcript last touched this many days ago, with a name of its own."""
        self._made += 1
        session = f"20250101_000000_{self._made:06x}"
        body = {"session_id": session, "platform": source, "messages": ["x" * (kb * 1000 - 200)]}
        folder = (home or self.home) / "sessions"
        return self.file(folder / f"session_{session}.json", days, json.dumps(body))

    def numbered(self, number: int) -> Path:
        """The place of the transcript that was made as the first, second, …"""
        return self.sessions / f"session_20250101_000000_{number:06x}.json"

    def dump(self, of: Path, days: float = 100) -> Path:
        """A request dump that belongs to the session of a transcript."""
        session = of.stem.removeprefix("session_")
        return self.file(of.parent / f"request_dump_{session}_20250101_000000.json", days, "{}")

    def file(self, path: Path, days: float = 100, content: str = "mine") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o640)
        return age(path, days)

    def configure(self, text: str) -> Path:
        self.home.mkdir(parents=True, exist_ok=True)
        path = self.home / "config.toml"
        path.write_text(text)
        return path

    def names(self) -> set[str]:
        """What is in sessions/ now."""
        return {path.name for path in self.sessions.iterdir()}


def age(path: Path, days: float) -> Path:
    """Make a file look untouched for this long; of a link, the link itself."""
    moment = time.time_ns() - int(days * DAY * 10**9)
    os.utime(path, ns=(moment, moment), follow_symlinks=False)
    return path


def removals(document: Any) -> list[str]:
    """The ids that the plan of a document removes."""
    items = document["plan"]["items"]
    return sorted(item["id"] for item in items if item["action"] == "remove")


def reasons(document: Any) -> dict[str, str]:
    """Why each item of a plan stays or goes."""
    return {item["id"]: item["reason"] for item in document["plan"]["items"]}


def item_id(path: Path) -> str:
    return f"sessions/{path.name}"
