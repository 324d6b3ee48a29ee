"""A fast check whether a session is so far below its budgets that there is nothing to report on a
call.

Nearly every check of a guard has that result, so this one runs first, with one comparison for each
budget. Anything closer to a limit is left to `budget_check`, which decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.model.guard import Estimate, Standing
from holdfast.policy.budget_check import COSTS, DAILY, USED, spent_on, tokens_on
from holdfast.policy.budgets import Budget, Budgets, GuardOptions
from holdfast.policy.prices import Prices

_Used = Callable[[Standing, Prices, float], float | None]
#: What the next call adds at most: indexes into the figures in `Headroom.suffices`.
_NOTHING, _ONE, _TOKENS, _COST = range(4)
_ADDS = {
    Budget.WALL_SECONDS: _NOTHING,
    Budget.ITERATIONS: _ONE,
    Budget.MESSAGES_PER_MINUTE: _ONE,
} | dict.fromkeys(COSTS, _COST)


class Headroom:
    """The headroom of sessions of one source, with the budgets that apply to them."""

    def __init__(
        self, options: GuardOptions, prices: Prices, source: str, *, own: Budgets | None = None
    ) -> None:
        self._prices = prices
        self._source = source
        self._bounds = (
            *_of_session(own or options.budgets_of(source)),
            *_of_day(options.everywhere, None),
            *(_of_day(options.by_source[source], source) if source in options.by_source else ()),
        )

    def suffices(self, standing: Standing, estimate: Estimate, *, at: float) -> bool:
        """True if a call with this estimate may begin and will not lead to a warning, now or when
        it ends. False may also mean that only the full check can tell."""
        if standing.session.source != self._source:
            return False
        tokens, cost = 1 + estimate.tokens.total, estimate.cost
        for each in standing.in_flight:  # also of other sessions: rather too much than too little
            tokens += each.estimate.tokens.total
            cost += each.estimate.cost
        adds = (0, 1, tokens, cost)
        prices = self._prices
        for quiet_below, added, read in self._bounds:
            used = read(standing, prices, at)
            if used is None or not used + adds[added] < quiet_below:
                return False
        return True


_Bound = tuple[float, int, _Used]


def _of_session(budgets: Budgets) -> Iterator[_Bound]:
    for budget, limit in budgets.limits():
        if budget not in DAILY:
            yield _quiet_below(budgets, limit), _ADDS.get(budget, _TOKENS), USED[budget]


def _of_day(budgets: Budgets, source: str | None) -> Iterator[_Bound]:
    for budget, limit in budgets.limits():
        if budget in DAILY:
            yield (
                _quiet_below(budgets, limit),
                _ADDS.get(budget, _TOKENS),
                _used_on_day(budget, source),
            )


def _used_on_day(budget: Budget, source: str | None) -> _Used:
    if budget is Budget.DAILY_TOKENS:
        return lambda standing, _, __: tokens_on(standing.day_of(source))
    return lambda standing, prices, _: spent_on(standing.day_of(source), prices).cost


def _quiet_below(budgets: Budgets, limit: float) -> float:
    return min(budgets.warn_shares, default=1.0) * limit
