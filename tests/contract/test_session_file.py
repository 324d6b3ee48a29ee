"""What the file of the SQLite store promises: private, refused when it is not ours or damaged."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import (
    DamageError,
    SchemaError,
    StorageError,
)
from holdfast.stores.sessions.session_rows import SQLITE
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.contract.test_session_store import ID, NOW, a_session, contents, said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSessionStore]:
    opened = SqliteSessionStore(path)
    yield opened
    opened.close()


def test_the_store_is_private(store: SqliteSessionStore, path: Path) -> None:
    store.create(a_session())
    for name in ("sessions.db", "sessions.db-wal", "sessions.db-shm"):
        assert stat.S_IMODE((path.parent / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_was_stored_is_there_after_reopening(path: Path) -> None:
    first = SqliteSessionStore(path)
    first.create(a_session())
    first.append(ID, [said("x")], now=NOW)
    first.close()
    second = SqliteSessionStore(path, create=False)
    assert contents(second) == ["x"]
    second.close()
    with pytest.raises(StorageError, match="closed"):
        second.get(ID)


def test_a_page_of_the_list_sorts_nothing(store: SqliteSessionStore, path: Path) -> None:
    """The index is for the order of lists as it is spelled there, letter by letter."""
    store.create(a_session())
    with sqlite3.connect(path) as db:
        order = f"{SQLITE.last_active} DESC, s.number DESC"
        asked = "EXPLAIN QUERY PLAN SELECT s.number FROM sessions s ORDER BY "
        plan = [row[-1] for row in db.execute(f"{asked}{order} LIMIT 20")]
    db.close()
    assert len(plan) == 1
    assert plan[0].endswith("INDEX sessions_by_last_use")


def test_a_newer_schema_is_refused_untouched(path: Path) -> None:
    SqliteSessionStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {schema.LATEST + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(SchemaError, match="newer version"):
        SqliteSessionStore(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_untouched(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(SchemaError, match="not a session store"):
        SqliteSessionStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "garbage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"?" * 5_000]
)
def test_a_damaged_file_is_refused_untouched(path: Path, garbage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(garbage)
    with pytest.raises(DamageError):
        SqliteSessionStore(path)
    assert path.read_bytes() == garbage


def test_a_torn_page_is_damage_not_a_crash(path: Path) -> None:
    store = SqliteSessionStore(path)
    store.create(a_session())
    store.append(ID, [said(os.urandom(2_000).hex()) for _ in range(200)], now=NOW)
    store.close()
    data = bytearray(path.read_bytes())
    for page in range(40, len(data) // 4096, 2):  # behind the list of tables
        data[page * 4096 : page * 4096 + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    torn = SqliteSessionStore(path)
    with pytest.raises(DamageError) as caught:
        list(torn.messages(ID))
    assert "doctor" in str(caught.value.hint)
    torn.close()


def test_a_file_replaced_under_an_open_store_takes_no_writes(
    store: SqliteSessionStore, path: Path
) -> None:
    store.create(a_session())
    path.rename(path.with_name("moved.db"))
    with pytest.raises(StorageError, match="moved or replaced"):
        store.append(ID, [said("lost")], now=NOW)
    SqliteSessionStore(path).close()
    with pytest.raises(StorageError, match="moved or replaced"):
        store.append(ID, [said("lost")], now=NOW)


def test_who_opens_a_store_waits_for_the_one_who_makes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turning on the write-ahead log locks out everybody else for a moment, after the check."""
    path.parent.mkdir()
    path.touch()
    maker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    done = threading.Timer(0.2, maker.execute, ["COMMIT"])
    check = schema.check

    def checked(place: Path, *, alone: bool = False) -> None:
        check(place, alone=alone)
        maker.execute("BEGIN EXCLUSIVE")
        done.start()

    monkeypatch.setattr(schema, "check", checked)
    store = SqliteSessionStore(path, create=False)
    done.join()
    maker.close()
    store.create(a_session())
    assert store.get(ID).id == ID
    store.close()
