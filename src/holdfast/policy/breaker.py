"""The circuit breaker: tool errors in a row, and what to say of them."""

from __future__ import annotations

from holdfast.model.guard import Advice, Level
from holdfast.policy.budgets import Thresholds

_TEXTS = {
    Level.NUDGE: (
        "{count} tool calls in a row have failed, the last one of {tool}. Read the error before "
        "you try again, and change something."
    ),
    Level.STRONG_NUDGE: (
        "{count} tool calls in a row have failed, the last one of {tool}. What you are doing does "
        "not work. Do not repeat it: take another way, or say what you need to go on."
    ),
    Level.STOP: (
        "{count} tool calls in a row have failed, the last one of {tool}. Stop here, and tell the "
        "user what you tried and what went wrong."
    ),
}


def errors_after(errors: int, *, failed: bool) -> int:
    """How many in a row after one more result; a success begins anew."""
    return errors + 1 if failed else 0


def advice(errors: int, tool: str, thresholds: Thresholds) -> Advice:
    return said(errors, thresholds, _TEXTS, tool)


def said(count: int, thresholds: Thresholds, texts: dict[Level, str], tool: str) -> Advice:
    """The strongest advice whose threshold was reached. It stays as strong while the count lasts,
    so that no thread can miss it."""
    for level, threshold in (
        (Level.STOP, thresholds.stop),
        (Level.STRONG_NUDGE, thresholds.strong_nudge),
        (Level.NUDGE, thresholds.nudge),
    ):
        if threshold and count >= threshold:
            return Advice(level=level, text=texts[level].format(count=count, tool=tool))
    return Advice()
