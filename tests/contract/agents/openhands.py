"""OpenHands 1.16.0: three conversations without a terminal, one of them resumed, and one killed in
mid-answer."""

from __future__ import annotations

import json
import os
from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, unpack


def make(root: Path) -> None:
    unpack("openhands", ".openhands", root)


#: The conversation that `add_subagent` makes one of a subagent.
CHILD = "9766ae2a9ff1496a96a281cfbd92fa52"


def add_subagent(root: Path) -> None:
    """A conversation in the folder of the one that asked it, as the real agent leaves it."""
    old = root / "conversations" / CHILD
    inside = root / "conversations" / HOME.whole / "subagents"
    inside.mkdir()
    old.rename(inside / CHILD)


def _touch(home: Home, name: str) -> None:
    path = home.path / "conversations" / name / "base_state.json"
    status = path.stat()
    path.write_text(path.read_text() + " ")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


def _renew(root: Path) -> None:
    for path in root.glob("conversations/*/base_state.json"):
        said = json.loads(path.read_text())
        said["place"] = said.pop("workspace")
        path.write_text(json.dumps(said))


HOME = AgentHome(
    name="openhands",
    people="OpenHands",
    folder=".openhands",
    make=make,
    touch=_touch,
    renew=_renew,
    whole="85cabad75275497c8b2551688ab5828f",
    file="conversations/85cabad7*/events/event-00004-*.json",
    sessions=3,
    alone=False,
)
