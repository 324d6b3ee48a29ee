"""OpenClaw 2026.9.6: three sessions, the first one used twice, the last one with an event that is
long enough to be compressed."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import Home
from holdfast.homes.agents.signs_of_life import start_ticks
from tests.contract.agents.home import AgentHome, unpack

DATABASE = "agents/main/agent/openclaw-agent.sqlite"


def make(root: Path) -> None:
    unpack("openclaw", ".openclaw", root)


def touch(home: Home, name: str) -> None:
    with closing(sqlite3.connect(home.path / DATABASE)) as db, db:
        change = "UPDATE session_nodes SET label = 'another one' WHERE session_key = ?"
        db.execute(change, (name.replace(".", ":"),))


def revive(home: Home, name: str) -> None:
    said = {"pid": os.getpid(), "startTime": int(start_ticks(os.getpid()) or 0)}
    path = home.path / "tmp" / "openclaw-0" / "gateway.state.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said))


def renew(root: Path) -> None:
    with closing(sqlite3.connect(root / DATABASE)) as db:
        db.execute("PRAGMA user_version = 99")


HOME = AgentHome(
    name="openclaw",
    people="OpenClaw",
    folder=".openclaw",
    make=make,
    touch=touch,
    renew=renew,
    revive=revive,
    database=DATABASE,
    whole="agent.main.explicit.lab-one",
    file=DATABASE,
    words_in=("transcript_events", "event_json"),
    sessions=3,
)
