"""Many messages into Hermes's search tables at once: as its triggers would, and leaving those."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import SchemaError
from holdfast.homes.hermes.state_db import moves, search_tables
from tests.compat.hermes_sessions import (
    check,
    database,
    deleted,
    opened,
    pruned,
    recorded,
    seen,
    undone,
)

FIRST, TITLED = "20260101_101010_aaaaaa", "20260103_000000_titled"
RECENT = "20260501_000000_recent"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return recorded(tmp_path)


def declared(root: Path) -> set[tuple[Any, ...]]:
    with database(root) as db:
        return {*db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")}


def test_triggers_are_back_and_index_what_hermes_writes_next(root: Path) -> None:
    """Also for a connection that has been open all the time, with its statement prepared."""
    before = declared(root)
    say = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, 1)"
    with database(root) as hermes:
        hermes.execute(say, (RECENT, "wombats"))
        deleted(root, FIRST, TITLED)
        undone(root)
        hermes.execute(say, (RECENT, "wombats again"))
        for table in ("messages_fts", "messages_fts_trigram"):
            query = f"SELECT count(*) FROM {table} WHERE {table} MATCH 'wombats'"
            assert hermes.execute(query).fetchone() == (2,), table
    assert declared(root) == before
    check(root)


@pytest.mark.parametrize("fails", ["messages_fts", "messages_fts_trigram"])
def test_an_undo_that_fails_half_way_leaves_triggers_and_copies(
    root: Path, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, real = seen(root), search_tables.fill
    before = declared(root)

    def fill(db: sqlite3.Connection, table: str, *words: Any) -> int:
        if table == fails:
            raise sqlite3.OperationalError("disk I/O error")
        return real(db, table, *words)

    deleted(root, FIRST, TITLED)
    gone = seen(root)
    with monkeypatch.context() as patch:
        patch.setattr(moves, "fill", fill)
        assert undone(root).failed
    left = seen(root)
    assert (left.rows, left.searched) == (gone.rows, gone.searched)
    assert declared(root) == before
    undone(root)
    assert seen(root) == whole


def test_what_stays_is_searched_as_before(root: Path) -> None:
    before = seen(root)
    pruned(root)
    after = seen(root)
    stay = {row[0] for row in after.rows["messages"]}
    assert stay
    for table, rows in before.searched.items():
        assert after.searched[table] == [row for row in rows if row[0] in stay]


@pytest.mark.parametrize("most", [1, 3, 200])
def test_what_one_table_lacks_is_put_into_that_one(
    root: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(root)
    monkeypatch.setattr("holdfast.homes.hermes.state_db.search_tables._AT_ONCE", most)
    with database(root) as db:
        db.execute("DELETE FROM messages_fts WHERE rowid % 2")
        db.execute("DELETE FROM messages_fts_trigram WHERE rowid % 3 = 0")
    engine = opened(root)._contents.engine()
    assert engine is not None
    engine.search.complete()
    assert seen(root) == before


def test_a_table_that_hermes_does_not_keep_up_to_date_is_left_alone(root: Path) -> None:
    with database(root) as db:
        for event in ("insert", "delete", "update"):
            db.execute(f"DROP TRIGGER messages_fts_trigram_{event}")
        db.execute("DELETE FROM messages_fts_trigram")
    deleted(root, FIRST, TITLED)
    undone(root)
    engine = opened(root)._contents.engine()
    assert engine is not None
    engine.search.complete()
    with database(root) as db:
        assert db.execute("SELECT count(*) FROM messages_fts_trigram").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM messages_fts_docsize").fetchone() == (
            db.execute("SELECT count(*) FROM messages").fetchone()
        )


def test_text_of_an_unknown_trigger_is_an_error_and_not_silence(root: Path) -> None:
    with database(root) as db:
        db.execute("DROP TRIGGER messages_fts_insert")
        db.execute(
            "CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN SELECT 1; END"
        )
        with pytest.raises(SchemaError):
            search_tables.fill(db, "messages_fts", "1")
