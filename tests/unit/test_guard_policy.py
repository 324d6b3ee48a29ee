"""What advice says, and limits that make no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.api.sessions import open_sessions
from holdfast.errors import UsageError
from holdfast.model.guard import Advice, Alert, AlertKind, Level
from holdfast.policy.budgets import Budgets, GuardOptions, Thresholds
from holdfast.policy.circuit_breaker import fingerprint


@pytest.mark.parametrize(
    "steps", [(3, 2, 9), (3, 3, 9), (-1, 2, 3), (1.5, 2, 3), (6, 0, 3)], ids=str
)
def test_thresholds_rise(steps: tuple[Any, Any, Any]) -> None:
    nudge, strong_nudge, stop = steps
    with pytest.raises(UsageError, match="Thresholds must"):
        Thresholds(nudge=nudge, strong_nudge=strong_nudge, stop=stop)


def test_a_threshold_of_0_is_never_reached() -> None:
    Thresholds(nudge=0, strong_nudge=0, stop=5)
    Thresholds(nudge=3, strong_nudge=0, stop=0)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_pause_is_some_seconds(bad: float) -> None:
    with pytest.raises(UsageError, match="idle"):
        GuardOptions(idle_after=bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, 80, -0.5, float("nan")])
def test_a_share_is_between_0_and_1(bad: float) -> None:
    with pytest.raises(UsageError, match="share"):
        Budgets(warn_shares=(bad,))


def test_the_breaker_escalates_at_3_6_and_9_and_a_success_resets(tmp_path: Path) -> None:
    with open_sessions(tmp_path / "home") as sessions:
        guard = sessions.guard(sessions.create(source="cli").id)
        levels = [guard.tool_result(f"t{n}", failed=True).level for n in range(10)]
        assert levels == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
        assert guard.tool_result("t", failed=False) == Advice()
        assert guard.tool_result("t", failed=True).level is Level.NONE


def test_fixation_is_noticed_with_and_without_the_same_arguments(tmp_path: Path) -> None:
    with open_sessions(tmp_path / "home") as sessions:
        guard = sessions.guard(sessions.create(source="cli").id)
        same = [guard.tool_result("read", '{"path": "a"}', failed=False) for _ in range(9)]
        assert [each.level for each in same] == [0, 0, 1, 1, 1, 2, 2, 2, 3]
        assert "read 3 times in a row with the same arguments" in same[2].text
        others = [guard.tool_result("read", {"path": n}, failed=False) for n in range(31)]
        assert [each.level for each in others] == [0] * 10 + [1] * 20 + [2]
        assert "Try another way" in others[-1].text
        assert guard.tool_result("write", {}, failed=False) == Advice()


def test_the_stronger_advice_is_given(tmp_path: Path) -> None:
    with open_sessions(tmp_path / "home") as sessions:
        guard = sessions.guard(sessions.create(source="cli").id)
        for number in range(5):
            guard.tool_result(f"t{number}", failed=True)
        advice = guard.tool_result("t5", failed=True)
        assert advice.level is Level.STRONG_NUDGE
        assert "6 tool calls in a row have failed" in advice.text


def test_any_arguments_have_a_fingerprint() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    odd = [None, "", "no json", "\ud800", b"bytes", {1, 2}, object, "[" * 100_000, float("nan")]
    prints = {fingerprint(each) for each in odd}
    assert len(prints) == len(odd)
    assert fingerprint(deep)
    assert fingerprint({1: 2, "a": 3})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2, "is near its limit of 3 messages (2)"),
        (3, "has reached its limit of 3 messages"),
        (4, "has passed its limit of 3 messages (4)"),
    ],
)
def test_a_limit_is_reached_before_it_is_passed(value: int, said: str) -> None:
    kind = AlertKind.NEAR_LIMIT if value < 3 else AlertKind.OVER_LIMIT
    alert = Alert(kind=kind, session_id="a", what="messages", value=value, limit=3)
    assert alert.message == f"session a {said}"
