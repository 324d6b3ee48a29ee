"""A prune in a home of Hermes that indexes what stays beside the database."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from holdfast.homes.hermes.state_db import search_parts, search_tables
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.search_tables import IndexBeside, SearchRenewal
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo_latest
from tests.compat.hermes_sessions import (
    LIVING,
    NOW,
    OLD,
    check,
    database,
    opened,
    prune_plan,
    pruned,
    recorded,
    seen,
    session_ids,
    undone,
)

RECENT = "20260501_000000_recent"
SAY = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, 1)"
TABLES = ("messages_fts", "messages_fts_trigram")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(search_tables, "others_have_open", lambda _: False)
    return recorded(tmp_path)


def meanwhile(root: Path, monkeypatch: pytest.MonkeyPatch, statement: str, *values: str) -> None:
    """What Hermes does while everything that goes is copied; it waits for nobody."""
    real = SearchRenewal.wait

    def wait(self: SearchRenewal) -> None:
        with database(root) as hermes:
            hermes.execute("PRAGMA busy_timeout = 0")
            hermes.execute(statement, values)
        real(self)

    monkeypatch.setattr(SearchRenewal, "wait", wait)


def declared(root: Path) -> set[tuple[str, str]]:
    with database(root) as db:
        return {*db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")}


def left_over(root: Path) -> list[Path]:
    return [*root.rglob("*.tmp")]


def test_what_stays_is_searched_as_before(root: Path, moved_in: list[bool]) -> None:
    before, triggers = seen(root), declared(root)
    assert not pruned(root).failed
    after = seen(root)
    assert declared(root) == triggers
    assert moved_in == [True, True]
    assert session_ids(root) == LIVING
    stay = {row[0] for row in after.rows["messages"]}
    assert stay
    for table, rows in before.searched.items():
        assert after.searched[table] == [row for row in rows if row[0] in stay]
    assert not left_over(root)
    undone(root)
    assert seen(root) == before


@pytest.mark.parametrize(
    "statement",
    [
        SAY,
        "UPDATE messages SET content = ?2 WHERE session_id = ?1",
        "DELETE FROM messages WHERE session_id = ?1 AND ?2 <> ''",
    ],
)
def test_what_hermes_writes_meanwhile_is_searched_too(
    root: Path, moved_in: list[bool], statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        meanwhile(root, patch, statement, RECENT, "wombats")
        pruned(root)
    assert not moved_in
    check(root)
    with database(root) as db:
        [said] = db.execute("SELECT count(*) FROM messages WHERE content = 'wombats'").fetchone()
        for table in TABLES:
            query = f"SELECT count(*) FROM {table} WHERE {table} MATCH 'wombats'"
            assert db.execute(query).fetchone() == (said,)


def test_what_this_process_writes_meanwhile_counts_as_well(root: Path) -> None:
    engine = opened(root)._contents.engine()
    assert engine is not None
    assert engine.search.is_worth_it(OLD)
    with engine.database.read() as db:
        beside = IndexBeside(db, engine.database.schema, root / "beside", engine.database.path, OLD)
    beside.wait()
    with engine.database.write() as db:
        assert beside.is_exact(db)
        db.execute(SAY, (RECENT, "wombats"))
        assert not beside.is_exact(db)


def test_search_has_all_messages_after_each_commit(
    root: Path, moved_in: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes and what is searched change in one transaction."""
    real = HermesDatabase._commit

    def commit(self: HermesDatabase, connection: sqlite3.Connection) -> None:
        real(self, connection)
        check(root)

    monkeypatch.setattr(HermesDatabase, "_commit", commit)
    assert not pruned(root).failed
    assert moved_in == [True, True]


def test_what_lives_after_all_is_searched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index beside the database does not have it."""
    late = min(OLD)
    real = SearchRenewal.wait

    def wait(self: SearchRenewal) -> None:
        real(self)
        held = root / "runtime" / "active_sessions.json"
        held.parent.mkdir(exist_ok=True)
        held.write_text(json.dumps([{"session_id": late, "pid": os.getpid()}]))

    monkeypatch.setattr(SearchRenewal, "wait", wait)
    pruned(root)
    assert session_ids(root) == {*LIVING, late}
    check(root)


def test_where_hermes_has_it_open_nothing_leaves_at_once(
    root: Path, moved_in: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_tables, "others_have_open", lambda _: True)
    assert not pruned(root).failed
    assert not moved_in
    assert session_ids(root) == LIVING
    check(root)


def test_what_cannot_be_indexed_beside_is_indexed_as_usual(
    root: Path, moved_in: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_parts, "built", lambda *_: False)
    assert not pruned(root).failed
    assert not moved_in
    assert session_ids(root) == LIVING
    check(root)


def test_an_exchange_that_fails_leaves_every_session_and_no_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, real = seen(root), search_parts.moved_in

    def fails(db: sqlite3.Connection, table: str, beside: str) -> bool:
        if table == TABLES[1]:
            raise sqlite3.OperationalError("disk I/O error")
        return real(db, table, beside)

    with monkeypatch.context() as patch:
        patch.setattr(search_parts, "moved_in", fails)
        assert pruned(root).failed
    left = seen(root)
    assert (left.rows, left.searched) == (whole.rows, whole.searched)
    assert not left_over(root)
    assert not pruned(root).failed
    undone(root)
    assert seen(root) == whole


def test_a_host_prunes_and_undoes_again_and_again(root: Path, moved_in: list[bool]) -> None:
    """With one home, and so one connection."""
    whole, home = seen(root), opened(root)
    for _ in range(2):
        report = apply(prune_plan(root), home, clock=lambda: NOW, progress=Silent())
        assert not report.failed
        check(root)
        undo_latest(home, clock=lambda: NOW)
        assert seen(root) == whole
    assert moved_in == [True] * 4


def test_what_a_killed_run_left_is_cleared(root: Path) -> None:
    state = root / ".holdfast"
    state.mkdir(exist_ok=True)
    (state / f"search-{TABLES[0]}.tmp").write_bytes(b"half")
    pruned(root)
    assert not left_over(root)
    check(root)
