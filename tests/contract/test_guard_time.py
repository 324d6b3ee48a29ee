"""Time at work and messages per minute, by a clock that nobody can set; and the runaway stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import BudgetExceededError
from holdfast.guard.guard import Guard
from holdfast.model.session import Message, Tokens
from holdfast.model.stored_session import Holder
from holdfast.policy.budgets import GuardOptions
from holdfast.stores import processes
from tests.guarding import Bench, spend
from tests.session_stores import BOTH, config_for

HOUR = 3_600.0
#: The case to stop: so many messages, in so many seconds, in so many turns of the loop.
MESSAGES, SECONDS, ITERATIONS = 602, 107.0, 209
#: And what it burned in two hours.
TOKENS, LATER = 22_000_000, 2 * HOUR


@pytest.fixture(params=BOTH)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    config_for(request.param, tmp_path / "home")
    made = Bench(tmp_path / "home")
    yield made
    made.close()


def at_work(guard: Guard) -> float:
    [measure] = [each for each in guard.measures() if each.budget == "wall_seconds"]
    return measure.used or 0.0


def work(bench: Bench, guard: Guard, seconds: float) -> None:
    with guard.call():
        bench.pass_time(seconds)


def test_time_at_work_is_that_of_calls_and_of_short_pauses(bench: Bench) -> None:
    guard = bench.fresh(wall_seconds=10_000)
    work(bench, guard, 100)
    bench.pass_time(30)  # a tool runs
    work(bench, guard, 1_000)  # longer than a pause, and a call all the same
    assert at_work(guard) == 1_130
    bench.pass_time(8 * HOUR)  # the user sleeps
    spend(guard)
    assert at_work(guard) == 1_130 + 300


def test_calls_side_by_side_are_counted_once(bench: Bench) -> None:
    guard = bench.fresh(wall_seconds=10_000)
    with guard.call():
        bench.pass_time(10)
        with guard.call():
            bench.pass_time(10)
        bench.pass_time(10)
    assert at_work(guard) == 30


def test_time_at_work_ends_a_session_and_outlives_a_restart(bench: Bench) -> None:
    guard = bench.fresh(wall_seconds=60)
    work(bench, guard, 50)
    bench.opened[0].close()
    again = bench.guard(bench.open(), guard.session_id, wall_seconds=60)
    work(bench, again, 10)
    with pytest.raises(BudgetExceededError) as refused, again.call():
        pytest.fail("a minute is over")
    assert (refused.value.budget, refused.value.used) == ("wall_seconds", 60)


@pytest.mark.parametrize("jump", [-10 * 365 * 24 * HOUR, -HOUR, HOUR, 10 * 365 * 24 * HOUR])
def test_a_clock_that_jumps_neither_frees_nor_kills_a_session(bench: Bench, jump: float) -> None:
    limits = {"wall_seconds": 60, "messages_per_minute": 100, "iterations": 10}
    guard = bench.fresh(**limits)  # type: ignore[arg-type]
    sessions = bench.opened[0]
    work(bench, guard, 20)
    sessions.append(guard.session_id, *[Message(role="tool")] * 40)
    bench.clock.now += jump
    work(bench, guard, 10)
    assert {each.budget: each.used for each in guard.measures()} == {
        "iterations": 2,
        "wall_seconds": 30,
        "messages_per_minute": 40,
    }


def test_a_machine_that_was_started_anew_goes_on_counting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = bench.fresh(wall_seconds=1_000)
    work(bench, guard, 50)
    anew = replace(processes.this_process(), boot="another")
    bench.machine.now = 3.0  # its own clock begins again
    monkeypatch.setattr(guard, "_processes", _Elsewhere(anew))
    work(bench, guard, 20)
    assert at_work(guard) == 70


@pytest.mark.parametrize("later", [HOUR + 1, -10 * 365 * 24 * HOUR])
def test_what_another_machine_had_in_flight_counts_for_an_hour(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, later: float
) -> None:
    guard = bench.fresh(tokens=100)
    far = bench.guard(bench.opened[0], guard.session_id, tokens=100)
    there = replace(processes.this_process(), host="elsewhere")
    monkeypatch.setattr(far, "_processes", _Elsewhere(there))
    far.call(tokens=Tokens(input=60)).__enter__()  # and is never heard of again
    bench.clock.now += HOUR - 1
    with pytest.raises(BudgetExceededError), guard.call(tokens=Tokens(input=41)):
        pytest.fail("60 are in flight, for all that is known here")
    bench.opened[0].reopen(guard.session_id)
    bench.clock.now += later
    with guard.call(tokens=Tokens(input=100)):
        assert [each.in_flight for each in guard.measures()] == [100]


class _Elsewhere:
    def __init__(self, holder: Holder) -> None:
        self._holder = holder

    def this_process(self) -> Holder:
        return self._holder

    def is_dead(self, holder: Holder) -> bool:
        return processes.is_dead(holder)


def test_messages_a_minute_slide(bench: Bench) -> None:
    guard = bench.fresh(messages_per_minute=30)
    sessions = bench.opened[0]
    for _ in range(20):  # ten a minute for two minutes
        spend(guard)
        sessions.append(guard.session_id, Message(role="tool"))
        bench.pass_time(6)
    [measure] = guard.measures()
    assert measure.used == 10
    sessions.append(guard.session_id, *[Message(role="tool")] * 20)
    with pytest.raises(BudgetExceededError, match="messages per minute"), guard.call():
        pytest.fail("30 in the last minute")
    bench.pass_time(61)
    sessions.reopen(guard.session_id)
    spend(guard)


def test_messages_from_before_the_guard_are_not_held_against_a_session(bench: Bench) -> None:
    sessions = bench.open()
    session = sessions.create(source="cli")
    sessions.append(session.id, *[Message(role="user")] * 500)
    guard = bench.guard(sessions, session.id, messages_per_minute=10)
    spend(guard)


def test_a_long_pause_spreads_what_came_in_it(bench: Bench) -> None:
    guard = bench.fresh(messages_per_minute=10)
    spend(guard)
    bench.opened[0].append(guard.session_id, *[Message(role="user")] * 40)
    bench.pass_time(600)
    spend(guard)  # 40 in ten minutes are 4 a minute
    [measure] = guard.measures()
    assert measure.used == 4


def runaway(bench: Bench, guard: Guard) -> tuple[int, int]:
    """The runaway as it happened, turn by turn: how many turns and messages it came to."""
    sessions = bench.opened[0]
    sent = 0
    tokens = TOKENS // ITERATIONS
    for turn in range(ITERATIONS):
        try:
            with guard.call() as call:
                call.used(Tokens(input=tokens - 500, output=500))
        except BudgetExceededError:
            return turn, sent
        due = MESSAGES * (turn + 1) // ITERATIONS
        sessions.append(guard.session_id, *[Message(role="tool", content="…")] * (due - sent))
        sent = due
        bench.pass_time(SECONDS / ITERATIONS)
    return ITERATIONS, sent


@pytest.mark.deep
def test_the_runaway_runs_without_a_budget(bench: Bench) -> None:
    guard = bench.fresh()
    assert runaway(bench, guard) == (ITERATIONS, MESSAGES)
    session = bench.opened[0].get(guard.session_id)
    assert session.guarded is not None
    assert session.guarded.iterations == ITERATIONS
    assert session.guarded.seconds == pytest.approx(SECONDS, abs=1)
    assert session.tokens.total > TOKENS - ITERATIONS


@pytest.mark.parametrize(
    ("budget", "limit", "turns"),
    [
        ("iterations", 50, 50),
        ("tokens", 1_000_000, 10),  # 105,263 tokens a turn: the tenth passes a million
        ("wall_seconds", 30, 59),
        ("messages_per_minute", 60, 21),  # 2.9 messages a turn
    ],
)
def test_the_runaway_is_stopped_at_each_limit(
    bench: Bench, budget: str, limit: int, turns: int
) -> None:
    guard = bench.fresh(**{budget: limit})  # type: ignore[arg-type]
    stopped, _ = runaway(bench, guard)
    assert stopped == turns
    session = bench.opened[0].get(guard.session_id)
    assert session.end_reason == f"budget: {budget}"
    assert runaway(bench, guard) == (0, 0)


def test_the_runaway_is_stopped_in_its_two_hours_too(bench: Bench) -> None:
    """A slow burn: a call every half minute, for two hours."""
    sessions = bench.open(GuardOptions())
    session = sessions.create(source="cli", model="m")
    guard = bench.guard(sessions, session.id, tokens=2_000_000, wall_seconds=HOUR)
    for _ in range(int(LATER / 30)):
        try:
            spend(guard, TOKENS // 240)
        except BudgetExceededError:
            break
        bench.pass_time(30)
    ended = sessions.get(session.id)
    assert ended.end_reason == "budget: tokens"
    assert 2_000_000 <= ended.tokens.total < 2_000_000 + TOKENS // 240
