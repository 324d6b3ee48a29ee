"""How a run is stopped, and what is said about it; by a clock of our own."""

from __future__ import annotations

import signal
import time

import pytest

from holdfast.api.run_limits import Ending, RunLimits, Spent, attend
from holdfast.api.run_meter import _Used
from holdfast.errors import StorageError, UsageError


class Stubborn:
    """A command that ends only with one of these signals; with `straggler` something of it lives
    until SIGKILL."""

    def __init__(self, *ends: signal.Signals, straggler: bool = False) -> None:
        self.now = 0.0
        self._ends = ends
        self._straggler = straggler
        self._code: int | None = None

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> int | None:
        self.now += 0.0 if self._code is not None else seconds
        return self._code

    def signal(self, number: int) -> None:
        if number in self._ends:
            self._code = 128 + number
        self._straggler = self._straggler and number != signal.SIGKILL

    def alive(self) -> bool:
        return self._code is None or self._straggler


def stopped(group: Stubborn, monkeypatch: pytest.MonkeyPatch) -> Ending:
    def sleep(seconds: float) -> None:
        group.now += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    return attend(group, RunLimits(seconds=1.0), Spent, monotonic=group.clock)


@pytest.mark.parametrize(
    ("group", "last", "code", "seconds"),
    [
        (Stubborn(signal.SIGINT), "SIGINT", 130, 1),
        (Stubborn(signal.SIGTERM), "SIGTERM", 143, 6),
        (Stubborn(signal.SIGKILL), "SIGKILL", 137, 11),
        (Stubborn(signal.SIGINT, straggler=True), "SIGKILL", 130, 11),
        (Stubborn(), "SIGKILL", 137, 16),
    ],
    ids=["at once", "at SIGTERM", "at SIGKILL", "something outlives it", "never"],
)
def test_it_says_how_long_it_ran_and_what_ended_it(
    monkeypatch: pytest.MonkeyPatch, group: Stubborn, last: str, code: int, seconds: int
) -> None:
    ending = stopped(group, monkeypatch)
    assert (ending.signal, ending.code) == (last, code)
    assert seconds <= ending.seconds < seconds + 0.5
    assert ending.stopped == "it ran for 1 s, the limit is 1 s"
    assert ending.left == (seconds > 11)


@pytest.mark.parametrize(
    ("totals", "used"),
    [
        ((500, 700, 900), 400),
        ((900, 100, 300), 400 + 200),  # cut, and it goes on
        ((900, 200, 950), 450),  # read while it was written
        ((900, 0, 0, 900), 400 + 900),  # the file is another one
    ],
)
def test_what_was_used_stays_used(totals: tuple[int, ...], used: int) -> None:
    meter = _Used(500)
    for each in totals:
        meter.see(each)
    assert meter.amount == used


def test_a_look_that_fails_does_not_leave_the_command_alone() -> None:
    """What was used by then is not forgotten, and the budget cannot be checked."""
    group, looks = Stubborn(signal.SIGINT), [Spent(tokens=5, known=1.0)]

    def spent() -> Spent:
        if looks:
            return looks.pop()
        raise StorageError("The disk is full.")

    ending = attend(group, RunLimits(tokens=10), spent, monotonic=group.clock)
    assert ending.stopped == (
        "its budget cannot be checked: its usage (The disk is full.) cannot be read"
    )
    assert (ending.code, ending.spent.tokens) == (130, 5)


@pytest.mark.parametrize(
    ("known", "used", "whose"),
    [
        (0.0, "10 tokens in 1 session", "their cost"),
        (0.5, "10 tokens, at least $0.50, in 1", "the cost of the rest"),
    ],
)
def test_what_is_not_known_of_the_cost_is_said_in_words(
    known: float, used: str, whose: str
) -> None:
    spent = Spent(tokens=10, known=known, sessions=("s",), unpriced=("m",))
    assert spent.in_words.startswith(used)
    assert spent.in_words.endswith(f"; {whose} is unknown: no price for m")
    assert "not known" not in Spent(tokens=10, known=known, sessions=("s",)).in_words


def test_limits_are_read_as_people_write_them() -> None:
    assert RunLimits.read() == RunLimits()
    assert RunLimits.read(["5 USD", "500ktokens"], max_time="2h", strict=False) == RunLimits(
        cost=5.0, tokens=500_000, seconds=7_200.0, strict=False
    )
    assert RunLimits.read(["$0.5"]).cost == 0.5
    assert RunLimits.read(["1.5m tok"]).tokens == 1_500_000


@pytest.mark.parametrize(
    ("budgets", "max_time", "said"),
    [
        (["5"], None, "has no unit"),
        (["much"], None, "is not a budget"),
        (["1USD", "$2"], None, "Two budgets in money"),
        (["0tokens"], None, "must be more than 0"),
        ([], "0", "must be more than 0"),
        ([], "soon", "not a duration"),
    ],
)
def test_limits_that_make_no_sense_are_errors(
    budgets: list[str], max_time: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        RunLimits.read(budgets, max_time=max_time)
