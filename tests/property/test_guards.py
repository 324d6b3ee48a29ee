"""Budgets, breaker and fixation beside models that a child could follow."""

from __future__ import annotations

import json
import math
import tempfile
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import BudgetExceededError, UsageError
from holdfast.guard.call import Call
from holdfast.model.guard import Level, Sample, Work
from holdfast.model.session import Message, Tokens
from holdfast.policy.budget_check import Measure, warnings
from holdfast.policy.budgets import Budget, Budgets, Thresholds, in_last_minute, sampled, ticked
from holdfast.policy.circuit_breaker import (
    Run,
    breaker_advice,
    errors_after,
    fingerprint,
    fixation_advice,
)
from tests.guarding import Bench

# --- budgets ------------------------------------------------------------------------------------

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 40)),
        st.tuples(st.just("use"), st.integers(0, 60)),
        st.tuples(st.just("message"), st.integers(1, 30)),
        st.tuples(st.sampled_from(["leave", "reopen", "restart"]), st.just(0)),
    ),
    max_size=25,
)


class Model:
    """What is used, what is in flight, and whether it has ended; a token costs 1."""

    def __init__(self, tokens: int, cost: int, iterations: int) -> None:
        self.limits = {"tokens": tokens, "cost": cost, "iterations": iterations}
        self.used = self.begun = 0
        self.flying: list[int] = []
        self.ended = False

    def would_pass(self, estimate: int) -> set[str]:
        """The budgets that one more call goes over."""
        before = self.used + sum(self.flying)
        over = set()
        if before + max(1, estimate) > self.limits["tokens"] > 0:
            over.add("tokens")
        if before >= self.limits["cost"] > 0 or before + estimate > self.limits["cost"] > 0:
            over.add("cost")
        if self.begun + 1 > self.limits["iterations"] > 0:
            over.add("iterations")
        return over


class Both:
    """The guard and the model, step by step."""

    def __init__(self, root: Path, limits: dict[str, int]) -> None:
        self.bench, self.model, self.limits = Bench(root), Model(**limits), limits
        self.sessions = self.bench.open()
        self.id = self.sessions.create(source="cli", model="m").id
        self.guard = self.bench.guard(self.sessions, self.id, **limits)
        self.calls: list[tuple[Call, ExitStack]] = []

    def begin(self, estimate: int) -> None:
        over, stack = self.model.would_pass(estimate), ExitStack()
        call = self.guard.call(tokens=Tokens(input=estimate), cost=float(estimate))
        if over or self.model.ended:
            with pytest.raises(BudgetExceededError) as refused:
                stack.enter_context(call)
            assert self.model.ended or refused.value.budget in over
            self.model.ended = True
            return
        stack.enter_context(call)
        self.model.begun += 1
        self.model.flying.append(estimate)
        self.calls.append((call, stack))

    def use(self, tokens: int) -> None:
        if self.calls:
            call, stack = self.calls.pop(0)
            self.model.flying.pop(0)
            call.used(Tokens(input=tokens))
            stack.close()
            self.model.used += tokens

    def leave(self, _: int) -> None:
        if self.calls:
            self.calls.pop(0)[1].close()
            self.model.flying.pop(0)

    def message(self, tokens: int) -> None:
        if not self.model.ended:
            self.sessions.append(self.id, Message(role="user", tokens=tokens))
            self.model.used += tokens

    def reopen(self, _: int) -> None:
        self.sessions.reopen(self.id)
        self.model.ended = False

    def restart(self, _: int) -> None:
        """Another program of the agent; the calls of this one are still in flight."""
        self.sessions = self.bench.open()
        self.guard = self.bench.guard(self.sessions, self.id, **self.limits)

    def check(self) -> None:
        session = self.sessions.get(self.id)
        assert session.tokens.total == self.model.used
        assert session.ended == self.model.ended
        assert (session.guarded.iterations if session.guarded else 0) == self.model.begun
        flying = {each.budget: each.in_flight for each in self.guard.measures()}
        if "tokens" in flying:
            assert flying[Budget.TOKENS] == sum(self.model.flying)


def _play(limits: dict[str, int], steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        both = Both(Path(folder) / "home", limits)
        try:
            for step, number in steps:
                getattr(both, step)(number)
                both.check()
        finally:
            for _, stack in both.calls:
                stack.close()
            both.bench.close()


_limits = st.fixed_dictionaries(
    {
        "tokens": st.just(0) | st.integers(1, 120),
        "cost": st.just(0) | st.integers(1, 120),
        "iterations": st.just(0) | st.integers(1, 6),
    }
)


@settings(max_examples=25)
@given(limits=_limits, steps=_steps)
def test_a_guard_does_what_the_model_does(
    limits: dict[str, int], steps: list[tuple[str, int]]
) -> None:
    _play(limits, steps)


@pytest.mark.deep
@settings(max_examples=600)
@given(limits=_limits, steps=_steps)
def test_a_guard_does_what_the_model_does_for_long(
    limits: dict[str, int], steps: list[tuple[str, int]]
) -> None:
    _play(limits, steps)


# --- breaker and fixation -----------------------------------------------------------------------

_thresholds = st.lists(st.integers(1, 12), min_size=3, max_size=3, unique=True).map(
    lambda given: Thresholds(
        **dict(zip(("nudge", "strong_nudge", "stop"), sorted(given), strict=True))
    )
)
_results = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([{"x": 1}, {"x": 2}]), st.booleans()),
    max_size=40,
)


def _level(count: int, thresholds: Thresholds) -> Level:
    steps = (thresholds.nudge, thresholds.strong_nudge, thresholds.stop)
    return Level(sum(count >= step for step in steps))


def _run(values: list[Any]) -> int:
    """How many of the first are the same."""
    return len(list(takewhile(lambda each: each == values[0], values)))


@given(results=_results, thresholds=_thresholds)
def test_the_breaker_counts_errors_since_the_last_success(
    results: list[tuple[str, Any, bool]], thresholds: Thresholds
) -> None:
    errors = 0
    for place, (tool, _, failed) in enumerate(results):
        errors = errors_after(errors, failed=failed)
        behind = [each[2] for each in reversed(results[: place + 1])]
        expected = len(list(takewhile(bool, behind)))
        advice = breaker_advice(errors, tool, thresholds)
        assert advice.level is _level(expected, thresholds)
        assert bool(advice.text) == bool(advice)
        assert not advice or str(expected) in advice.text


@given(results=_results, same_call=_thresholds, same_tool=_thresholds)
def test_fixation_is_the_length_of_the_last_run(
    results: list[tuple[str, Any, bool]], same_call: Thresholds, same_tool: Thresholds
) -> None:
    run = Run()
    for place, (tool, arguments, _) in enumerate(results):
        run = run.after(tool, fingerprint(arguments))
        behind = list(reversed(results[: place + 1]))
        tools = _run([each[0] for each in behind])
        calls = _run([each[:2] for each in behind])
        advice = fixation_advice(run, same_call=same_call, same_tool=same_tool)
        assert advice.level is max(_level(tools, same_tool), _level(calls, same_call))


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=4))
def test_the_same_arguments_have_the_same_fingerprint(arguments: dict[str, Any]) -> None:
    turned = dict(reversed(arguments.items()))
    assert fingerprint(arguments) == fingerprint(turned)
    assert fingerprint(arguments) == fingerprint(json.dumps(turned))
    assert fingerprint(arguments) != fingerprint({**arguments, "more!": 1})


# --- time, messages, warnings -------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 1_000), st.booleans(), st.booleans()), max_size=30))
def test_time_at_work_is_the_sum_of_what_was_work(
    moves: list[tuple[float, bool, bool]],
) -> None:
    work, at, boot, expected, before = Work(), 50.0, 0, 0.0, None
    for passed, in_flight, rebooted in moves:
        boot, at = (boot + 1, passed) if rebooted else (boot, at + passed)
        if before is not None and not rebooted:
            expected += passed if in_flight else min(passed, 60.0)
        before = at
        work = ticked(work, boot=str(boot), at=at, messages=0, in_flight=in_flight, idle_after=60.0)
    assert work.guarded.seconds == pytest.approx(expected)


#: A little more than the least that is sampled: sums are rounded.
@given(st.lists(st.tuples(st.floats(1.001, 20.0), st.integers(0, 9)), min_size=1, max_size=60))
def test_messages_of_the_last_minute_are_those_that_were_seen_in_it(
    moves: list[tuple[float, int]],
) -> None:
    samples: tuple[Sample, ...] = ()
    at, messages, arrivals = 0.0, 100, list[tuple[float, float, int]]()
    for passed, more in moves:
        arrivals.append((at, at + passed, more))
        at, messages = at + passed, messages + more
        samples = sampled(samples, at, messages)
        assert len(samples) <= 62
    inside = 0.0  # each step's messages, evenly over its time; those of the first were never seen
    for start, end, more in arrivals[1:]:
        inside += more * max(0.0, end - max(start, at - 60.0)) / (end - start)
    assert math.floor(inside + 1e-6) - 1 <= in_last_minute(samples, at, messages)
    assert in_last_minute(samples, at, messages) <= inside + 1e-6


@given(
    st.lists(st.integers(0, 40), max_size=12),
    st.lists(st.floats(0.05, 0.95), max_size=3, unique=True),
)
def test_each_share_warns_once(uses: list[int], shares: list[float]) -> None:
    told: tuple[str, ...] = ()
    used, count = 0, 0
    for more in uses:
        used += more
        measure = Measure(budget=Budget.TOKENS, used=used, limit=100, warn_shares=tuple(shares))
        said = warnings("s", [measure], told)
        told, before = said.told, used - more
        reached = [share for share in (*shares, 1.0) if before < share * 100 <= used]
        assert len(said.alerts) == bool(reached)
        count += len(said.alerts)
    assert count <= len(shares) + 1


# --- limits that make no sense ------------------------------------------------------------------


@given(
    budget=st.sampled_from(list(Budget)),
    bad=st.sampled_from([-1, -0.5, math.nan, math.inf, -math.inf, 10**13, True, "5", None]),
)
def test_a_limit_that_makes_no_sense_is_refused(budget: Budget, bad: Any) -> None:
    with pytest.raises(UsageError):
        Budgets(**{budget.value: bad})
