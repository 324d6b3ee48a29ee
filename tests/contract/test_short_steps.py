"""A prune beside a writer: one transaction does little, and what can wait comes between two."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import FullDiskError
from holdfast.model.session import Message, Search, Session
from holdfast.stores.sessions.survey import LifeSigns
from holdfast.stores.sqlite import search_index, space
from holdfast.stores.sqlite.moves import SqliteEngine
from holdfast.stores.sqlite.sessions import SqliteSessionStore

NOW = 1_800_000_000.0
IDS = [f"s{number}" for number in range(space.UNMERGED + 2)]
#: So many words that FTS5 merges of its own accord after a few removals.
EACH, WORDS = 50, 200


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSessionStore]:
    made = SqliteSessionStore(tmp_path / "sessions.db")
    for name in IDS:
        made.create(Session(id=name, source="cli", started_at=NOW, last_active_at=NOW))
        words = [
            " ".join(["zebra" + name, *(f"{name}x{number}y{n}" for n in range(WORDS))])
            for number in range(EACH)
        ]
        made.append(name, [Message(role="user", content=text) for text in words], now=NOW)
        made.end(name, "done", at=NOW)
        for _ in space._index(made.database):
            pass
    yield made
    made.close()


@pytest.fixture
def engine(store: SqliteSessionStore) -> SqliteEngine:
    life = LifeSigns(is_dead=lambda _: True, abandoned_after=0)
    return SqliteEngine(store, lambda: NOW, life)


def remove(engine: SqliteEngine, name: str, *, failing: bool = False) -> None:
    with engine.transaction():
        engine.delete([*engine.look([name]).values()])
        if failing:
            raise ZeroDivisionError


def settings(store: SqliteSessionStore) -> list[tuple[str, int]]:
    with store.database.read() as db:
        return db.execute("SELECT k, v FROM message_index_config ORDER BY k").fetchall()


def log_pages(db: sqlite3.Connection) -> int:
    [pages] = db.execute("PRAGMA wal_autocheckpoint").fetchone()
    return int(pages)


def traced(store: SqliteSessionStore, engine: SqliteEngine) -> list[list[str]]:
    """The statements of each transaction, while sessions leave."""
    found: list[list[str]] = []

    def note(statement: str) -> None:
        if statement.startswith("BEGIN IMMEDIATE"):
            found.append([])
        if found:
            found[-1].append(statement)

    db = store.database.connection()
    db.set_trace_callback(note)
    for name in IDS[: space.UNMERGED]:
        remove(engine, name)
        engine.rest()
    db.set_trace_callback(None)
    return found


def test_nothing_is_merged_in_a_transaction_that_removes(
    store: SqliteSessionStore, engine: SqliteEngine
) -> None:
    merges = 0
    for statements in traced(store, engine):
        # What FTS5 does itself to merge parts: it removes their pages.
        removed_pages = [
            each for each in statements if "DELETE FROM 'main'.'message_index_data" in each
        ]
        if any("DELETE FROM sessions" in each for each in statements):
            assert not removed_pages
        elif removed_pages:
            merges += 1
    assert merges, "the parts that removals leave are merged between them"
    with store.database.read() as db:
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
    assert not store.search(Search(text=f"zebra{IDS[0]}"))
    assert store.search(Search(text=f"zebra{IDS[-1]}"))


def test_without_room_to_merge_sessions_leave_all_the_same(
    store: SqliteSessionStore, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object) -> bool:
        raise FullDiskError("The disk is full.")

    monkeypatch.setattr(space, "_merged", is_full)
    for name in IDS[: space.UNMERGED]:
        remove(engine, name)
        engine.rest()
    assert not engine.look(IDS[: space.UNMERGED])


@pytest.mark.parametrize("chosen", [None, 7])
def test_the_settings_of_the_index_are_what_they_were(
    store: SqliteSessionStore, engine: SqliteEngine, chosen: int | None
) -> None:
    if chosen is not None:
        with store.database.write() as db:
            search_index.command(db, "automerge", chosen)
    before = settings(store)
    remove(engine, IDS[0])
    assert settings(store) == before
    with pytest.raises(ZeroDivisionError):
        remove(engine, IDS[1], failing=True)
    assert settings(store) == before
    assert engine.look([IDS[1]])


def test_the_log_is_not_written_into_the_file_while_others_wait_at_the_gate(
    store: SqliteSessionStore, engine: SqliteEngine
) -> None:
    db = store.database.connection()
    usual = log_pages(db)
    with engine.transaction():
        engine.delete([*engine.look([IDS[0]]).values()])
        assert log_pages(db) == 0, "at the commit, which comes with the gate"
    assert log_pages(db) == usual
    with pytest.raises(ZeroDivisionError):
        remove(engine, IDS[1], failing=True)
    assert log_pages(db) == usual, "others write with this connection"
    engine.give_back()
    assert log_pages(db) == usual


def test_the_log_stays_short_all_the_same(store: SqliteSessionStore) -> None:
    store.database.truncate_log()
    db = store.database.connection()
    db.execute("CREATE TABLE large (bytes)")
    space.checkpoint_later(db)
    for _ in range(10 * space._STEPS):
        with store.database.write():
            db.execute("INSERT INTO large VALUES (zeroblob(100000))")
        space.rest(store.database)
    assert store.database.log_bytes() < 2 * space._STEPS * 120_000
