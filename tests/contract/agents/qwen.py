"""Qwen Code 0.24.4: three runs without a terminal, one of them resumed, an interactive one that
wrote a file and started a subagent, and one that was killed in mid-answer."""

from __future__ import annotations

import json
import os
from pathlib import Path

from holdfast import Home
from holdfast.homes.agents.signs_of_life import start_ticks
from tests.contract.agents.home import AgentHome, append, unpack


def _make(root: Path) -> None:
    unpack("qwen", ".qwen", root)


def _chat(home: Home, name: str) -> Path:
    return next(home.path.glob(f"projects/*/chats/{name}.jsonl"))


def _revive(home: Home, name: str) -> None:
    me = os.getpid()
    said = {"pid": me, "sessionId": name, "procStart": f"boot:{start_ticks(me)}"}
    (home.path / "sessions" / f"{me}.json").write_text(json.dumps(said, indent=2))


def _renew(root: Path) -> None:
    newest = max(root.glob("projects/*/chats/*.jsonl"), key=lambda path: path.stat().st_mtime)
    append(newest, {"type": "system", "version": "99.0.0"})


HOME = AgentHome(
    name="qwen",
    people="Qwen Code",
    folder=".qwen",
    make=_make,
    touch=lambda home, name: append(_chat(home, name), {"type": "system", "sessionId": name}),
    renew=_renew,
    revive=_revive,
    whole="925d0b84-cedd-417c-80a5-1b49e4e431ca",
    file="projects/*/chats/925d0b84*.jsonl",
    sessions=5,
)
