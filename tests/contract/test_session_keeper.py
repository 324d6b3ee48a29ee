"""A stored session leaves whole and comes back whole: rows, totals, lineage, route, search."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.api.sessions import open_sessions
from holdfast.errors import BusyError, HoldfastError, StorageError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.sessions import mover as session_mover
from holdfast.homes.sessions.mover import SessionMover, as_item
from holdfast.model.operation import OperationAction, OperationState, Removal
from holdfast.model.report import Report, Result
from holdfast.model.session import Message, Relation, Search, Session, SessionFilter, Tokens
from holdfast.model.stored_session import Found
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.policy.plan_by_name import plan_all
from holdfast.policy.rules import DAY
from holdfast.spine.apply import apply
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores import processes
from holdfast.stores.sessions.survey import LifeSigns
from holdfast.stores.sqlite import bundle
from holdfast.stores.sqlite.bundle import BundleFolder
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.moves import SqliteEngine
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests import tally
from tests.stored import file_of, remove_rows

NOW = 1_800_000_000.0
MESSAGES = 24


def clock() -> float:
    return NOW


@pytest.fixture
def home(tmp_path: Path) -> HoldfastHome:
    return a_home(tmp_path, MESSAGES)


def a_home(tmp_path: Path, messages: int) -> HoldfastHome:
    made = HoldfastHome(tmp_path, clock=clock, idle=DAY)
    store = made.create_session_store()
    for session_id, parent in (("root", None), ("middle", "root"), ("leaf", "middle")):
        store.create(
            Session(
                id=session_id,
                source="cli",
                started_at=NOW - 100,
                last_active_at=NOW - 100,
                parent_id=parent,
                relation=Relation.BRANCH if parent else None,
                title=f"title of {session_id}",
                routing_key=f"key of {session_id}",
                extra={"kept": [1, "two"]},
            )
        )
        store.append(
            session_id,
            [
                Message(
                    role="user", content=f"zebra {n} \ud800 " * 40, tokens=n, timestamp=NOW - 50
                )
                for n in range(messages)
            ]
            + [
                Message(
                    role="assistant",
                    content=None,
                    tool_calls=[{"id": "x"}],
                    tokens=Tokens(input=1, output=2, cached=3),
                    cost=0.5,
                )
            ],
            now=NOW - 40,
        )
        store.end(session_id, "done", at=NOW - 30)
    return made


def store_of(home: HoldfastHome) -> SqliteSessionStore:
    return file_of(home.session_store())


def remove(home: HoldfastHome, *ids: str, undoable: bool = True) -> Report:
    items = [as_item(store_of(home).get(each)) for each in ids]
    plan = plan_all(items, str(home.root), NOW, command="delete", reason="asked", undoable=undoable)
    return apply(plan, home, clock=clock)


def everything(home: HoldfastHome) -> dict[str, tuple[Session, list[Message]]]:
    store = store_of(home)
    return {
        session.id: (
            session,
            [replace(message, number=None) for message in store.messages(session.id)],
        )
        for session in store.find(SessionFilter())
    }


def found(home: HoldfastHome) -> set[str]:
    hits = store_of(home).search(Search(text="zebra", wanted=SessionFilter(), limit=2_000))
    return {hit.session.id for hit in hits}


def check_index(home: HoldfastHome) -> None:
    with store_of(home).database.write() as db:
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")


@pytest.mark.parametrize("ids", [("middle",), ("root",), ("leaf", "middle", "root")])
def test_undo_is_identity(home: HoldfastHome, ids: tuple[str, ...]) -> None:
    check_undo(home, *ids)


@pytest.mark.deep
def test_undo_of_long_sessions_is_identity(tmp_path: Path) -> None:
    check_undo(a_home(tmp_path, 300), "middle", "root")


def test_a_run_of_several_transactions_is_undone_as_one(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_mover, "AT_ONCE", 1)
    check_undo(home, "leaf", "root")


@pytest.mark.parametrize(("many", "page"), [(1, 32 * 1024), (1_000, 4096)])
def test_a_bundle_of_many_messages_has_large_pages_and_comes_back_like_any(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, many: int, page: int
) -> None:
    """Quicker to write. One of a few messages would take a quarter of a megabyte by them."""
    monkeypatch.setattr(bundle, "_MANY_MESSAGES", many)
    before = everything(home)
    remove(home, "leaf", "root")
    [copy] = home.root.rglob("*.sessions.db")
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA page_size").fetchone() == (page,)
    undo_latest(home, clock=clock)
    assert everything(home) == before


@pytest.mark.parametrize("error", [StorageError("The disk is full."), BusyError("It is busy.")])
def test_what_went_before_an_error_comes_back_and_the_rest_stays(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, error: HoldfastError
) -> None:
    """The sessions of a bundle leave in several transactions, and the second one fails."""
    monkeypatch.setattr(session_mover, "AT_ONCE", 1)
    before = everything(home)
    real = SqliteEngine.delete
    done: list[Found] = []

    def delete(engine: SqliteEngine, going: Sequence[Found], *, for_good: bool) -> None:
        if done:
            raise error
        real(engine, going, for_good=for_good)
        done.extend(going)

    monkeypatch.setattr(SqliteEngine, "delete", delete)
    try:
        report = remove(home, "leaf", "middle")
        assert (report.removed, report.failed) == (1, 1)
    except BusyError:
        settle_if_needed(home, clock=clock)
    tally.injected()
    [gone] = [each.id for each in done]
    assert everything(home).keys() == before.keys() - {gone}
    monkeypatch.undo()
    undo_latest(home, clock=clock)
    assert everything(home) == before
    assert not list(home.root.rglob("*.sessions.db"))
    tally.verified()


@pytest.mark.parametrize("at_once", [1, 1_000], ids=["in parts", "at once"])
def test_what_was_committed_before_its_flush_failed_keeps_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Whichever flush of the store it is: the sessions are gone, and only their copies are left."""
    monkeypatch.setattr(session_mover, "AT_ONCE", at_once)
    real, went = Database._flush, 0
    for place in itertools.count():
        home = a_home(tmp_path / str(place), MESSAGES)
        before = everything(home)
        flushes: list[Database] = []

        def flush(
            database: Database, flushes: list[Database] = flushes, place: int = place
        ) -> None:
            flushes.append(database)
            if len(flushes) == place + 1:
                raise StorageError("The disk reported an error.")
            real(database)

        with monkeypatch.context() as patch:
            patch.setattr(Database, "_flush", flush)
            with contextlib.suppress(HoldfastError):
                remove(home, "leaf", "middle")
        if len(flushes) <= place:
            break
        tally.injected()
        settle_if_needed(home, clock=clock)
        if everything(home).keys() < before.keys():
            undo_latest(home, clock=clock)
            went += 1
        assert everything(home) == before
        tally.verified()
    assert went


def check_undo(home: HoldfastHome, *ids: str) -> None:
    before = everything(home)
    report = remove(home, *ids)
    assert (report.removed, report.failed, report.skipped) == (len(ids), 0, 0)
    assert everything(home).keys() == before.keys() - set(ids)
    assert found(home) == before.keys() - set(ids)
    check_index(home)
    for child in everything(home).values():
        assert child[0].parent_id not in ids  # children stay, without a parent
    undo_latest(home, clock=clock)
    assert everything(home) == before
    assert found(home) == before.keys()
    check_index(home)


def as_an_earlier_version(copy: Path) -> None:
    """What it wrote had an index of the messages, and did not say which was the first."""
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute(f"ALTER TABLE sessions DROP COLUMN {bundle.FIRST_MESSAGE}")
        db.execute("CREATE INDEX messages_by_session ON messages (session, number)")
    first, _, *rest = copy.name.split(".")
    checksum = f"{zlib.crc32(copy.read_bytes()):08x}"
    copy.rename(copy.with_name(".".join((first, checksum, *rest))))


@pytest.mark.parametrize("older", [False, True])
def test_emptied_in_part_the_rest_still_comes_back(home: HoldfastHome, older: bool) -> None:
    before = everything(home)
    report = remove(home, "leaf", "middle", "root")
    [copy] = home.root.rglob("*.sessions.db")
    if older:
        as_an_earlier_version(copy)
    [entry] = [each for each in home.log.read().trash if each.removal.item.id == "middle"]
    items = [entry.as_item()]
    plan = plan_all(items, str(home.root), NOW, command="trash empty", reason="asked")
    emptied = apply(plan, home, clock=clock)
    assert (emptied.removed, emptied.failed) == (1, 0)
    [smaller] = home.root.rglob("*.sessions.db")
    with closing(sqlite3.connect(smaller)) as db:
        [indexes] = db.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'index'").fetchone()
    assert indexes == older
    if not older:
        assert 0 < emptied.bytes_freed <= report.bytes_in_trash
    _, back = undo(home, "1", clock=clock)
    assert (back.brought_back, back.failed) == (2, 0)
    assert everything(home).keys() == {"leaf", "root"}
    assert everything(home)["root"] == before["root"]
    assert not list(home.root.glob("trash/*"))


@pytest.mark.parametrize("older", [False, True])
def test_a_copy_says_which_message_was_the_first(home: HoldfastHome, older: bool) -> None:
    """By it, a session is told from another one that has taken its id, times and counts since."""
    [first] = store_of(home).messages("leaf", limit=1)
    remove(home, "leaf")
    [copy] = home.root.rglob("*.sessions.db")
    if older:
        as_an_earlier_version(copy)
    [copy] = home.root.rglob("*.sessions.db")
    [copied] = BundleFolder(copy.parent).contents(copy)
    assert copied.first_message == first.number is not None


def add_message(store: SqliteSessionStore) -> None:
    store.reopen("leaf", at=NOW)
    store.append("leaf", [Message(role="user", content="x")], now=NOW)
    store.end("leaf", "done", at=NOW)


def reopen(store: SqliteSessionStore) -> None:
    store.reopen("leaf", at=NOW)


def rename(store: SqliteSessionStore) -> None:
    store.rename("leaf", "precious")


def pin(store: SqliteSessionStore) -> None:
    store.pin("leaf", True)


def delete(store: SqliteSessionStore) -> None:
    remove_rows(store, "leaf")


def hold(store: SqliteSessionStore) -> None:
    store.reopen("leaf", at=NOW - 30)
    store.hold("leaf", processes.this_process(), now=NOW)
    store.end("leaf", "done", at=NOW - 30)


@pytest.mark.parametrize("change", [add_message, reopen, rename, pin, delete])
def test_what_changed_or_lives_is_skipped(
    home: HoldfastHome, change: Callable[[SqliteSessionStore], None]
) -> None:
    item = as_item(store_of(home).get("leaf"))
    change(store_of(home))
    before = everything(home)
    plan = plan_all([item], str(home.root), NOW, command="x", reason="y", undoable=True)
    report = apply(plan, home, clock=clock)
    assert [outcome.result for outcome in report.outcomes] == [Result.SKIPPED]
    assert everything(home) == before
    assert not list(home.root.glob("trash/*/*"))


@pytest.mark.parametrize("undoable", [True, False])
@pytest.mark.parametrize("change", [add_message, reopen, rename, pin, delete, hold])
def test_what_changes_after_the_last_look_is_skipped(
    home: HoldfastHome,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[SqliteSessionStore], None],
    undoable: bool,
) -> None:
    """The last moment before the transaction that removes is the worst one to change a session."""
    item = as_item(store_of(home).get("leaf"))
    plan = plan_all([item], str(home.root), NOW, command="x", reason="y", undoable=undoable)
    real = SessionMover._delete

    def late(*arguments: Any, **how: Any) -> Any:
        with closing(SqliteSessionStore(home.root / "sessions.db")) as other:
            change(other)
        return real(*arguments, **how)

    monkeypatch.setattr(SessionMover, "_delete", late)
    report = apply(plan, home, clock=clock)
    assert [outcome.result for outcome in report.outcomes] == [Result.SKIPPED]
    assert ("leaf" in everything(home)) == (change is not delete)
    assert not [path for path in home.root.glob("trash/**/*") if path.is_file()]
    tally.injected()
    tally.verified()


@pytest.mark.parametrize("by_another", [True, False])
@pytest.mark.parametrize("change", [add_message, reopen, rename, pin, delete, hold])
def test_the_state_of_a_store_tells_of_every_write(
    home: HoldfastHome, change: Callable[[SqliteSessionStore], None], by_another: bool
) -> None:
    """By this connection or by another one; reading, checkpointing and a failed write leave it."""
    store = store_of(home)
    engine = SqliteEngine(store, clock, LifeSigns(is_dead=lambda _: False, abandoned_after=DAY))
    before = engine.state()
    everything(home)
    store.database.truncate_log()
    with contextlib.suppress(HoldfastError):
        store.end("nobody", "done", at=NOW)
    assert engine.state() == before
    with closing(SqliteSessionStore(home.root / "sessions.db")) as other:
        change(other if by_another else store)
    assert engine.state() != before


def test_sessions_that_nobody_touched_are_looked_at_once(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Sequence[str]] = []
    real = SqliteEngine.look

    def look(engine: SqliteEngine, ids: Sequence[str]) -> Mapping[str, Found]:
        looks.append(ids)
        return real(engine, ids)

    monkeypatch.setattr(SqliteEngine, "look", look)
    assert remove(home, "leaf", "middle").removed == 2
    assert looks == [["leaf", "middle"]]


@pytest.mark.parametrize("undoable", [True, False])
def test_another_session_that_looks_the_same_has_no_copy_and_stays(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, undoable: bool
) -> None:
    """One that took the id after the copy was made, with the same times and counts."""
    real = SessionMover._delete

    def late(*arguments: Any, **how: Any) -> Any:
        with closing(sqlite3.connect(home.root / "sessions.db")) as other, other:
            old = other.execute("SELECT number FROM sessions WHERE id = 'leaf'").fetchone()
            other.execute("UPDATE messages SET session = 99, role = 'tool' WHERE session = ?", old)
            other.execute("UPDATE sessions SET number = 99 WHERE number = ?", old)
        return real(*arguments, **how)

    monkeypatch.setattr(SessionMover, "_delete", late)
    report = remove(home, "leaf", undoable=undoable)
    assert [outcome.result for outcome in report.outcomes] == [Result.SKIPPED]
    assert {each.role for each in everything(home)["leaf"][1]} == {"tool"}
    assert not [path for path in home.root.glob("trash/**/*") if path.is_file()]


def test_an_ended_session_that_a_process_holds_is_skipped(home: HoldfastHome) -> None:
    store = store_of(home)
    store.reopen("leaf", at=NOW)
    store.hold("leaf", processes.this_process(), now=NOW)
    store.end("leaf", "done", at=NOW)
    [outcome] = remove(home, "leaf").outcomes
    assert (outcome.result, outcome.reason) == (Result.SKIPPED, "in use: a process holds it")
    store.release("leaf", processes.this_process())
    assert remove(home, "leaf").removed == 1


def test_a_taken_place_and_a_damaged_copy_stay_in_the_trash(home: HoldfastHome) -> None:
    remove(home, "leaf", "middle")
    store = store_of(home)
    store.create(Session(id="leaf", source="cli", started_at=NOW, last_active_at=NOW))
    [copy] = home.root.glob("trash/1/sessions/*")
    _, report = undo_latest(home, clock=clock)
    assert {outcome.id: outcome.result for outcome in report.outcomes} == {
        "leaf": Result.FAILED,
        "middle": Result.BROUGHT_BACK,
    }
    assert store.get("leaf").message_count == 0
    [copy] = home.root.glob("trash/1/sessions/*")
    whole = copy.read_bytes()
    remove_rows(store, "leaf")
    copy.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    _, report = undo(home, "1", clock=clock)
    assert [outcome.result for outcome in report.outcomes] == [Result.DAMAGED]
    assert copy.exists()
    copy.write_bytes(whole)
    _, report = undo(home, "1", clock=clock)
    assert [outcome.result for outcome in report.outcomes] == [Result.BROUGHT_BACK]
    assert store.get("leaf").message_count == MESSAGES + 1


def test_lineage_comes_back_in_any_order(home: HoldfastHome) -> None:
    before = everything(home)
    for name in ("leaf", "root", "middle"):
        remove(home, name)
    for operation in ("1", "3", "2"):
        undo(home, operation, clock=clock)
    assert everything(home) == before


@pytest.mark.parametrize("configured", [True, False])
def test_a_delivered_cron_session_leaves_where_that_is_configured(
    tmp_path: Path, configured: bool
) -> None:
    options = SessionOptions(
        remove_after_delivery=configured, transcripts={"default": Transcript.JSONL}
    )
    with open_sessions(tmp_path, options=options, clock=clock) as sessions:
        session = sessions.create(source="cron", job="backup")
        sessions.append(session.id, Message(role="assistant", content="all fine"))
        assert sessions.delivered(session.id).end_reason == "delivered"
        left = [each.id for each in sessions.find()]
        files = [path.name for path in (tmp_path / "sessions").iterdir()]
        assert left == ([] if configured else [session.id])
        assert files == ([] if configured else [f"{session.id}.jsonl"])
        if configured:
            home = HoldfastHome(tmp_path, clock=clock, idle=DAY)
            target, _ = undo(home, home.log.read().operations[-1].id, clock=clock)
            assert target.state is OperationState.DONE
            assert [each.id for each in sessions.find()] == [session.id]
            assert (tmp_path / "sessions" / f"{session.id}.jsonl").exists()


def test_a_killed_run_stays_open_while_nobody_can_look(home: HoldfastHome) -> None:
    """Without its store nobody can say how far a killed run came, so the run is not closed. It
    keeps nobody from changing the home, and is settled when the store is back."""
    store = home.session_store()
    assert store is not None
    item = as_item(store.get("leaf"))
    plan = plan_all((item,), str(home.root), NOW, command="prune", reason="old", undoable=True)
    with (
        home.log.writing("prune") as log,
        log.begin(action=OperationAction.REMOVE, command="prune", at=NOW) as journal,
    ):
        journal.intend([Removal(operation=journal.operation, number=0, item=plan.steps[0])])
    home.close()
    place, away = home.root / "sessions.db", home.root / "away.db"
    place.rename(away)
    settle_if_needed(home, clock=clock)
    assert [each.state for each in home.log.read().operations] == [OperationState.UNFINISHED]
    apply(plan_empty(home, now=NOW, command="trash empty"), home, clock=clock)
    away.rename(place)
    settle_if_needed(home, clock=clock)
    [settled] = home.log.read().operations
    assert settled.state is not OperationState.UNFINISHED
    there = home.session_store()
    assert there is not None
    assert there.get("leaf").message_count == MESSAGES + 1
