"""droid 0.215.0: six sessions without a terminal, two of them resumed, two killed in mid-answer."""

from __future__ import annotations

from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, append, unpack


def make(root: Path) -> None:
    unpack("droid", ".factory", root)


def _touch(home: Home, name: str) -> None:
    append(next(home.path.glob(f"sessions/*/{name}.jsonl")), {"type": "agent_turn_outcome"})


def _renew(root: Path) -> None:
    newest = max(root.glob("sessions/*/*.jsonl"), key=lambda path: path.stat().st_mtime)
    newest.write_text(newest.read_text().replace('"version":2', '"version":99', 1))


HOME = AgentHome(
    name="droid",
    people="droid",
    folder=".factory",
    make=make,
    touch=_touch,
    renew=_renew,
    whole="a51efc46-6834-4500-bb4b-1ecd7022cceb",
    file="sessions/*/a51efc46-*.jsonl",
    sessions=5,
)
