"""Many threads and processes on one guarded session: a budget is passed by no more than the calls
that were in flight, and what a killed process had reserved is free again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.api.sessions import AgentSessions, open_sessions
from holdfast.errors import BudgetExceededError
from holdfast.model.guard import Level
from holdfast.model.session import Tokens
from holdfast.policy.budgets import Budgets
from tests.stored import usage_of

pytestmark = pytest.mark.usefixtures("bad_day")

ROOT = Path(__file__).parents[2]
THREADS = 32


def start(
    home: Path, session: str, threads: int, each: int | str, **limits: int
) -> subprocess.Popen[str]:
    arguments = [str(home), session, str(threads), str(each), json.dumps(limits)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.guarded_worker", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(running: list[subprocess.Popen[str]]) -> Counter[str]:
    """What all of them said."""
    said: Counter[str] = Counter()
    for process in running:
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        said.update(out.splitlines())
    return said


def check(sessions: AgentSessions, session_id: str, *, used: int, begun: int, budget: str) -> None:
    session = sessions.get(session_id)
    assert session.end_reason == f"budget: {budget}"
    assert session.tokens.input == used, "what was said to be booked is booked, once"
    assert session.guarded is not None
    assert session.guarded.iterations == begun
    assert usage_of(sessions._store).ever.usage.tokens.input == used
    guard = sessions.guard(session_id, budgets=Budgets(tokens=10**9))
    with pytest.raises(BudgetExceededError), guard.call():
        pytest.fail("it has ended, whatever the limit is now")


@pytest.mark.parametrize(("budget", "limit"), [("iterations", 100), ("tokens", 1_000)])
def test_threads_pass_a_budget_by_no_more_than_is_in_flight(
    tmp_path: Path, budget: str, limit: int
) -> None:
    each, lock, count = 10, threading.Lock(), Counter[str]()
    with open_sessions(tmp_path / "home") as sessions:
        session = sessions.create(source="cli")
        limits = {budget: limit}
        guard = sessions.guard(session.id, budgets=Budgets(**limits))  # type: ignore[arg-type]
        barrier = threading.Barrier(THREADS)

        def run() -> None:
            barrier.wait()
            try:
                while True:
                    with guard.call() as call:
                        call.used(Tokens(input=each))
                        with lock:
                            count["used"] += each
                            count["calls"] += 1
            except BudgetExceededError:
                with lock:
                    count["refused"] += 1

        running = [threading.Thread(target=run) for _ in range(THREADS)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert count["refused"] == THREADS
        if budget == "iterations":
            assert count["calls"] == limit, "iterations are exact"
        else:
            # The last call that was let through saw at most 999; with it, 32 were in flight.
            assert limit <= count["used"] <= limit - 1 + THREADS * each
        check(sessions, session.id, used=count["used"], begun=count["calls"], budget=budget)


def test_the_bound_is_reached_and_no_more(tmp_path: Path) -> None:
    """The worst that can be: one token is left, and 32 calls begin before any of them says what
    it used."""
    limit, each = 1_000, 10
    with open_sessions(tmp_path / "home") as sessions, ExitStack() as in_flight:
        session = sessions.create(source="cli")
        guard = sessions.guard(session.id, budgets=Budgets(tokens=limit))
        with guard.call() as call:
            call.used(Tokens(input=limit - 1))
        calls = [in_flight.enter_context(guard.call()) for _ in range(THREADS)]
        for call in calls:
            call.used(Tokens(input=each))
        with pytest.raises(BudgetExceededError) as refused, guard.call():
            pytest.fail("the budget is passed")
        assert refused.value.used == limit - 1 + THREADS * each


@pytest.mark.parametrize("estimate", [7, 10])
def test_an_estimate_that_holds_means_a_budget_that_holds(tmp_path: Path, estimate: int) -> None:
    each, limit, lock, used = estimate, 500, threading.Lock(), Counter[str]()
    with open_sessions(tmp_path / "home") as sessions:
        session = sessions.create(source="cli")
        guard = sessions.guard(session.id, budgets=Budgets(tokens=limit))

        def run() -> None:
            try:
                while True:
                    with guard.call(tokens=Tokens(input=estimate)) as call:
                        call.used(Tokens(input=each))
                        with lock:
                            used["used"] += each
            except BudgetExceededError:
                pass

        running = [threading.Thread(target=run) for _ in range(THREADS)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert used["used"] <= limit, "never passed"
        assert sessions.get(session.id).tokens.input == used["used"]


def race(home: Path, *, processes: int, threads: int, each: int, **limits: int) -> None:
    [(budget, limit)] = limits.items()
    with open_sessions(home) as sessions:
        session = sessions.create(source="cli").id
        said = finished([start(home, session, threads, each, **limits) for _ in range(processes)])
        calls, at_once = said["began"], processes * threads
        assert said[f"refused {budget}"] == at_once
        assert said[f"used {each}"] == calls
        if budget == "iterations":
            assert calls == limit, "iterations are exact"
        else:
            assert limit <= calls * each <= limit - 1 + at_once * each
        check(sessions, session, used=calls * each, begun=calls, budget=budget)


def test_four_processes_on_one_session(tmp_path: Path) -> None:
    race(tmp_path / "home", processes=4, threads=2, each=25, tokens=1_000)


@pytest.mark.deep
@pytest.mark.parametrize(("budget", "limit"), [("iterations", 400), ("tokens", 10_000)])
def test_four_processes_with_many_threads_on_one_session(
    tmp_path: Path, budget: str, limit: int
) -> None:
    race(tmp_path / "home", processes=4, threads=8, each=25, **{budget: limit})


def test_a_killed_process_does_not_hold_its_reservation_for_ever(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with open_sessions(home) as sessions:
        session = sessions.create(source="cli").id
        worker = start(home, session, 1, "hold", tokens=100)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "began\n"
        guard = sessions.guard(session, budgets=Budgets(tokens=100))
        assert [each.in_flight for each in guard.measures()] == [60]
        with pytest.raises(BudgetExceededError) as refused, guard.call(tokens=Tokens(input=41)):
            pytest.fail("60 are in flight in another process")
        assert refused.value.used == 60
        worker.kill()
        worker.communicate()
        sessions.reopen(session)
        with guard.call(tokens=Tokens(input=100)) as call:
            call.used(Tokens(input=1))
        guarded = sessions.get(session).guarded
        assert guarded is not None
        assert guarded.iterations == 2, "the call that was killed was begun"
        assert [each.in_flight for each in guard.measures()] == [0]


@pytest.mark.deep
def test_processes_killed_at_any_moment_leave_the_count_right(tmp_path: Path) -> None:
    """What was said to be booked is booked; what was begun counts, to the call."""
    home = tmp_path / "home"
    with open_sessions(home) as sessions:
        session = sessions.create(source="cli").id
        said: Counter[str] = Counter()
        for turn in range(12):
            running = [start(home, session, 4, 5, iterations=100_000) for _ in range(2)]
            with pytest.raises(subprocess.TimeoutExpired):
                running[0].wait(0.8 + 0.05 * turn)
            for process in running:
                process.kill()
                out, _ = process.communicate()
                said.update(line[:-1] for line in out.splitlines(True) if line.endswith("\n"))
        guard = sessions.guard(session, budgets=Budgets(iterations=100_000, tokens=10**9))
        with guard.call():
            pass
        ended = sessions.get(session)
        assert ended.guarded is not None
        # A kill between the commit and the line that tells of it: one in each of 8 threads a turn.
        assert 0 <= ended.guarded.iterations - 1 - said["began"] <= 12 * 8
        assert 0 <= ended.tokens.input // 5 - said["used 5"] <= 12 * 8
        assert [each.in_flight for each in guard.measures()] == [0, 0]


def test_results_of_tools_can_come_from_any_thread(tmp_path: Path) -> None:
    """However they are told, so many errors in a row are so many."""
    with open_sessions(tmp_path / "home") as sessions:
        guard = sessions.guard(sessions.create(source="cli").id)
        levels: Counter[Level] = Counter()
        lock, barrier = threading.Lock(), threading.Barrier(THREADS)

        def run(name: str) -> None:
            barrier.wait()
            for number in range(10):
                advice = guard.tool_result(name, {"n": number}, failed=True)
                with lock:
                    levels[advice.level] += 1

        running = [threading.Thread(target=run, args=(f"t{n}",)) for n in range(THREADS)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert levels == {
            Level.NONE: 2,
            Level.NUDGE: 3,
            Level.STRONG_NUDGE: 3,
            Level.STOP: THREADS * 10 - 8,
        }
        assert guard.tool_result("t0", {}, failed=False).level is Level.NONE
