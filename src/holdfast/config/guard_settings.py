"""[guard] with its sources, and [prices], as values, and the options that they amount to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from holdfast.config.keys import GUARD_SOURCE_KEYS
from holdfast.config.kinds import Value
from holdfast.policy.budgets import MINUTE, Budgets, GuardOptions, Thresholds
from holdfast.policy.prices import Price

_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """[guard]: 0 turns a limit off."""

    max_tokens: int
    max_tokens_in: int
    max_tokens_out: int
    max_cost: float
    max_iterations: int
    max_minutes: float
    max_messages_per_minute: int
    daily_tokens: int
    daily_cost: float
    warn_percent: tuple[int, ...]
    breaker: tuple[int, int, int]
    same_call: tuple[int, int, int]
    same_tool: tuple[int, int, int]
    idle_minutes: float

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

    def options(self, sources: tuple[GuardSourceSettings, ...]) -> GuardOptions:
        return GuardOptions(
            everywhere=self.budgets(),
            by_source={source.name: source.budgets(self) for source in sources},
            breaker=_thresholds(self.breaker),
            same_call=_thresholds(self.same_call),
            same_tool=_thresholds(self.same_tool),
            idle_after=self.idle_minutes * MINUTE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSourceSettings:
    """[guard.source.NAME]: what differs for one source. None is not given."""

    name: str
    max_tokens: int | None = None
    max_tokens_in: int | None = None
    max_tokens_out: int | None = None
    max_cost: float | None = None
    max_iterations: int | None = None
    max_minutes: float | None = None
    max_messages_per_minute: int | None = None
    daily_tokens: int | None = None
    daily_cost: float | None = None
    warn_percent: tuple[int, ...] | None = None

    def given(self) -> Iterator[tuple[str, Value]]:
        """The names and values that were set, in the order of the keys."""
        for key in GUARD_SOURCE_KEYS:
            value: Value | None = getattr(self, key.name)
            if value is not None:
                yield key.name, value

    def budgets(self, guard: GuardSettings) -> Budgets:
        """What holds for one session and was not given comes from `guard`; what holds for a day
        bounds each on its own."""
        own: dict[str, Any] = {"daily_tokens": 0, "daily_cost": 0.0, **dict(self.given())}
        return replace(guard, **own).budgets()


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSettings:
    """One line of [prices]: a million tokens of the models of this name."""

    model: str
    input: float
    output: float
    cached: float | None = None

    def given(self) -> Iterator[tuple[str, Value]]:
        yield "input", self.input
        yield "output", self.output
        if self.cached is not None:
            yield "cached", self.cached

    def price(self) -> Price:
        return Price(input=self.input, output=self.output, cached=self.cached)


def _thresholds(steps: tuple[int, int, int]) -> Thresholds:
    nudge, strong_nudge, stop = steps
    return Thresholds(nudge=nudge, strong_nudge=strong_nudge, stop=stop)
