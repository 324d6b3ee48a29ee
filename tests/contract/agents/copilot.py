"""Copilot CLI 1.0.102: three runs without a terminal, one of them resumed, an interactive one that
changed a file, and one that was killed in mid-answer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, append, hold, unpack


def _make(root: Path) -> None:
    unpack("copilot", ".copilot", root)


def _folder(home: Home, name: str) -> Path:
    return home.path / "session-state" / name


def _renew(root: Path) -> None:
    with closing(sqlite3.connect(root / "session-store.db")) as db, db:
        db.execute("UPDATE schema_version SET version = 99")


HOME = AgentHome(
    name="copilot",
    people="Copilot CLI",
    folder=".copilot",
    make=_make,
    touch=lambda home, name: append(
        _folder(home, name) / "events.jsonl", {"type": "session.resume"}
    ),
    renew=_renew,
    revive=lambda home, name: hold(_folder(home, name) / "inuse.1.hold"),
    whole="ce7b9b1a-ecf8-474e-98b1-56e26dc41acf",
    file="session-state/ce7b9b1a*/events.jsonl",
    sessions=4,
    database="session-store.db",
)
