"""Kilo 7.7.7: four runs, one of them resumed, and one that was killed in mid-answer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, unpack


def _make(root: Path) -> None:
    unpack("kilo", ".local/share/kilo", root)


def _touch(home: Home, name: str) -> None:
    with closing(sqlite3.connect(home.path / "kilo.db")) as db, db:
        db.execute("UPDATE session SET time_updated = time_updated + 1 WHERE id = ?", (name,))


def _renew(root: Path) -> None:
    with closing(sqlite3.connect(root / "kilo.db")) as db:
        db.execute("CREATE TABLE mood (session_id TEXT, mood TEXT)")


HOME = AgentHome(
    name="kilo",
    people="Kilo",
    folder=".local/share/kilo",
    make=_make,
    touch=_touch,
    renew=_renew,
    whole="ses_e1d3fa52affen49Sg7xs20gfHV",
    file="kilo.db",
    sessions=4,
    database="kilo.db",
    words_in=("part", "data"),
)
