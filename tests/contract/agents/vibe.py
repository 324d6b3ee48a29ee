"""Mistral Vibe 3.0.2: two sessions, one of them resumed, and one that was killed in the middle of
an answer, with its lock files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, hold, unpack

_UNIFIED = "logs/session/unified"


def make(root: Path) -> None:
    unpack("vibe", ".vibe", root)


def touch(home: Home, name: str) -> None:
    """Named by its user."""
    path = home.path / _UNIFIED / name / "meta.json"
    status = path.stat()
    path.write_text(json.dumps({**json.loads(path.read_text()), "title": "another one"}))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


def revive(home: Home, name: str) -> None:
    hold(home.path / "logs/session/active" / f"{name}.lock")


def renew(root: Path) -> None:
    for path in root.glob(f"{_UNIFIED}/*/CURRENT"):
        path.write_text(path.read_text().replace("session-store/v1", "session-store/v9"))


def add_subagent(root: Path) -> str:
    """A subagent of the whole session, as Vibe leaves one; its id. It has no meta.json."""
    sessions = root / _UNIFIED
    child = sessions / "child-ae909952595d7c9794382cd6"
    shutil.copytree(sessions / "628a66be-cd97-da6e-c1d4-f1721ded992c", child)
    (child / "meta.json").unlink()
    for path in (*child.glob("generations/*/*.json"), *child.glob("journal/*.jsonl")):
        status = path.stat()
        text = path.read_text()
        named = text.replace('"parentSessionId":null', f'"parentSessionId":"{HOME.whole}"')
        path.write_text(named)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return child.name


HOME = AgentHome(
    name="vibe",
    people="Mistral Vibe",
    folder=".vibe",
    make=make,
    touch=touch,
    renew=renew,
    revive=revive,
    whole="4f1c6edb-4a39-7a6f-0a3d-be160f43c436",
    file="",
    sessions=3,
)
