"""pi 0.73.1: four sessions without a terminal, two of them resumed, one killed in mid-answer."""

from __future__ import annotations

from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, append, unpack


def make(root: Path) -> None:
    unpack("pi", ".pi/agent", root)


def _touch(home: Home, name: str) -> None:
    append(_file(home.path, name), {"type": "label", "id": "00000000", "label": "mine"})


def _renew(root: Path) -> None:
    newest = max(root.glob("sessions/*/*.jsonl"), key=lambda path: path.stat().st_mtime)
    newest.write_text(newest.read_text().replace('"version":3', '"version":99', 1))


def _file(root: Path, name: str) -> Path:
    return next(root.glob(f"sessions/*/*_{name}.jsonl"))


HOME = AgentHome(
    name="pi",
    people="pi",
    folder=".pi/agent",
    make=make,
    touch=_touch,
    renew=_renew,
    whole="01a1e2aa-bd3e-7128-b985-330956bd1539",
    file="sessions/*/*_01a1e2aa-bd3e-*.jsonl",
    sessions=4,
)
