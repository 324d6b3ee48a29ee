"""Whether a session is so far below its budgets that a call has nothing to be told.

Nearly every look of a guard ends like that, so it is asked first, with one comparison for each
budget. Whatever is nearer than that is left to `spending`, which decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.model.guard import Estimate, Standing
from holdfast.policy.budget_check import COSTS, DAILY, USED, spent_on, tokens_on
from holdfast.policy.budgets import Budget, Budgets, GuardOptions
from holdfast.policy.prices import Prices

_Used = Callable[[Standing, Prices, float], float | None]
#: What the next call adds at most: the places of these figures in `Headroom.suffices`.
_NOTHING, _ONE, _TOKENS, _COST = range(4)
_ADDS = {
    Budget.WALL_SECONDS: _NOTHING,
    Budget.ITERATIONS: _ONE,
    Budget.MESSAGES_PER_MINUTE: _ONE,
} | dict.fromkeys(COSTS, _COST)


class Headroom:
    """For sessions of one source, and the budgets that they have."""

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
        """Whether a call with this estimate may begin, and neither warns nor brings the session to
        where it would. False may also mean that only a closer look can tell."""
        if standing.session.source != self._source:
            return False
        tokens, cost = 1 + estimate.tokens.total, estimate.cost
        for each in standing.in_flight:  # also of other sessions: too much rather than too little
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
