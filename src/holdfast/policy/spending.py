"""Which budget a call would pass. Pure: what was used comes in as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.model.guard import DayShare, Standing
from holdfast.model.guarded import Estimate
from holdfast.policy.budgets import Budget, Budgets, GuardOptions
from holdfast.policy.message_rate import in_last_minute
from holdfast.policy.prices import Prices

#: What a sum of costs may be off by: three times 0.1 is a little more than 0.3.
_ROUNDING = 1e-9
_REASON = "budget: "
_IN_WORDS = {
    Budget.TOKENS_IN: "tokens read",
    Budget.TOKENS_OUT: "tokens written",
    Budget.TOKENS: "tokens",
    Budget.COST: "in cost",
    Budget.ITERATIONS: "iterations",
    Budget.WALL_SECONDS: "seconds at work",
    Budget.MESSAGES_PER_MINUTE: "messages a minute",
    Budget.DAILY_TOKENS: "tokens a day",
    Budget.DAILY_COST: "in cost a day",
}
_DIGITS = 6
_COSTS = (Budget.COST, Budget.DAILY_COST)
_DAILY = (Budget.DAILY_TOKENS, Budget.DAILY_COST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How a session stands to one of its budgets. `used` of None is a cost that nobody knows.

    `source` is whose day it is; None is everybody's, or a budget of the session alone.
    """

    budget: Budget
    used: float | None
    limit: float
    in_flight: float = 0
    source: str | None = None
    warn_shares: tuple[float, ...] = ()

    @property
    def words(self) -> str:
        words = _IN_WORDS[self.budget]
        return words if self.source is None else f"{words} of source {self.source}"

    @property
    def is_daily(self) -> bool:
        return self.budget in _DAILY

    def would_pass(self, estimate: Estimate) -> bool:
        """Whether one more call, with all that are in flight, goes over the limit. Of a call that
        nothing is known of, only that it uses something."""
        total = (self.used or 0) + self.in_flight
        more = _next(self.budget, estimate)
        return total >= self.limit or total + more > self.limit * (1 + _ROUNDING)


def end_reason(budget: Budget) -> str:
    """Why a session ended that passed a budget."""
    return f"{_REASON}{budget}"


def ended_by(reason: str | None) -> Budget | None:
    """The budget for which a session was ended; None when it was for anything else."""
    names = {end_reason(budget): budget for budget in Budget}
    return names.get(reason or "")


def shown(value: float) -> float:
    """A figure for people: whole if it is, and without the dust of fractions."""
    return int(value) if value == int(value) else round(value, _DIGITS)


def measures(
    options: GuardOptions,
    standing: Standing,
    prices: Prices,
    *,
    own: Budgets | None = None,
    at: float,
) -> tuple[Measure, ...]:
    """Each budget that is set. `own` are limits of this session, in place of those of its source;
    `at` is the time of the machine's own clock."""
    source = standing.session.source
    session = own or options.budgets_of(source)
    found = [*_of_session(session, standing, prices, at)]
    found += _of_day(options.everywhere, None, standing, prices)
    if source in options.by_source:
        found += _of_day(options.by_source[source], source, standing, prices)
    return tuple(found)


def refusal(found: Sequence[Measure], estimate: Estimate) -> Measure | None:
    """The first budget that a call would pass."""
    return next((each for each in found if each.would_pass(estimate)), None)


def unknown_cost(found: Sequence[Measure]) -> Measure | None:
    """A budget of cost that cannot be kept: nobody knows what was spent."""
    return next((each for each in found if each.used is None), None)


def _of_session(
    budgets: Budgets, standing: Standing, prices: Prices, at: float
) -> Iterator[Measure]:
    session = standing.session
    used = _used(standing, prices, at)
    flying = [each.estimate for each in standing.in_flight if each.session_id == session.id]
    for budget, limit in budgets.limits():
        if budget not in _DAILY:
            yield Measure(
                budget=budget,
                used=used[budget],
                limit=limit,
                in_flight=sum(_estimated(budget, each) for each in flying),
                warn_shares=budgets.warn_shares,
            )


def _used(standing: Standing, prices: Prices, at: float) -> Mapping[Budget, float | None]:
    session, work = standing.session, standing.work
    return {
        Budget.TOKENS_IN: session.tokens.input,
        Budget.TOKENS_OUT: session.tokens.output,
        Budget.TOKENS: session.tokens.total,
        Budget.COST: prices.cost_of_session(session),
        Budget.ITERATIONS: work.guarded.iterations,
        Budget.WALL_SECONDS: work.guarded.seconds,
        Budget.MESSAGES_PER_MINUTE: in_last_minute(work.samples, at, session.message_count),
    }


def _of_day(
    budgets: Budgets, source: str | None, standing: Standing, prices: Prices
) -> Iterator[Measure]:
    day = [each for each in standing.day if source in (None, each.source)]
    flying = [each for each in standing.in_flight if source in (None, each.source)]
    for budget, limit in budgets.limits():
        if budget in _DAILY:
            yield Measure(
                budget=budget,
                used=_tokens(day) if budget is Budget.DAILY_TOKENS else _cost(day, prices),
                limit=limit,
                in_flight=sum(_estimated(budget, each.estimate) for each in flying),
                source=source,
                warn_shares=budgets.warn_shares,
            )


def _tokens(shares: Sequence[DayShare]) -> int:
    return sum(share.usage.tokens.total for share in shares)


def _cost(shares: Sequence[DayShare], prices: Prices) -> float | None:
    total = 0.0
    for share in shares:
        cost = prices.cost_of_usage(share.model or None, share.usage)
        if cost is None:
            return None
        total += cost
    return total


def _estimated(budget: Budget, estimate: Estimate) -> float:
    match budget:
        case Budget.TOKENS_IN:
            return estimate.tokens.input
        case Budget.TOKENS_OUT:
            return estimate.tokens.output
        case Budget.TOKENS | Budget.DAILY_TOKENS:
            return estimate.tokens.total
        case Budget.COST | Budget.DAILY_COST:
            return estimate.cost
        case Budget.ITERATIONS | Budget.WALL_SECONDS | Budget.MESSAGES_PER_MINUTE:
            return 0  # counted when a call begins, or not in a call's hands


def _next(budget: Budget, estimate: Estimate) -> float:
    """What the call in question adds: of what is counted in whole numbers, 1 at the least."""
    if budget in _COSTS or budget is Budget.WALL_SECONDS:
        return _estimated(budget, estimate)
    return max(1, _estimated(budget, estimate))
