"""gptme 0.35.1: two conversations, one of them resumed, and one that was killed in the middle of an
answer."""

from __future__ import annotations

from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, append, hold, unpack

_FOLDER = ".local/share/gptme"


def make(root: Path) -> None:
    unpack("gptme", _FOLDER, root)


def touch(home: Home, name: str) -> None:
    said = {"role": "user", "content": "One more thing", "timestamp": "2026-11-16T04:40:00.000000"}
    append(home.path / "logs" / name / "conversation.jsonl", said)


def revive(home: Home, name: str) -> None:
    hold(home.path / "logs" / name / ".lock")


def renew(root: Path) -> None:
    for path in root.glob("logs/*/conversation.jsonl"):
        path.write_text(path.read_text().replace('"role"', '"speaker"'))


HOME = AgentHome(
    name="gptme",
    people="gptme",
    folder=_FOLDER,
    make=make,
    touch=touch,
    renew=renew,
    revive=revive,
    whole="lab-two",
    file="logs/lab-two/conversation.jsonl",
    sessions=3,
    trivial=14,
    anonymous=True,
)
