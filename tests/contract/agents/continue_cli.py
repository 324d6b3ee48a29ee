"""Continue CLI 1.5.47: four sessions without a terminal, two of them resumed, one killed in
mid-answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from holdfast import Home
from tests.contract.agents.home import AgentHome, unpack


def make(root: Path) -> None:
    unpack("continue", ".continue", root)


def _touch(home: Home, name: str) -> None:
    _rewrite(home.path / "sessions" / f"{name}.json", title="Another title")


def _renew(root: Path) -> None:
    for path in root.glob("sessions/*-*.json"):
        said = json.loads(path.read_text())
        said["turns"] = said.pop("history")
        path.write_text(json.dumps(said, indent=2))


def _rewrite(path: Path, **fields: Any) -> None:
    status = path.stat()
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}, indent=2))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


HOME = AgentHome(
    name="continue",
    people="Continue",
    folder=".continue",
    make=make,
    touch=_touch,
    renew=_renew,
    whole="ef98d7a0-3d12-4a40-ba9a-2b26d42d36c6",
    file="sessions/ef98d7a0-*.json",
    sessions=4,
    timeless=True,
)
