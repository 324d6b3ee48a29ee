"""Many archived sessions come back together, exactly as they would come one by one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BusyError, StorageError
from holdfast.homes.archive import return_many as archive_return_many
from holdfast.homes.archive.return_many import FilesBack
from holdfast.homes.archive.session_rows import StoreRows
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.report import Result
from holdfast.model.session import TAKEN_BACK, Message, Relation, Session
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo_latest
from holdfast.stores.blobs import durable_batch
from holdfast.stores.sqlite import messages as message_rows
from holdfast.stores.sqlite import moves, search_index, session_return
from tests.archiving import (
    IDS,
    NOW,
    a_stored_session,
    archive,
    archived,
    bring,
    check_store,
    clock,
    everything,
    files,
    fill,
    found,
    opened,
    store_of,
    with_files,
)
from tests.stored import usage_of

STAMPS = [f"20260325_11251{number}_6995d{number}" for number in range(4)]
ALL = (*IDS, *STAMPS, "empty", "Said-again")
#: What differs from one restore to the next, or is only a cache.
_NOT_COMPARED = ("message_index", "index_words", "word_list", "sqlite_")


@pytest.fixture
def home(tmp_path: Path) -> HoldfastHome:
    """Generations, files, a session without a message, and messages that were taken back."""
    made = opened(tmp_path / "home")
    fill(made)
    store = made.create_session_store()
    for stamp in STAMPS:
        a_stored_session(made, stamp)
        with_files(made, stamp)
    for name, relation in (("empty", None), ("Said-again", Relation.DELEGATE)):
        store.create(
            Session(
                id=name,
                source="cli",
                started_at=NOW - 90,
                last_active_at=NOW - 90,
                parent_id="root" if relation else None,
                relation=relation,
                pinned=relation is not None,
            )
        )
    said = [Message(role="user", content=f"zebra {number}") for number in range(3)]
    store.append("Said-again", said, now=NOW - 80)
    first = next(store.messages("Said-again")).number or 0
    store.replace("Said-again", said[:1], after=first, mark=TAKEN_BACK, now=NOW - 75)
    for name in ("empty", "Said-again"):
        store.end(name, "done", at=NOW - 70)
    return made


def every_row(home: HoldfastHome) -> dict[str, list[tuple[Any, ...]]]:
    """All tables of the store, with the numbers of their rows."""
    home.close()
    with closing(sqlite3.connect(home.root / "sessions.db")) as db:
        tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            name: db.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()  # noqa: S608 - names of the schema
            for (name,) in tables
            if not name.startswith(_NOT_COMPARED)
        }


def never_together(_: StoreRows, several: Sequence[object]) -> bool:
    return False


@pytest.mark.parametrize("way", ["restore", "undo"])
@pytest.mark.parametrize("most", [1, 20, 1_000])
@pytest.mark.parametrize("many", [0, 64])
def test_together_is_what_one_by_one_would_be(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, way: str, most: int, many: int
) -> None:
    """Every row of every table, and every file, in transactions of any size."""
    before, usage, lying = everything(home), usage_of(store_of(home)), files(home)
    archive(home, *ALL)
    assert not files(home)
    home.close()
    other = opened(home.root.with_name("other"))
    shutil.copytree(home.root, other.root)

    def come_back(to: HoldfastHome) -> None:
        if way == "undo":
            undo_latest(to, clock=clock)
        else:
            assert bring(to).brought_back == len(ALL)

    monkeypatch.setattr(archive_return_many, "MOST_MESSAGES", most)
    monkeypatch.setattr(durable_batch, "MANY", many)
    come_back(home)
    monkeypatch.setattr(StoreRows, "put_back_together", never_together)
    come_back(other)
    assert everything(home) == before == everything(other)
    assert files(home) == lying == files(other)
    assert usage_of(store_of(home)) == usage
    assert archived(home) == []
    assert found(home) == before.keys() - {"empty"}
    check_store(home)
    assert every_row(home) == every_row(other)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sessions each transaction stored."""
    stored: list[int] = []
    real = session_return.insert

    def insert(db: sqlite3.Connection, several: Sequence[Any], now: float) -> None:
        real(db, several, now)
        stored.append(len(several))

    monkeypatch.setattr(session_return, "insert", insert)
    return stored


def test_transactions_are_short(home: HoldfastHome, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(home, *ALL)
    stored = counted(monkeypatch)
    monkeypatch.setattr(archive_return_many, "MOST_MESSAGES", 8)
    bring(home)
    assert sum(stored) == len(ALL)
    assert 3 < len(stored) < len(ALL)


def test_the_index_has_them_and_its_setting_is_what_it_was(tmp_path: Path) -> None:
    home = opened(tmp_path)
    fill(home, messages=150)
    archive(home, *IDS)
    with store_of(home).database.read() as db:
        before = db.execute("SELECT * FROM message_index_config").fetchall()
    assert bring(home).brought_back == len(IDS)
    with store_of(home).database.read() as db:
        assert db.execute("SELECT * FROM message_index_config").fetchall() == before
        [newest] = db.execute("SELECT max(number) FROM messages").fetchone()
        assert search_index.indexed(db) == newest
    assert found(home) == {*IDS}
    check_store(home)


# --- Bad days -------------------------------------------------------------------------------------


def test_one_that_cannot_come_does_not_keep_the_others(home: HoldfastHome) -> None:
    """Damaged, a place that is taken, a file in the way: each says so, and all others are back."""
    before = everything(home)
    archive(home, *ALL)
    (bundle,) = (home.root / "archive").glob("middle.*")
    bundle.write_bytes(bundle.read_bytes()[:-40])
    store = home.create_session_store()
    store.create(Session(id="ROOT", source="cli", started_at=NOW, last_active_at=NOW))
    in_the_way = home.root / "sessions" / f"{STAMPS[0]}.jsonl"
    in_the_way.write_text("mine")
    store.route("key of leaf", "ROOT")
    report = bring(home)
    ended = {each.id.partition(".")[0]: each.result for each in report.outcomes}
    bad = {"middle": Result.DAMAGED, "root": Result.FAILED, STAMPS[0]: Result.FAILED}
    assert {name: end for name, end in ended.items() if end is not Result.BROUGHT_BACK} == bad
    assert everything(home).keys() == before.keys() - bad.keys() | {"ROOT"}
    assert in_the_way.read_text() == "mine"
    assert [each.partition(".")[0] for each in archived(home)] == sorted(bad)
    notes = {each.id.partition(".")[0]: each.reason for each in report.outcomes}
    assert "routing key belongs to ROOT" in notes["leaf"]
    check_store(home)


def fails(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("step", ["insert", "_join"])
def test_after_an_error_none_came_and_each_is_tried_alone(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """An error late in the transaction: nothing of it is there twice or by half."""
    before, usage = everything(home), usage_of(store_of(home))
    archive(home, *ALL)
    module = session_return if step == "insert" else moves
    real = getattr(module, step)

    def late(*arguments: Any) -> None:
        real(*arguments)
        raise StorageError("at the end of it")

    monkeypatch.setattr(module, step, late)
    assert bring(home).brought_back == len(ALL)
    assert everything(home) == before
    assert usage_of(store_of(home)) == usage
    check_store(home)


def test_a_line_that_is_not_that_of_its_record_brings_nothing(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here without its totals: what is stored has another version then."""
    archive(home, *ALL)
    monkeypatch.setattr(StoreRows, "put_back", fails(StorageError("not alone")))
    monkeypatch.setattr(message_rows, "update_totals", lambda *_: None)
    assert bring(home).brought_back == 0
    assert not everything(home)
    assert len(archived(home)) == len(ALL)


def test_a_busy_store_is_waited_for_once(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(home, *ALL)
    monkeypatch.setattr(session_return, "insert", fails(BusyError("somebody writes")))
    monkeypatch.setattr(StoreRows, "put_back", fails(AssertionError("tried again")))
    report = bring(home)
    assert {each.reason for each in report.outcomes} == {"somebody writes"}
    assert len(archived(home)) == len(ALL)


def test_killed_before_the_files_had_their_names(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are there, the files are not: the next run finishes it from the bundles."""
    before, lying = everything(home), files(home)
    archive(home, *ALL)

    class Killed(BaseException):
        pass

    with monkeypatch.context() as dying:
        dying.setattr(FilesBack, "finish", fails(Killed()))
        dying.setattr(FilesBack, "__exit__", lambda *_: None)
        with pytest.raises(Killed):
            bring(home)
    assert any(name.startswith(".") for name in files(home))
    home.close()
    again = opened(home.root)
    settle_if_needed(again, clock=clock)
    assert everything(again) == before
    assert files(again) == lying
    assert archived(again) == []


def test_a_file_that_appears_meanwhile_is_never_replaced(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(home, *ALL)
    taken = home.root / "sessions" / f"{STAMPS[1]}.jsonl"
    real = FilesBack.finish

    def finish(self: FilesBack) -> Any:
        taken.write_text("mine")
        return real(self)

    monkeypatch.setattr(FilesBack, "finish", finish)
    report = bring(home)
    assert report.brought_back == len(ALL) - 1
    assert taken.read_text() == "mine"
    assert archived(home) == [f"{STAMPS[1]}.tar.zst"]
