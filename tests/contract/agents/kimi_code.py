"""Kimi Code 2.1.0: two sessions, one of them resumed, and one that was killed in the middle of an
answer and left marks that nobody removes."""

from __future__ import annotations

from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, append, unpack


def make(root: Path) -> None:
    unpack("kimi-code", ".kimi-code", root)


def touch(home: Home, name: str) -> None:
    [path] = home.path.glob(f"sessions/*/{name}/agents/main/wire.jsonl")
    append(path, {"type": "turn.ended", "agentId": "main", "turnId": 9})


def renew(root: Path) -> None:
    for path in root.glob("sessions/*/*/state.json"):
        path.write_text(path.read_text().replace('"version":2', '"version":9'))


HOME = AgentHome(
    name="kimi-code",
    people="Kimi Code",
    folder=".kimi-code",
    make=make,
    touch=touch,
    renew=renew,
    whole="session_9b1b17a9-1181-4a9d-8050-d6dcb8ae7266",
    file="sessions/*/session_9b1b17a9*/agents/main/wire.jsonl",
    sessions=3,
    anonymous=True,
)
