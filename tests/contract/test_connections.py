"""Every SQLite connection is closed by whoever opened it, also when something goes wrong.

`tests/connections.py` watches this in all tests; these make the cases that are hard to hit.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.homes.hermes.home import HermesHome
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.holdfast import HoldfastHome
from holdfast.stores.sqlite import pages, schema
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests import connections


def test_the_watch_sees_a_connection_that_was_dropped(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "lost.db")
    [lost] = connections.left_open(thorough=True)
    assert "test_connections.py" in lost


@pytest.mark.parametrize("kind", [Database, HermesDatabase])
@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_file_that_is_no_database(tmp_path: Path, kind: type[Database], content: bytes) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(content)
    options = {"create": False} if kind is Database else {}
    with pytest.raises(HoldfastError):
        kind(path, **options)
    assert connections.left_open(thorough=True) == []


def test_a_store_in_a_cycle_closes_before_its_connections_go(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "sessions.db")
    store.cycle = [store]  # type: ignore[attr-defined]
    del store
    assert connections.left_open(thorough=True) == []


def test_a_pattern_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("no such module: fts5")

    monkeypatch.setattr(schema, "migrate", fail)
    with pytest.raises(sqlite3.OperationalError):
        schema.pattern()
    assert connections.left_open(thorough=True) == []


def test_a_copy_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    path.write_bytes(b"x" * 4096)
    pages.opens(path)
    assert connections.left_open(thorough=True) == []


@pytest.mark.parametrize("kind", [HoldfastHome, HermesHome])
def test_a_closed_home_opens_again(tmp_path: Path, kind: type[HoldfastHome | HermesHome]) -> None:
    SqliteSessionStore(tmp_path / "sessions.db").close()
    with sqlite3.connect(tmp_path / "state.db") as db:
        db.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY)")
    db.close()
    home = kind(tmp_path, clock=lambda: 0.0)
    first: Any = home.session_store()
    assert first is not None
    home.close()
    home.close()
    with pytest.raises(HoldfastError, match="closed"):
        first.database.connection()
    second: Any = home.session_store()
    assert second is not None
    assert second.database.connection().execute("SELECT 1").fetchone() == (1,)
    home.close()
