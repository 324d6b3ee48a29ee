"""An undo in a home of Hermes whose search index is built ahead: as if the triggers had done it."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from holdfast.errors import HoldfastError, NothingToUndoError, StorageError
from holdfast.homes.hermes.state_db import moves, search_ahead, search_parts, search_tables
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.search_ahead import WorkAhead
from holdfast.homes.hermes.state_db.search_tables import SearchTable
from holdfast.homes.sessions.mover import SessionMover
from holdfast.model.report import Result
from holdfast.services.plans import plan_delete
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo_latest
from tests.compat.hermes_sessions import (
    NOW,
    OLD,
    database,
    deleted,
    opened,
    pruned,
    recorded,
    seen,
    session_ids,
    undone,
)

FIRST, TITLED = "20260101_101010_aaaaaa", "20260103_000000_titled"
RECENT = "20260501_000000_recent"
SAY = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, 1)"
TABLES = ("messages_fts", "messages_fts_trigram")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(search_ahead, "_FEWEST", 1)
    return recorded(tmp_path)


def count_of(db: sqlite3.Connection, word: str) -> set[int]:
    query = "SELECT count(*) FROM {0} WHERE {0} MATCH ?"
    return {db.execute(query.format(table), (word,)).fetchone()[0] for table in TABLES}


def left_over(root: Path) -> list[Path]:
    return [*root.rglob("*.tmp")]


def _no_connection() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    return error


def _refusing(patch: pytest.MonkeyPatch, what: str, place: int, *, lasting: bool) -> list[bool]:
    """Let the connection, or the removal of a file, at this place fail, and all that follow if it
    lasts. Returns what is asked for, as it is."""
    calls: list[bool] = []
    owner, name, error = {
        "connection": (HermesDatabase, "_connect", _no_connection()),
        "file": (Path, "unlink", OSError(5, "Input/output error")),
    }[what]
    real = getattr(owner, name)

    def refuse(self: Any, *words: Any, **named: Any) -> Any:
        if what == "file" and ".holdfast" not in str(self):
            return real(self, *words, **named)
        calls.append(len(calls) == place or (lasting and len(calls) > place))
        if calls[-1]:
            raise error
        return real(self, *words, **named)

    patch.setattr(owner, name, refuse)
    return calls


def test_everything_is_as_it_was(root: Path, moved_in: list[bool]) -> None:
    whole = seen(root)
    pruned(root)
    moved_in.clear()
    assert not undone(root).failed
    assert moved_in == [True, True]
    assert seen(root) == whole
    assert not left_over(root)


def test_hermes_searches_and_writes_on_with_a_connection_that_was_open(
    root: Path, moved_in: list[bool]
) -> None:
    with database(root) as hermes:
        hermes.execute(SAY, (FIRST, "wombats"))
        assert count_of(hermes, "wombats") == {1}
        deleted(root, FIRST, TITLED)
        assert count_of(hermes, "wombats") == {0}
        undone(root)
        assert moved_in == [True, True]
        assert count_of(hermes, "wombats") == {1}
        hermes.execute(SAY, (RECENT, "wombats again"))
        assert count_of(hermes, "wombats") == {2}
    seen(root)


def test_a_host_prunes_and_undoes_again_and_again(root: Path, moved_in: list[bool]) -> None:
    """With one home, and so one connection: what FTS5 remembers of its parts must not be used."""
    whole, home = seen(root), opened(root)
    for _ in range(3):
        plan = plan_delete(home, [FIRST, TITLED], now=NOW, command="sessions delete")
        apply(plan, home, clock=lambda: NOW, progress=Silent())
        undo_latest(home, clock=lambda: NOW)
        assert seen(root) == whole
    assert moved_in == [True] * 6


def test_nobody_waits_for_what_is_not_ready(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = WorkAhead.of

    def of(self: WorkAhead, bundle: Path) -> search_ahead.Ahead | None:
        with database(root) as hermes:
            hermes.execute("PRAGMA busy_timeout = 0")
            hermes.execute(SAY, (RECENT, "in between"))
        return real(self, bundle)

    deleted(root, FIRST, TITLED)
    with monkeypatch.context() as patch:
        patch.setattr(WorkAhead, "of", of)
        assert not undone(root).failed
    assert {FIRST, TITLED} <= session_ids(root)


@pytest.mark.parametrize("table", ["rows", *TABLES])
def test_what_cannot_be_made_ahead_is_done_as_usual(
    root: Path, table: str, moved_in: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = search_parts.made

    def made(path: Path) -> Any:
        if table in path.name and "trigram" not in path.name.removesuffix(f"{table}.tmp"):
            raise OSError(28, "No space left on device")
        return real(path)

    whole = seen(root)
    deleted(root, FIRST, TITLED)
    with monkeypatch.context() as patch:
        patch.setattr(search_parts, "made", made)
        assert not undone(root).failed
    assert len(moved_in) == (0 if table == "rows" else 1)
    assert seen(root) == whole
    assert not left_over(root)


def test_a_thread_that_dies_keeps_nobody_waiting(
    root: Path, moved_in: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(*words: Any) -> bool:
        raise MemoryError

    whole = seen(root)
    deleted(root, FIRST, TITLED)
    with monkeypatch.context() as patch:
        patch.setattr(search_parts, "built", built)
        patch.setattr("threading.excepthook", lambda _: None)
        assert not undone(root).failed
    assert not moved_in
    assert seen(root) == whole


def test_a_table_that_was_declared_otherwise_meanwhile_is_filled_as_usual(
    root: Path, moved_in: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = search_tables.kept_up_to_date

    def other(*words: Any) -> Sequence[SearchTable]:
        first, *rest = real(*words)
        return [SearchTable(name=first.name, declared=first.declared, text="'other'"), *rest]

    whole = seen(root)
    deleted(root, FIRST, TITLED)
    with monkeypatch.context() as patch:
        patch.setattr(moves, "kept_up_to_date", other)
        undone(root)
    assert moved_in == [True]
    assert seen(root) == whole


def test_a_part_of_what_was_expected_comes_back_alone(root: Path, moved_in: list[bool]) -> None:
    """Somebody else has the title of one of them by now."""
    with database(root) as db:
        [had] = db.execute("SELECT title FROM sessions WHERE id = ?", (TITLED,)).fetchone()
    assert had
    deleted(root, FIRST, TITLED)
    with database(root) as db:
        [title] = db.execute("SELECT title FROM sessions WHERE id = ?", (RECENT,)).fetchone()
        db.execute("UPDATE sessions SET title = ? WHERE id = ?", (had, RECENT))
    assert undone(root).failed
    assert FIRST in session_ids(root)
    assert TITLED not in session_ids(root)
    assert not moved_in
    seen(root)
    with database(root) as db:
        db.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, RECENT))
    assert not undone(root).failed
    seen(root)


def test_numbers_that_are_taken_are_no_obstacle(root: Path, moved_in: list[bool]) -> None:
    deleted(root, FIRST, TITLED)
    with database(root) as db:
        taken = [n for (n,) in db.execute("SELECT id FROM messages")]
        [free] = db.execute("SELECT min(id) FROM messages").fetchone()
        lowest = next(n for n in range(1, free + len(taken) + 1) if n not in taken)
        db.execute(
            "INSERT INTO messages (id, session_id, role, content, timestamp) "
            "VALUES (?, ?, 'user', 'mine', 1)",
            (lowest, RECENT),
        )
    assert not undone(root).failed
    assert not moved_in
    seen(root)


def test_an_undo_that_fails_leaves_everything_and_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, real = seen(root), search_parts.moved_in
    deleted(root, FIRST, TITLED)
    gone = seen(root)

    def fails(db: sqlite3.Connection, table: str, beside: str) -> bool:
        if table == TABLES[1]:
            raise sqlite3.OperationalError("disk I/O error")
        return real(db, table, beside)

    home = opened(root)
    with monkeypatch.context() as patch:
        patch.setattr(search_parts, "moved_in", fails)
        assert undo_latest(home, clock=lambda: NOW)[1].failed
    left = seen(root)
    assert (left.rows, left.searched) == (gone.rows, gone.searched)
    assert not left_over(root)
    assert not undo_latest(home, clock=lambda: NOW)[1].failed
    assert seen(root) == whole


def test_what_came_back_before_a_bundle_failed_is_reported_as_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = seen(root)
    monkeypatch.setattr(moves, "_MOST_INDEXED", 1)
    monkeypatch.setattr(moves, "_MOST_UNINDEXED", 1)
    monkeypatch.setattr(moves.HermesEngine, "most_copied", 1)
    pruned(root)
    real, bundles = SessionMover._from_bundle, []

    def from_bundle(self: SessionMover, store: Any, path: Path, removals: Any) -> Any:
        bundles.append(path)
        if len(bundles) == 2:
            raise OSError(5, "Input/output error")
        return real(self, store, path, removals)

    with monkeypatch.context() as patch:
        patch.setattr(SessionMover, "_from_bundle", from_bundle)
        report = undone(root)
    assert len(bundles) > 2
    failed = {each.id for each in report.outcomes if each.result is Result.FAILED}
    back = {each.id for each in report.outcomes if each.result is Result.BROUGHT_BACK}
    assert failed & OLD
    assert back & OLD == OLD - failed
    assert OLD & session_ids(root) == OLD - failed
    assert not undone(root).failed
    assert seen(root) == whole


def test_a_connection_that_is_given_up_is_not_the_last(root: Path) -> None:
    """The last one that closes writes the whole log into the database."""
    store = HermesDatabase(root / "state.db")
    with store.write() as db:
        db.execute(SAY, (RECENT, "kept in the log"))
    before = store.log_bytes()
    assert before
    old = store.connection()
    store.reconnect()
    assert store.connection() is not old
    assert store.log_bytes() == before
    store.close()


def test_a_new_connection_that_cannot_be_had_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With too few file descriptors, for one. The store goes on when there are enough again."""
    store = HermesDatabase(root / "state.db")
    store.connection()
    with monkeypatch.context() as patch:
        patch.setattr(HermesDatabase, "_connect", mock.Mock(side_effect=_no_connection()))
        store.reconnect()  # what was done is done, whatever comes next
        with pytest.raises(StorageError, match="Cannot open or write"), store.write():
            pass
    with store.write() as db:
        db.execute(SAY, (RECENT, "said later"))
    store.close()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("fails", ["connection", pytest.param("file", marks=pytest.mark.deep)])
def test_whatever_fails_an_undo_says_exactly_what_came_back(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, *, lasting: bool
) -> None:
    """A connection that cannot be had, or a file that cannot be removed, at every place."""
    whole = seen(root)
    monkeypatch.setattr(moves, "_MOST_INDEXED", 1)
    monkeypatch.setattr(moves, "_MOST_UNINDEXED", 1)
    monkeypatch.setattr(moves.HermesEngine, "most_copied", 1)
    pruned(root)
    gone, partly = session_ids(root), False
    for place in itertools.count():
        home = tmp_path / f"copy-{place}" / "home"
        shutil.copytree(root, home, symlinks=True)
        with monkeypatch.context() as patch:
            calls = _refusing(patch, fails, place, lasting=lasting)
            try:
                outcomes = undone(home).outcomes
            except HoldfastError:  # the log cannot say it now either, or nothing was begun
                outcomes = ()
        if len(calls) <= place:
            break
        back = {each.id for each in outcomes if each.result is Result.BROUGHT_BACK}
        assert (session_ids(home) - gone, place) == (back & OLD, place)
        partly |= set() < back & OLD < OLD
        if not back >= OLD:
            assert not undone(home).failed
        assert seen(home) == whole
    assert place > 2
    assert partly or fails == "connection"  # which is asked for again


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_whatever_connection_fails_a_removal_keeps_the_copies_of_what_went(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lasting: bool
) -> None:
    whole = seen(root)
    went = set()
    for place in itertools.count():
        home = tmp_path / f"copy-{place}" / "home"
        shutil.copytree(root, home, symlinks=True)
        with monkeypatch.context() as patch:
            calls = _refusing(patch, "connection", place, lasting=lasting)
            with contextlib.suppress(HoldfastError):
                pruned(home)
        if len(calls) <= place:
            break
        went |= OLD - session_ids(home)
        with contextlib.suppress(NothingToUndoError):
            assert not undone(home).failed
        assert seen(home) == whole
    assert went
