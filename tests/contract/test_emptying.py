"""All sessions of a store, or all but a few, leave in one transaction: the others stay as they
were, and what left comes back as it was."""

from __future__ import annotations

import itertools
import random
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from holdfast.errors import BusyError, HoldfastError, StorageError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.sessions import mover as session_mover
from holdfast.homes.sessions.file_mover import SessionFileMover
from holdfast.homes.sessions.mover import SessionMover
from holdfast.model.item import SESSION, SPACE
from holdfast.model.operation import Removal
from holdfast.model.report import Moved, Outcome, Report, Result
from holdfast.model.session import Message, Relation, Session, SessionFilter
from holdfast.policy.plan_by_name import plan_all
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import BATCH, batches
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo_latest
from holdfast.stores import processes
from holdfast.stores.journal import FileJournal
from holdfast.stores.sqlite import emptying, space
from holdfast.stores.sqlite.bundle import BundleFolder
from holdfast.stores.sqlite.moves import SqliteEngine
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.value import replace
from tests import tally
from tests.stored import file_of

NOW = 1_800_000_000.0
OLD = [f"old-{n}" for n in range(12)]
Rows = Mapping[str, Sequence[Any]]


def clock() -> float:
    return NOW


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HoldfastHome]:
    """Twelve sessions in a line, and one that came from the last of them; each with a route, a
    lease that was given back, and what a guard keeps."""
    made = HoldfastHome(tmp_path, clock=clock, idle=DAY)
    made.create_session_store()
    store = store_of(made)
    for number, name in enumerate((*OLD, "young")):
        parent = (*OLD, "young")[number - 1] if number else None
        relation = Relation.BRANCH if parent else None
        store.create(
            Session(
                id=name,
                source="cli",
                started_at=NOW - 100,
                last_active_at=NOW - 100,
                parent_id=parent,
                relation=relation,
                routing_key=f"key of {name}",
                extra={"kept": number},
            )
        )
        noise = random.Random(name)  # nothing that could be packed
        said = [Message(role="user", content=noise.randbytes(2_000).hex()) for _ in range(6)]
        store.append(name, said, now=NOW - 50)
        store.hold(name, processes.this_process(), now=NOW)
        store.release(name, processes.this_process())
        store.end(name, "done", at=NOW - 30)
    with store.database.write() as db:
        db.execute("INSERT INTO guarded (session, iterations) SELECT number, 7 FROM sessions")
        db.execute(
            "INSERT INTO reservations (session, host, boot, process, started, made_at, tokens_in,"
            " tokens_out, cost) SELECT number, 'h', 'b', 1, 's', 0, 1, 1, 0 FROM sessions"
            " WHERE id = 'young'"
        )
    yield made
    made.close()


def store_of(home: HoldfastHome) -> SqliteSessionStore:
    return file_of(home.session_store())


def remove(home: HoldfastHome, *ids: str, undoable: bool = True) -> Report:
    found = [each for each in home.scan(NOW).items if each.kind == SESSION and each.id in ids]
    plan = plan_all(found, str(home.root), NOW, command="delete", reason="asked", undoable=undoable)
    return apply(plan, home, clock=clock)


def everything(home: HoldfastHome) -> Rows:
    """Every row of every table but those of the search index."""
    with store_of(home).database.read() as db:
        tables = ("sessions", "messages", "leases", "routes", "guarded", "reservations", "ledger")
        queries = {each: f"SELECT * FROM {each} ORDER BY 1, 2" for each in tables}  # noqa: S608
        return {each: db.execute(query).fetchall() for each, query in queries.items()}


def whole(home: HoldfastHome) -> None:
    """Nothing refers to what is not there, and foreign keys are looked at again."""
    with store_of(home).database.write() as db:
        assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")


@pytest.fixture
def emptied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sessions left in one step, each time that it was done so."""
    real, seen = emptying.delete, list[int]()

    def delete(db: Any, numbers: Sequence[int]) -> None:
        real(db, numbers)
        seen.append(len(numbers))

    monkeypatch.setattr(emptying, "delete", delete)
    return seen


@pytest.mark.parametrize("copied_at_once", [10_000, 30])
def test_a_store_is_emptied_and_comes_back(
    home: HoldfastHome,
    emptied: list[int],
    monkeypatch: pytest.MonkeyPatch,
    copied_at_once: int,
) -> None:
    monkeypatch.setattr(session_mover, "_MOST_COPIED", copied_at_once)
    with store_of(home).database.write() as db:
        db.execute("DELETE FROM reservations")  # a call in flight does not come back
    before = everything(home)
    report = remove(home, *OLD, "young")
    assert (report.removed, emptied) == (13, [13])
    assert not [name for name, rows in everything(home).items() if rows and name != "ledger"]
    whole(home)
    bundles = len(list(home.root.rglob("*.sessions.db")))
    assert (bundles == 1) == (copied_at_once > 100)
    undo_latest(home, clock=clock)
    assert everything(home) == before
    whole(home)
    assert not list(home.root.rglob("*.sessions.db"))


def test_a_session_that_stays_keeps_all_that_belongs_to_it(
    home: HoldfastHome, emptied: list[int]
) -> None:
    before = everything(home)
    [young] = [row for row in before["sessions"] if row[1] == "young"]
    report = remove(home, *OLD)
    assert (report.removed, emptied) == (12, [12])
    after = everything(home)
    for table, rows in after.items():
        key = 0 if table in ("sessions", "leases", "guarded") else 1
        if table not in ("sessions", "ledger"):
            assert rows == [row for row in before[table] if row[key] == young[0]], table
            assert rows, table
    left = store_of(home).get("young")
    assert (left.parent_id, left.message_count) == (None, 6)
    whole(home)
    undo_latest(home, clock=clock)
    assert everything(home) == before


def test_no_number_of_a_message_is_used_again(home: HoldfastHome, emptied: list[int]) -> None:
    """A copy in the trash is told from another session by the numbers of its messages."""
    highest = max(row[0] for row in everything(home)["messages"])
    remove(home, *OLD, "young")
    assert emptied
    store = store_of(home)
    store.create(Session(id="old-0", source="cli", started_at=NOW, last_active_at=NOW))
    store.append("old-0", [Message(role="user", content="new")], now=NOW)
    assert min(row[0] for row in everything(home)["messages"]) > highest


def test_rows_of_no_session_are_left_for_the_doctor(home: HoldfastHome, emptied: list[int]) -> None:
    """A damaged store has messages whose session is gone. They are in no copy."""
    database = store_of(home).database
    with database.without_foreign_keys(), database.write() as db:
        db.execute("UPDATE messages SET session = 999 WHERE session = 3 AND number % 2")
    lost = [row for row in everything(home)["messages"] if row[1] == 999]
    remove(home, *OLD, "young")
    assert emptied
    assert everything(home)["messages"] == lost
    assert lost


@pytest.mark.parametrize("undoable", [True, False])
def test_what_changes_at_the_last_moment_stays(
    home: HoldfastHome, emptied: list[int], monkeypatch: pytest.MonkeyPatch, undoable: bool
) -> None:
    real = SessionMover._delete

    def late(*arguments: Any, **how: Any) -> Any:
        with closing(SqliteSessionStore(home.root / "sessions.db")) as other:
            other.reopen("old-5", at=NOW)
            other.append("old-5", [Message(role="user", content="not yet")], now=NOW)
            new = Session(id="new", source="cli", started_at=NOW, last_active_at=NOW,
                          parent_id="old-6", relation=Relation.BRANCH)  # fmt: skip
            other.create(new)
        return real(*arguments, **how)

    monkeypatch.setattr(SessionMover, "_delete", late)
    monkeypatch.setattr(session_mover, "_MOST_COPIED", 30)
    monkeypatch.setattr(session_mover, "_UNINDEXED_AT_ONCE", 30)  # which would be many steps
    report = remove(home, *OLD, undoable=undoable)
    assert (report.removed, report.skipped, emptied) == (11, 1, [11])
    store = store_of(home)
    assert {each.id for each in store.find(SessionFilter())} == {"old-5", "young", "new"}
    assert [each.content for each in store.messages("old-5")][-1] == "not yet"
    assert store.get("new").parent_id is None
    whole(home)
    if undoable:
        undo_latest(home, clock=clock)
        assert {each.id for each in store.find(SessionFilter())} == {*OLD, "young", "new"}
        assert store.get("new").parent_id == "old-6"
        whole(home)
    assert not list(home.root.rglob("*.sessions.db"))
    tally.injected()
    tally.verified()


class Killed(BaseException):
    """What nobody catches."""


@pytest.mark.parametrize("moment", ["second copy", "before", "inside", "after"])
def test_a_kill_leaves_all_or_nothing(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Killed before the second copy, with all copies written, inside the transaction, after it."""
    monkeypatch.setattr(session_mover, "_MOST_COPIED", 30)
    before = everything(home)
    with monkeypatch.context() as patch:
        _kill_at(patch, moment)
        with pytest.raises(Killed):
            remove(home, *OLD)
    tally.injected()
    home.close()
    again = HoldfastHome(home.root, clock=clock, idle=DAY)
    settle_if_needed(again, clock=clock)
    left = {each.id for each in store_of(again).find(SessionFilter())}
    assert left == ({"young"} if moment == "after" else {*OLD, "young"})
    whole(again)
    if moment == "after":
        undo_latest(again, clock=clock)
    assert everything(again) == before
    assert not list(home.root.rglob("*.sessions.db"))
    again.close()
    tally.verified()


@pytest.mark.parametrize("moment", ["before", "inside", "after"])
def test_a_kill_without_copies_leaves_all_or_nothing(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(session_mover, "_UNINDEXED_AT_ONCE", 30)
    before = everything(home)
    with monkeypatch.context() as patch:
        _kill_at(patch, moment)
        with pytest.raises(Killed):
            remove(home, *OLD, undoable=False)
    tally.injected()
    home.close()
    again = HoldfastHome(home.root, clock=clock, idle=DAY)
    settle_if_needed(again, clock=clock)
    left = {each.id for each in store_of(again).find(SessionFilter())}
    assert left == ({"young"} if moment == "after" else {*OLD, "young"})
    if moment != "after":
        assert everything(again) == before
    whole(again)
    again.close()
    tally.verified()


def _kill_at(patch: pytest.MonkeyPatch, moment: str) -> None:
    real_delete, real_step, real_copy = emptying.delete, SessionMover._delete, BundleFolder.write
    begun, written = itertools.count(), threading.Event()

    def write(*arguments: Any, **how: Any) -> Any:
        if moment == "second copy" and next(begun):
            written.wait(60)  # several are made at a time
            raise Killed
        path = real_copy(*arguments, **how)
        written.set()
        return path

    def step(*arguments: Any, **how: Any) -> Any:
        if moment == "before":
            raise Killed
        done = real_step(*arguments, **how)
        if moment == "after":
            raise Killed
        return done

    def delete(*arguments: Any) -> None:
        real_delete(*arguments)
        if moment == "inside":
            raise Killed

    patch.setattr(BundleFolder, "write", write)
    patch.setattr(SessionMover, "_delete", step)
    patch.setattr(emptying, "delete", delete)


@pytest.mark.parametrize("place", ["copy", "delete"])
def test_an_error_leaves_everything_and_no_copies(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(session_mover, "_MOST_COPIED", 30)
    before, begun, done = everything(home), itertools.count(), threading.Event()
    real = getattr(SqliteEngine, place)

    def fail(*arguments: Any, **named: Any) -> Any:
        if place == "delete" or next(begun):
            assert place == "delete" or done.wait(60)  # several are made at a time
            raise StorageError("no")
        path = real(*arguments, **named)
        done.set()
        return path

    monkeypatch.setattr(SqliteEngine, place, fail)
    report = remove(home, *OLD)
    assert (report.removed, report.failed) == (0, 12)
    assert everything(home) == before
    assert not [path for path in home.root.glob("trash/**/*") if path.is_file()]
    whole(home)
    tally.injected()
    tally.verified()


def test_one_copy_is_flushed_while_the_next_is_written(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_mover, "_MOST_COPIED", 36)  # two copies
    both, real = threading.Barrier(2, timeout=60), SqliteEngine.copy

    def copy(*arguments: Any) -> Path:
        path = real(*arguments)
        both.wait()  # for ever, if one came after the other
        return path

    monkeypatch.setattr(SqliteEngine, "copy", copy)
    before = everything(home)
    assert remove(home, *OLD).removed == 12
    assert len(list(home.root.rglob("*.sessions.db"))) == both.parties
    undo_latest(home, clock=clock)
    assert everything(home)["messages"] == before["messages"]


@pytest.fixture
def with_files(home: HoldfastHome, monkeypatch: pytest.MonkeyPatch) -> HoldfastHome:
    """Each session with a file, and few of them are as many as thousands."""
    monkeypatch.setattr(session_mover, "_MANY", 2)
    folder = home.root / "sessions"
    folder.mkdir()
    for name in OLD:
        (folder / f"session_{name}.json").write_text("{}")
    return home


def prune(home: HoldfastHome) -> Report:
    scanned = home.scan(NOW)
    kept = [each for each in scanned.items if each.session != "young"]
    policy = Policy(everywhere=Limits(rules=Rules(max_age=1.0)))
    made = plan(policy, replace(scanned, items=tuple(kept)), NOW, command="prune")
    return apply(made, home, clock=clock)


def beside() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "holdfast-background"]


def result_of_space(report: Report) -> Outcome:
    [found] = [each for each in report.outcomes if each.kind == SPACE]
    return found


def test_space_is_given_back_while_files_move(
    with_files: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)
    real_give, real_drop = space.give_back, SessionFileMover.drop
    order: list[str] = []

    def give_back(database: Any) -> None:
        both.wait()  # for ever, if one came after the other
        real_give(database)
        order.append("given back")

    def drop(mover: SessionFileMover, batch: Sequence[Removal]) -> Sequence[Moved]:
        left = store_of(with_files).find(SessionFilter())
        order.append(f"files after sessions: {[each.id for each in left]}")
        both.wait()
        return real_drop(mover, batch)

    monkeypatch.setattr(space, "give_back", give_back)
    monkeypatch.setattr(SessionFileMover, "drop", drop)
    before = everything(with_files)
    size = space.footprint(store_of(with_files).database)
    report = prune(with_files)
    assert order[0] == "files after sessions: ['young']"
    assert order.count("given back") == 1
    assert report.removed == 24
    assert result_of_space(report).result is Result.RECLAIMED
    assert space.footprint(store_of(with_files).database) < size
    assert not beside()
    whole(with_files)
    undo_latest(with_files, clock=clock)
    assert everything(with_files) == before
    assert len(list((with_files.root / "sessions").iterdir())) == len(OLD)


def test_whoever_reads_meanwhile_does_not_keep_the_file_long(
    with_files: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log cannot be emptied, nor the file cut, while somebody reads an older state."""
    real, path = space.give_back, with_files.root / "sessions.db"
    readers = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def give_back(database: Any) -> None:
        readers.execute("BEGIN")
        readers.execute("SELECT count(*) FROM sessions").fetchone()
        real(database)
        readers.execute("COMMIT")

    size = space.footprint(store_of(with_files).database)
    monkeypatch.setattr(space, "give_back", give_back)
    with closing(readers):
        assert result_of_space(prune(with_files)).result is Result.RECLAIMED
    assert space.footprint(store_of(with_files).database) < size
    assert store_of(with_files).database.log_bytes() == 0


@pytest.mark.parametrize("error", [StorageError("no"), BusyError("wait")])
def test_space_that_cannot_be_given_back_meanwhile_is_owed_and_reported(
    with_files: HoldfastHome, monkeypatch: pytest.MonkeyPatch, error: HoldfastError
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(space, "give_back", Mock(side_effect=error))
        report = prune(with_files)
    assert report.removed == 24
    found = result_of_space(report)
    assert (found.result is Result.SKIPPED) == isinstance(error, BusyError)
    assert found.reason == error.message
    assert [each.owed for each in with_files.scan(NOW).space] == [True]
    assert not beside()
    tally.injected()
    tally.verified()


@pytest.mark.parametrize("moment", ["files", "log"])
def test_a_run_that_ends_early_leaves_nobody_at_work(
    with_files: HoldfastHome, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The next one has the home's lock: then nothing of this one goes on."""
    before, real, given = everything(with_files), space.give_back, list[Any]()
    dropped = threading.Event()

    def give_back(database: Any) -> None:
        dropped.wait(60)
        given.append(real(database))

    def end(*_: Any) -> Any:
        dropped.set()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(space, "give_back", give_back)
        place, name = (SessionFileMover, "drop") if moment == "files" else (FileJournal, "record")
        patch.setattr(place, name, end)
        with pytest.raises(Killed):
            prune(with_files)
        assert (given, beside()) == ([None], [])
    tally.injected()
    with_files.close()
    again = HoldfastHome(with_files.root, clock=clock, idle=DAY)
    settle_if_needed(again, clock=clock)
    assert {each.id for each in store_of(again).find(SessionFilter())} == {"young"}
    assert list((again.root / "sessions").iterdir()) == []
    whole(again)
    undo_latest(again, clock=clock)
    assert everything(again) == before
    again.close()
    tally.verified()


def test_without_room_for_the_log_of_all_half_of_them_goes_at_a_time(
    home: HoldfastHome, emptied: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without copies. Half of a store goes row by row, and foreign keys are needed for that."""
    real = SqliteEngine.delete

    def delete(engine: SqliteEngine, going: Sequence[Any], *, for_good: bool) -> None:
        if len(going) > 6:
            raise StorageError("no room")
        real(engine, going, for_good=for_good)

    monkeypatch.setattr(SqliteEngine, "delete", delete)
    report = remove(home, *OLD, undoable=False)
    assert (report.removed, report.failed, emptied) == (12, 0, [])
    assert {each.id for each in store_of(home).find(SessionFilter())} == {"young"}
    assert [len(everything(home)[each]) for each in ("leases", "routes", "guarded")] == [1, 1, 1]
    whole(home)
    tally.injected()
    tally.verified()


@pytest.mark.parametrize(
    ("sessions", "megabytes", "staying"), [(10_001, 1, 0), (5, 161, 0), (5, 1, 2_001)]
)
def test_what_would_take_long_goes_in_parts(
    home: HoldfastHome, sessions: int, megabytes: int, staying: int
) -> None:
    assert emptying.is_short(10_000, 160 * 1024 * 1024, 2_000)
    assert not emptying.is_short(sessions, megabytes * 1024 * 1024, staying)


def test_a_batch_takes_all_of_them_and_only_where_there_is_room(home: HoldfastHome) -> None:
    found = [each for each in home.scan(NOW).items if each.kind == SESSION][:1]
    plan = plan_all(found, str(home.root), NOW, command="x", reason="y", undoable=True)
    [item] = plan.steps
    many = [Removal(operation="1", number=n, item=item) for n in range(BATCH * 3)]
    together = {(item.kind, item.action): len(many)}
    assert [len(each) for each in batches(many, together=together)] == [len(many)]
    assert [len(each) for each in batches(many)] == [BATCH] * 3
    small = [len(each) for each in batches(many, first=1, together=together)]
    assert small[:3] == [1, 2, 4]
    assert max(small) == BATCH


def test_an_undo_brings_back_more_at_once(
    home: HoldfastHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that is in two batches has to be written again in between."""
    large = [
        replace(each, bytes=60 * 1024 * 1024)
        for each in home.scan(NOW).items
        if each.kind == SESSION and each.id in OLD[:4]
    ]
    plan = plan_all(large, str(home.root), NOW, command="x", reason="y", undoable=True)
    assert apply(plan, home, clock=clock).removed == len(large)
    real, seen = SessionMover.put_back, list[int]()

    def put_back(self: SessionMover, batch: Sequence[Removal]) -> Sequence[Moved]:
        seen.append(len(batch))
        return real(self, batch)

    monkeypatch.setattr(SessionMover, "put_back", put_back)
    undo_latest(home, clock=clock)
    assert seen == [len(large)]


@pytest.mark.parametrize("without", ["a second connection", "a thread"])
def test_space_is_given_back_at_the_end_where_no_thread_can_do_it(
    with_files: HoldfastHome, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    """On a disk so full that one connection has the file to itself, a second one would wait for
    nothing, with the lock of the home."""
    database, names = store_of(with_files).database, list[str]()
    real = space.give_back

    def give_back(database: Any) -> None:
        names.append(threading.current_thread().name)
        real(database)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(space, "give_back", give_back)
        if without == "a thread":
            patch.setattr(threading.Thread, "start", refuse)
        else:
            patch.setattr(database, "_alone", True)
        report = prune(with_files)
    assert result_of_space(report).result is Result.RECLAIMED
    assert names == [threading.main_thread().name]
    whole(with_files)
