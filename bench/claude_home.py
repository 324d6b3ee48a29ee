"""A home of Claude Code as large as you like: the same on every run.

As in real ones, most bytes are no messages: snapshots of prompts, shapes of requests, results of
tools once more as objects. Standard library only.
"""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

from corpus import messages

_VERSION = "2.1.325"
_MODEL = "claude-opus-5-5"
_PROJECTS = 40
_HOUR = 3600.0
#: Sizes of sessions, in parts of the average.
_SIZES = (0.3, 0.6, 1.0, 1.0, 1.1, 2.0)
_SHORT, _LONG = 160, 4000


class Session:
    """One transcript in the making."""

    def __init__(self, chance: random.Random, texts: Iterator[str], *, cwd: str, at: float) -> None:
        self._chance = chance
        self._texts = texts
        self._cwd = cwd
        self.at = at
        self.id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        self.lines: list[str] = []
        self.bytes = 0

    def write(self, size: float) -> None:
        self._said("user", {"role": "user", "content": self._text(_SHORT)})
        prompt = [self._text(_LONG), self._text(_LONG)]
        self._add(type="attachment", attachment={"type": "prompt_snapshot", "systemPrompt": prompt})
        while self.bytes < size:
            self._turn()

    def _turn(self) -> None:
        message, tool = f"msg_{self._number(64)}", f"toolu_{self._number(64)}"
        result = self._text(self._chance.choice((_SHORT, 4 * _SHORT, _LONG)))
        self._answer(message, {"type": "text", "text": self._text(3 * _SHORT)})
        call = {"command": self._text(_SHORT // 2)}
        self._answer(message, {"type": "tool_use", "id": tool, "name": "Bash", "input": call})
        block = {"type": "tool_result", "tool_use_id": tool, "content": result}
        said = {"role": "user", "content": [block]}
        self._said("user", said, toolUseResult={"stdout": result})
        if self._chance.random() < 0.3:
            blob = {"role": "user", "content": self._text(_LONG)}
            self._add(type="api-request-blob", hash=self._number(200), message=blob)
        if self._chance.random() < 0.2:
            self._said("user", {"role": "user", "content": self._text(_SHORT)})

    def _answer(self, message: str, block: dict[str, Any]) -> None:
        usage = {"input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 50}
        said = {"id": message, "role": "assistant", "model": _MODEL, "content": [block]}
        self._said("assistant", {**said, "usage": {**usage, "cache_read_input_tokens": 1000}})

    def _said(self, kind: str, message: dict[str, Any], **more: object) -> None:
        self._add(type=kind, message=message, isSidechain=False, **more)

    def _add(self, **record: object) -> None:
        self.at += self._chance.random() * 30
        line = {
            **record,
            "uuid": str(uuid.UUID(int=self._chance.getrandbits(128))),
            "timestamp": datetime.fromtimestamp(self.at, UTC).isoformat().replace("+00:00", "Z"),
            "userType": "external",
            "entrypoint": "cli",
            "cwd": self._cwd,
            "sessionId": self.id,
            "version": _VERSION,
            "gitBranch": "main",
        }
        self.lines.append(json.dumps(line, separators=(",", ":")))
        self.bytes += len(self.lines[-1]) + 1

    def _text(self, length: int) -> str:
        text = next(self._texts)
        while len(text) < length:
            text += f" {next(self._texts)}"
        return text[:length]

    def _number(self, bits: int) -> str:
        return f"{self._chance.getrandbits(bits):x}"


def make(root: Path, *, sessions: int, megabytes: float, newest: float, seed: int = 1) -> None:
    """Write a home whose sessions follow each other by the hour, the last one at `newest`."""
    chance = random.Random(seed)
    texts = cycle(messages(4000, seed))
    (root / "sessions").mkdir(parents=True)
    (root / "settings.json").write_text("{}")
    average = megabytes * 1e6 / sessions
    for number in range(sessions):
        cwd = f"/home/me/work/p{number % _PROJECTS}"
        folder = root / "projects" / cwd.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        made = Session(chance, texts, cwd=cwd, at=newest - (sessions - number) * _HOUR)
        made.write(average * chance.choice(_SIZES))
        path = folder / f"{made.id}.jsonl"
        path.write_text("\n".join(made.lines) + "\n")
        os.utime(path, (made.at, made.at))
