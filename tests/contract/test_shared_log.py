"""The operation log of a store that machines share: any of them undoes what one did to rows; files
are left to the machine that has them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from holdfast import Home
from holdfast.errors import BusyError, CannotUndoError, HoldfastError, NothingToUndoError
from holdfast.homes.sessions.file_mover import SessionFileMover
from holdfast.model.operation import OperationState
from holdfast.model.report import Result
from holdfast.spine.settle import settle_if_needed
from holdfast.stores.postgres import operation_log
from holdfast.stores.postgres.failure import LockLostError
from holdfast.stores.postgres.operation_log import LOCK, PostgresOperationLog
from tests import fleet, postgres, tally
from tests.fleet import Machine, ids

FIRST, SECOND = "20260101_000000_aaaaaa", "20260102_000000_bbbbbb"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Machine, Machine]:
    a, b = fleet.machines(tmp_path, "alpha", "beta")
    fleet.old_sessions(a, FIRST, SECOND)
    return a, b


def prune(home: Home) -> str:
    report = home.prune(older_than="90d")
    assert report.operation is not None
    return report.operation


def test_another_machine_brings_the_rows_back_and_says_where_the_files_are(
    pair: tuple[Machine, Machine],
) -> None:
    a, b = pair
    with a.open() as home:
        operation = prune(home)
        assert ids(home) == []
        assert not a.transcript(FIRST).exists()
    with b.open() as home:
        [seen] = home.log.list()
        assert (seen.machine, seen.own, seen.elsewhere) == ("alpha", False, 2)
        with pytest.raises(NothingToUndoError, match="in this home") as nothing:
            home.undo_latest()
        assert f"operation {operation} (prune, on alpha)" in (nothing.value.hint or "")
        report = home.undo(operation)
        assert ids(home) == [FIRST, SECOND]
        left = [each for each in report.outcomes if each.result is Result.SKIPPED]
        assert [each.kind for each in left] == ["transcript", "transcript"]
        assert "its copy is on alpha" in left[0].reason
        with pytest.raises(CannotUndoError, match="only be brought back on alpha"):
            home.undo(operation)
    with a.open() as home:
        assert home.log.list()[-1].state is OperationState.PARTLY_UNDONE
        assert home.undo_latest().report.brought_back == 2
        assert a.transcript(FIRST).exists()
        assert home.log.list()[-1].state is OperationState.UNDONE
        assert not any((a.root / "trash").iterdir())


def test_a_machine_does_not_undo_by_itself_what_another_did_last(
    pair: tuple[Machine, Machine],
) -> None:
    a, b = pair
    fleet.old_sessions(b, "20260103_000000_cccccc")
    with b.open() as home:
        home.plan_delete(["20260103_000000_cccccc"]).apply()
    with a.open() as home:
        prune(home)
    with b.open() as home:
        assert home.undo_latest().report.brought_back > 0
        assert ids(home) == ["20260103_000000_cccccc"]


def test_the_trash_of_another_machine_is_not_emptied_here(pair: tuple[Machine, Machine]) -> None:
    a, b = pair
    with a.open() as home:
        operation = prune(home)
    with b.open() as home:
        assert {each.removal.item.kind for each in home.trash.list()} == {"session"}
        home.trash.empty()
        assert not home.trash.list()
    assert postgres.execute(_url(a), "SELECT count(*) FROM holdfast.trash_bundles") == [(0,)]
    with a.open() as home:
        assert [each.removal.item.kind for each in home.trash.list()] == ["transcript"] * 2
        report = home.undo(operation)
        assert report.report.brought_back == 2
        assert a.transcript(SECOND).exists()


def test_one_machine_at_a_time_changes_the_store(
    pair: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    with a.open() as first, _log(first).writing("prune --older-than 90d"), b.open() as second:
        monkeypatch.setattr(operation_log, "HOME_WAIT", 0.1)
        with pytest.raises(BusyError, match=r"process \d+ on alpha, `holdfast prune --older"):
            second.prune(older_than="90d")
        assert len(second.log.list()) == 0  # reading does not wait
    with b.open() as second:
        prune(second)


def test_two_machines_prune_at_once(pair: tuple[Machine, Machine]) -> None:
    """Each session leaves once, and all of them come back."""
    a, b = pair
    more = [f"2026010{n}_000000_dddddd" for n in range(3, 9)]
    fleet.old_sessions(b, *more)
    reports = []
    with a.open() as first, b.open() as second:
        plans = [each.plan_prune(older_than="90d") for each in (first, second)]
        threads = [
            threading.Thread(target=lambda plan=plan: reports.append(plan.apply()))
            for plan in plans
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
        gone = [o.id for r in reports for o in r.outcomes if o.result is Result.REMOVED]
        assert sorted(name for name in gone if "/" not in name) == sorted([FIRST, SECOND, *more])
        for operation in first.log.list():
            with contextlib.suppress(CannotUndoError):
                first.undo(operation)
        assert ids(first) == sorted([FIRST, SECOND, *more])


# --- Kills ----------------------------------------------------------------------------------------


def _in_child(work: Callable[[], object]) -> int:
    """Do it in a process of its own. Returns how that ended."""
    child = os.fork()
    if child == 0:  # pragma: no cover - it is killed
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _prune_until(machine: Machine, statement: int) -> None:
    """Prune, and die before the statement with a number."""
    seen, real = 0, psycopg.Connection.execute

    def execute(db: Any, *args: Any, **how: Any) -> object:
        nonlocal seen
        seen += 1
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(db, *args, **how)

    psycopg.Connection.execute = execute  # type: ignore[assignment, method-assign]
    with machine.open() as home:
        home.prune(older_than="90d")


@pytest.mark.parametrize(
    "statement", [90, *(pytest.param(each, marks=pytest.mark.deep) for each in range(40, 130, 7))]
)
def test_what_a_dead_machine_left_open_is_settled_as_far_as_can_be(
    pair: tuple[Machine, Machine], statement: int
) -> None:
    """Its lock ended with it. Another machine settles the rows; its files it settles itself."""
    a, b = pair
    contents = a.transcript(FIRST).read_bytes()
    assert _in_child(lambda: _prune_until(a, statement)) in (0, -signal.SIGKILL)
    tally.injected()
    with b.open() as home:
        _settle(home)
        sessions = ids(home)
        both = "SELECT id FROM holdfast.trash_sessions JOIN holdfast.sessions USING (id)"
        assert postgres.execute(_url(a), both) == []
    with a.open() as home:
        _settle(home)
        assert all(each.finished_at is not None for each in home.log.list())
        assert ids(home) == sessions
        for operation in home.log.list():
            with contextlib.suppress(CannotUndoError):
                home.undo(operation)
        assert ids(home) == [FIRST, SECOND]
        assert a.transcript(FIRST).read_bytes() == contents
    tally.verified()


def test_files_of_a_dead_machine_wait_for_it(pair: tuple[Machine, Machine]) -> None:
    """Killed between the rows and the files: an operation stays open until its machine is back."""
    a, b = pair

    def prune_and_die() -> None:
        SessionFileMover.drop = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment, method-assign]
        with a.open() as home:
            home.prune(older_than="90d")

    assert _in_child(prune_and_die) == -signal.SIGKILL
    tally.injected()
    with b.open() as home:
        _settle(home)
        [left] = home.log.list()
        assert left.state is OperationState.UNFINISHED
        assert ids(home) == []
        home.undo(left.id)
        assert ids(home) == [FIRST, SECOND]
    assert a.transcript(FIRST).exists()
    with a.open() as home:
        _settle(home)
        assert home.log.list()[-1].finished_at is not None
        for operation in home.log.list():
            with contextlib.suppress(CannotUndoError):
                home.undo(operation)
        assert ids(home) == [FIRST, SECOND]
        assert a.transcript(FIRST).exists()
    tally.verified()


def test_a_machine_that_lost_its_lock_does_nothing_more(pair: tuple[Machine, Machine]) -> None:
    """The connection with the lock is cut, another machine takes it: the first must stop."""
    a, b = pair
    with a.open() as first:
        log = _log(first)
        with pytest.raises(LockLostError, match="lost"), log.writing("prune") as writer:  # noqa: PT012
            postgres.server().cut()
            with b.open() as second:
                prune(second)
            with contextlib.suppress(HoldfastError):
                _log(first)._database().run(lambda db: db.execute("DELETE FROM sessions"))
            assert writer.read().operations == ()
            _log(first)._database().run(lambda db: db.execute("DELETE FROM operations"))
        # Afterwards it works as before.
        [operation] = first.log.list()
        first.undo(operation)
        assert ids(first) == [FIRST, SECOND]


def test_a_lock_ends_with_the_connection_of_its_holder(pair: tuple[Machine, Machine]) -> None:
    a, b = pair
    held = psycopg.connect(_url(a), autocommit=True)
    held.execute("SELECT pg_advisory_lock(%s)", [LOCK])

    def lose_power() -> None:
        end = sql.SQL("SELECT pg_terminate_backend({})").format(held.info.backend_pid)
        postgres.server().execute(end)

    with b.open() as home:
        dying = threading.Timer(0.3, lose_power)
        dying.start()
        prune(home)
        assert not dying.is_alive()
    held.close()


def test_numbers_of_a_home_that_had_a_log_of_its_own_are_not_used_again(tmp_path: Path) -> None:
    [a] = fleet.machines(tmp_path, "alpha")
    (a.root / "trash" / "7").mkdir(parents=True)
    (a.root / "trash" / "7" / "0-x").write_text("of the time before")
    fleet.old_sessions(a, FIRST)
    with a.open() as home:
        assert prune(home) == "8"


def _log(home: Home) -> PostgresOperationLog:
    log = home._place.home.log
    assert isinstance(log, PostgresOperationLog)
    return log


def _settle(home: Home) -> None:
    settle_if_needed(home._place.home, clock=lambda: fleet.NOW)


def _url(machine: Machine) -> str:
    return (machine.root / "config.toml").read_text().split('"')[1]
