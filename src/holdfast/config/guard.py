"""[guard] and [prices]: what a session may use, and what tokens cost."""

from __future__ import annotations

from typing import Any

from holdfast.config.key import Key, key
from holdfast.config.kinds import Number, Percents, Steps
from holdfast.policy.budgets import (
    MINUTE,
    MOST_COST,
    MOST_TOKENS,
    Budgets,
    GuardOptions,
    Thresholds,
)
from holdfast.value import dataclass

_TOKENS = Number(0, MOST_TOKENS)
_COST = Number(0, int(MOST_COST), whole=False)
_COUNT = Number(0, 1_000_000_000)
_MINUTES = Number(0, 525_600, whole=False)
_PRICE = Number(0, 1_000_000, whole=False)
_USUAL = GuardOptions()
_PERCENT = 100


def _budget(kind: Number, *about: str) -> Any:
    return key(kind, 0, *about[:-1], f"{about[-1]} 0 means no limit.", per_source=True)


def _steps(usual: Thresholds, *about: str) -> Any:
    return key(Steps(), (usual.nudge, usual.strong_nudge, usual.stop), *about)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """[guard]: 0 turns a limit off."""

    max_tokens: int = _budget(
        _TOKENS, "The most tokens a session may use, read and written together."
    )
    max_tokens_in: int = _budget(_TOKENS, "The most tokens that its model may read.")
    max_tokens_out: int = _budget(_TOKENS, "The most tokens that its model may write.")
    max_cost: float = _budget(
        _COST,
        "The most a session may cost, in US dollars. While its cost is unknown, its calls are",
        "refused: set [prices] as well.",
    )
    max_iterations: int = _budget(_COUNT, "The most turns of its loop that a session may take.")
    max_minutes: float = _budget(_MINUTES, "The most minutes that a session may be at work.")
    max_messages_per_minute: int = _budget(_COUNT, "The most messages in any minute.")
    daily_tokens: int = _budget(
        _TOKENS, "The most tokens that all sessions may use in one day (UTC)."
    )
    daily_cost: float = _budget(_COST, "The most that all sessions may cost in one day (UTC).")
    warn_percent: tuple[int, ...] = key(
        Percents(),
        tuple(round(share * _PERCENT) for share in _USUAL.everywhere.warn_shares),
        "Warn at these shares of each limit, in percent; [] never warns.",
        per_source=True,
    )
    breaker: tuple[int, int, int] = _steps(
        _USUAL.breaker,
        "After how many tool errors in a row the model is nudged, nudged strongly, and stopped.",
        "0 leaves a step out.",
    )
    same_call: tuple[int, int, int] = _steps(
        _USUAL.same_call, "The same for calls of one tool with the same arguments."
    )
    same_tool: tuple[int, int, int] = _steps(
        _USUAL.same_tool, "The same for calls of one tool with any arguments."
    )
    idle_minutes: float = key(
        _MINUTES,
        int(_USUAL.idle_after // MINUTE),
        "A longer pause counts for max_minutes only up to this: a session that waits for its",
        "user is not at work.",
    )

    def budgets(self) -> Budgets:
        return Budgets(
            tokens=self.max_tokens,
            tokens_in=self.max_tokens_in,
            tokens_out=self.max_tokens_out,
            cost=self.max_cost,
            iterations=self.max_iterations,
            wall_seconds=self.max_minutes * MINUTE,
            messages_per_minute=self.max_messages_per_minute,
            daily_tokens=self.daily_tokens,
            daily_cost=self.daily_cost,
            warn_shares=tuple(percent / _PERCENT for percent in self.warn_percent),
        )

    def options(self, by_source: dict[str, Budgets]) -> GuardOptions:
        return GuardOptions(
            everywhere=self.budgets(),
            by_source=by_source,
            breaker=_thresholds(self.breaker),
            same_call=_thresholds(self.same_call),
            same_tool=_thresholds(self.same_tool),
            idle_after=self.idle_minutes * MINUTE,
        )


def _thresholds(steps: tuple[int, int, int]) -> Thresholds:
    nudge, strong_nudge, stop = steps
    return Thresholds(nudge=nudge, strong_nudge=strong_nudge, stop=stop)


#: What the table of one model may contain, [prices.MODEL]: what a million tokens cost.
PRICE_KEYS = {
    name: Key(path=("prices", name), kind=_PRICE) for name in ("input", "output", "cached")
}
#: A price must have these.
NEEDED = ("input", "output")
