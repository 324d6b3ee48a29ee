"""What a check-up of a session store notices, and that it changes nothing by looking."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.model.checkup import Finding, Severity
from holdfast.model.session import Message, Session, Tokens
from holdfast.spine.carry_out import Silent
from holdfast.stores.sessions.searchable_text import search_text
from holdfast.stores.sqlite import checkup, schema
from holdfast.stores.sqlite.sessions import SqliteSessionStore

pytestmark = pytest.mark.usefixtures("bad_day")

NOW = 1_800_000_000.0
LONG = "the quick brown fox " * 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three sessions, every kind of content, and more messages than are indexed."""
    place = tmp_path / "home" / "sessions.db"
    with contextlib.closing(SqliteSessionStore(place)) as store:
        for name in ("a", "b", "empty"):
            store.create(
                Session(
                    id=name,
                    source="cli",
                    started_at=NOW,
                    last_active_at=NOW,
                    routing_key=f"k-{name}",
                )
            )
        store.append("a", [Message(role="user", content=f"word{n}") for n in range(300)], now=NOW)
        store.append(
            "b",
            [
                Message(role="assistant", content=LONG, tokens=7, cost=0.1),
                Message(role="user", content=[{"type": "text", "text": "é\ud800\0"}]),
                Message(
                    role="assistant",
                    tool_calls=[{"name": "x", "arguments": LONG}, {"name": "y"}],
                    tokens=Tokens(input=3, output=4, cached=5),
                    cost=0.2,
                    extra={"mine": LONG},
                ),
            ],
            now=NOW,
        )
    return place


@contextlib.contextmanager
def sql(path: Path) -> Iterator[sqlite3.Connection]:
    """Around everything that keeps a store right."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.create_function("search_text", 3, search_text, deterministic=True)
        yield db
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def check(path: Path) -> dict[str, Finding]:
    return {finding.check: finding for finding in checkup.check(path, Silent())}


def problems(path: Path) -> dict[str, Severity]:
    return {
        name: finding.severity
        for name, finding in check(path).items()
        if finding.severity is not Severity.OK
    }


def seen(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything of a folder that looking could change."""
    return {
        name: (status.st_mtime_ns, status.st_ino, place.read_bytes() if place.is_file() else b"")
        for name, place in [(".", folder), *((each.name, each) for each in folder.iterdir())]
        for status in [place.stat()]
    }


def test_a_sound_store_is_fine_in_every_check(path: Path) -> None:
    assert problems(path) == {}
    assert tuple(check(path)) == checkup.CHECKS


def test_looking_changes_nothing_at_all(path: Path) -> None:
    before = seen(path.parent)
    check(path)
    assert seen(path.parent) == before


def test_looking_at_a_store_in_use_makes_nobody_wait(path: Path) -> None:
    with contextlib.closing(SqliteSessionStore(path)) as store:
        store.append("a", [Message(role="user", content="in the log")], now=NOW)
        with store.transaction():
            store.append("a", [Message(role="user", content="not committed")], now=NOW)
            assert problems(path) == {}


def test_no_store(tmp_path: Path) -> None:
    assert check(tmp_path / "sessions.db")["session store"].message == "no store exists yet"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_a_store_in_which_nothing_was_stored(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").touch()
    assert problems(tmp_path / "sessions.db") == {}


@pytest.mark.parametrize(
    "column",
    [
        "message_count",
        "tool_call_count",
        "tokens_in",
        "tokens_out",
        "tokens_cached",
        "cost",
        "bytes",
    ],
)
def test_every_total_is_counted_again(path: Path, column: str) -> None:
    with sql(path) as db:
        db.execute(f"UPDATE sessions SET {column} = {column} + 1 WHERE id = 'b'")  # noqa: S608
    assert problems(path) == {"totals": Severity.DAMAGE}
    assert "1 session" in check(path)["totals"].message


def test_totals_of_a_session_without_messages(path: Path) -> None:
    with sql(path) as db:
        db.execute("UPDATE sessions SET bytes = 1 WHERE id = 'empty'")
    assert problems(path) == {"totals": Severity.DAMAGE}


DROPPED = {
    "an entry": """INSERT INTO message_index (message_index, rowid, text)
        SELECT 'delete', number, text FROM indexed_text WHERE number = 7""",
    "a word": "UPDATE messages SET body = 'other' WHERE number = 7",
    "a message": "DELETE FROM messages WHERE number = 7",
    "everything": "DELETE FROM message_index_data",
    "the fact": "DELETE FROM facts",
}


@pytest.mark.parametrize("what", DROPPED)
def test_an_index_out_of_step(path: Path, what: str) -> None:
    with sql(path) as db:
        db.execute(DROPPED[what])
    assert problems(path)["search index"] is Severity.DAMAGE


def test_sqlite_itself_would_not_notice(path: Path) -> None:
    """The reason for asking FTS5 with rank 1."""
    with sql(path) as db:
        db.execute(DROPPED["an entry"])
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.execute("INSERT INTO message_index (message_index) VALUES ('integrity-check')")


def test_rows_of_sessions_that_are_gone(path: Path) -> None:
    with sql(path) as db:
        db.execute("DELETE FROM sessions WHERE id = 'b'")
    assert problems(path) == {"references": Severity.DAMAGE}
    assert "4 rows" in check(path)["references"].message  # three messages and a route


UNREADABLE = {
    "packed": "UPDATE messages SET body = zeroblob(300) WHERE form & 2",
    "packed fields": "UPDATE messages SET fields = zeroblob(300) WHERE form & 4",
    "json": "UPDATE messages SET body = '{' WHERE form & 1",
    "bytes": "UPDATE messages SET body = x'ff' WHERE number = 9",
    "text": "UPDATE messages SET body = CAST(x'61ff' AS TEXT) WHERE number = 9",
    "fields": "UPDATE messages SET fields = '[1]' WHERE number = 9",
    "tokens": """UPDATE messages SET fields = '{"tokens":"many"}' WHERE number = 9""",
    "role": "UPDATE messages SET role = '' WHERE number = 9",
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_message_that_cannot_be_read_back(path: Path, what: str) -> None:
    with sql(path) as db:
        db.execute(UNREADABLE[what])
    found = check(path)["messages"]
    assert found.severity is Severity.DAMAGE
    assert "1 message cannot be read back" in found.message


@pytest.mark.parametrize("part", ["INDEX sessions_by_id", "TABLE routes", "TABLE message_index"])
def test_a_missing_part_is_named(path: Path, part: str) -> None:
    with sql(path) as db:
        db.execute(f"DROP {part}")
    found = check(path)["session store"]
    assert found.severity is Severity.DAMAGE
    assert part.lower() in found.message


def test_a_newer_store_is_left_alone(path: Path) -> None:
    with sql(path) as db:
        db.execute(f"PRAGMA user_version = {schema.LATEST + 1}")
    before = seen(path.parent)
    found = check(path)["session store"]
    assert (found.severity, found.repairable) == (Severity.WARNING, False)
    assert "newer version" in found.message
    assert found.advice == "Upgrade Holdfast."
    assert seen(path.parent) == before


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with sql(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    before = seen(tmp_path)
    found = check(path)["session store"]
    assert (found.severity, found.repairable) == (Severity.DAMAGE, False)
    assert "not a session store" in found.message
    assert seen(tmp_path) == before


def _header(data: bytearray) -> None:
    data[:16] = bytes(16)


def _first_page(data: bytearray) -> None:
    data[100:4096] = bytes(3996)


def _pages(data: bytearray) -> None:
    data[3 * 4096 : 8 * 4096] = os.urandom(5 * 4096)


def _cut(data: bytearray) -> None:
    del data[len(data) // 2 + 100 :]


def _no_database(data: bytearray) -> None:
    data[:] = b"once upon a time " * 1000


@pytest.mark.parametrize("damage", [_header, _first_page, _pages, _cut, _no_database])
def test_damaged_bytes(path: Path, damage: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    before = seen(path.parent)
    found = problems(path)
    assert list(found.values()) == [Severity.DAMAGE], found
    assert seen(path.parent) == before


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").mkdir()
    assert problems(tmp_path / "sessions.db") == {"session store": Severity.DAMAGE}


def test_a_locked_store_is_said_to_be_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program has it for itself alone, which no program of ours does for long."""
    monkeypatch.setattr("holdfast.stores.sqlite.schema._PATIENCE", 0.1)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    try:
        holder.stdout.readline()
        found = check(path)["session store"]
    finally:
        holder.communicate(b"\n")
    assert (found.severity, found.repairable) == (Severity.WARNING, False)
    assert "another process" in found.message
    assert problems(path) == {}


_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA locking_mode = EXCLUSIVE")
db.execute("BEGIN EXCLUSIVE")
db.execute("UPDATE sessions SET title = 'x'")
db.execute("COMMIT")
print("locked", flush=True)
sys.stdin.readline()
"""


def test_a_long_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_LARGE_WAL", 10_000)
    with contextlib.closing(SqliteSessionStore(path)) as store:
        store.append("a", [Message(role="user", content=LONG * 1000)], now=NOW)
        store.append("a", [Message(role="user", content="x" * n) for n in range(250)], now=NOW)
        found = check(path)["write-ahead log"]
    assert (found.severity, found.repairable) == (Severity.WARNING, True)


def test_no_room_for_the_copy_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite3.connect

    def small(database: object, **options: object) -> sqlite3.Connection:
        made: sqlite3.Connection = real(database, **options)  # type: ignore[call-overload]
        if database == "":
            made.execute("PRAGMA max_page_count = 3")
        return made

    monkeypatch.setattr(sqlite3, "connect", small)
    found = check(path)["search index"]
    assert found.severity is Severity.WARNING
    assert "SQLITE_TMPDIR" in found.advice
