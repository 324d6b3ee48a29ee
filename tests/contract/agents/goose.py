"""Goose 1.34.0: three runs without a terminal, one of them resumed, an interactive one, and one
that was killed in the middle of an answer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import Home
from tests.contract.agents.home import AgentHome, unpack

_FOLDER = ".local/share/goose"
_DATABASE = "sessions/sessions.db"


def make(root: Path) -> None:
    """At its usual place, with the logs that lie beside it."""
    around = unpack("goose", _FOLDER, root)
    if str(root).endswith(_FOLDER):
        (around / ".local/state").rename(root.parents[1] / "state")


def touch(home: Home, name: str) -> None:
    with closing(sqlite3.connect(home.path / _DATABASE)) as db, db:
        db.execute("UPDATE sessions SET name = 'another one' WHERE id = ?", (name,))


def renew(root: Path) -> None:
    with closing(sqlite3.connect(root / _DATABASE)) as db, db:
        db.execute("INSERT INTO schema_version (version) VALUES (99)")


HOME = AgentHome(
    name="goose",
    people="Goose",
    folder=_FOLDER,
    make=make,
    touch=touch,
    renew=renew,
    database=_DATABASE,
    whole="20261116_2",
    file=_DATABASE,
    words_in=("messages", "content_json"),
    sessions=4,
)
