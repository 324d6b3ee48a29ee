"""How much of its budgets a session or a day has used: which budget a call would exceed, when to
warn, and what is near its limit. What was used is passed in as values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from holdfast.model.guard import (
    Alert,
    AlertKind,
    DayShare,
    Estimate,
    Near,
    Nearness,
    Standing,
    Work,
)
from holdfast.model.session import Session
from holdfast.model.usage import UsageEntry
from holdfast.policy.budgets import Budget, Budgets, GuardOptions, in_last_minute
from holdfast.policy.prices import Prices, cost, session_cost
from holdfast.policy.session_limits import SessionLimits
from holdfast.value import dataclass, replace

#: The relative rounding error to allow in a sum of costs: three times 0.1 is more than 0.3.
_ROUNDING = 1e-9
_REASON = "budget: "
_IN_WORDS = {
    Budget.TOKENS_IN: "tokens read",
    Budget.TOKENS_OUT: "tokens written",
    Budget.TOKENS: "tokens",
    Budget.COST: "in cost",
    Budget.ITERATIONS: "iterations",
    Budget.WALL_SECONDS: "seconds of work",
    Budget.MESSAGES_PER_MINUTE: "messages per minute",
    Budget.DAILY_TOKENS: "tokens per day",
    Budget.DAILY_COST: "in cost per day",
}
_DIGITS = 6
COSTS = (Budget.COST, Budget.DAILY_COST)
DAILY = (Budget.DAILY_TOKENS, Budget.DAILY_COST)
#: Only the processes that hold the session know these.
_FLEETING = (Budget.MESSAGES_PER_MINUTE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How much of one budget is used. `used` is None if the cost is unknown: then it is at least
    `known`, and `unpriced` are the models without a price.

    For a daily budget, `source` is the source that it limits, or None for all sources together. For
    a budget of the session it is None.
    """

    budget: Budget
    used: float | None
    limit: float
    in_flight: float = 0
    source: str | None = None
    warn_shares: tuple[float, ...] = ()
    known: float = 0
    unpriced: tuple[str, ...] = ()

    @property
    def least(self) -> float:
        """The amount that was used for certain."""
        used = self.used
        return self.known if used is None else used

    @property
    def warns_from(self) -> float:
        """The amount from which on there is something to warn about."""
        return min(self.warn_shares, default=1.0) * self.limit

    @property
    def words(self) -> str:
        words = _IN_WORDS[self.budget]
        return words if self.source is None else f"{words} of source {self.source}"

    @property
    def is_daily(self) -> bool:
        return self.budget in DAILY

    def would_pass(self, estimate: Estimate) -> bool:
        """True if one more call would exceed the limit, together with the calls in flight. A call
        without an estimate still uses something. If the cost is unknown, the known part may already
        be enough."""
        total = self.least + self.in_flight
        more = _next(self.budget, estimate)
        return total >= self.limit or total + more > self.limit * (1 + _ROUNDING)


def end_reason(budget: Budget) -> str:
    """The end reason of a session that exceeded a budget."""
    return f"{_REASON}{budget}"


def ended_by(reason: str | None) -> Budget | None:
    """The budget that ended a session; None if it ended for another reason."""
    names = {end_reason(budget): budget for budget in Budget}
    return names.get(reason or "")


def shown(value: float) -> float:
    """A figure for people: as an integer if it is one, otherwise rounded."""
    return int(value) if value == int(value) else round(value, _DIGITS)


def measures(
    options: GuardOptions,
    standing: Standing,
    prices: Prices,
    *,
    own: Budgets | None = None,
    at: float,
) -> tuple[Measure, ...]:
    """One measure for each budget that is set. `own` are limits of this session, which replace
    those of its source. `at` is a time of the monotonic clock."""
    source = standing.session.source
    session = own or options.budgets_of(source)
    found = [*_of_session(session, standing, prices, at)]
    for of, budgets in ((None, options.everywhere), (source, options.by_source.get(source))):
        if budgets is not None and budgets.of_day:
            flying = [e.estimate for e in standing.in_flight if of in (None, e.source)]
            found += of_day(budgets, of, standing.day_of(of), prices, flying)
    return tuple(found)


def with_iteration(found: Sequence[Measure]) -> Sequence[Measure]:
    """The same measures after one more call began."""
    return [
        replace(each, used=(each.used or 0) + 1) if each.budget is Budget.ITERATIONS else each
        for each in found
    ]


def refusal(found: Sequence[Measure], estimate: Estimate) -> Measure | None:
    """The first budget that a call would exceed."""
    return next((each for each in found if each.would_pass(estimate)), None)


def unknown_cost(found: Sequence[Measure]) -> Measure | None:
    """A cost budget that cannot be enforced, because the cost so far is unknown."""
    return next((each for each in found if each.used is None), None)


def _of_session(
    budgets: Budgets, standing: Standing, prices: Prices, at: float
) -> Iterator[Measure]:
    session = standing.session
    flying = [each.estimate for each in standing.in_flight if each.session_id == session.id]
    for budget, limit in budgets.limits():
        if budget not in DAILY:
            used = USED[budget](standing, prices, at)
            yield Measure(
                budget=budget,
                used=used,
                limit=limit,
                in_flight=sum(_estimated(budget, each) for each in flying) if flying else 0,
                warn_shares=budgets.warn_shares,
                known=session_cost(prices, session).known if used is None else 0,
                unpriced=(session.model or "",) if used is None else (),
            )


#: What a session used of each budget. Times are of the monotonic clock; the cost is None if
#: unknown.
USED: Mapping[Budget, Callable[[Standing, Prices, float], float | None]] = {
    Budget.TOKENS_IN: lambda standing, _, __: standing.session.tokens.input,
    Budget.TOKENS_OUT: lambda standing, _, __: standing.session.tokens.output,
    Budget.TOKENS: lambda standing, _, __: standing.session.tokens.total,
    Budget.COST: lambda standing, prices, _: prices.cost_of_session(standing.session),
    Budget.ITERATIONS: lambda standing, _, __: standing.work.guarded.iterations,
    Budget.WALL_SECONDS: lambda standing, _, __: standing.work.guarded.seconds,
    Budget.MESSAGES_PER_MINUTE: lambda standing, _, at: in_last_minute(
        standing.work.samples, at, standing.session.message_count
    ),
}


def of_day(
    budgets: Budgets,
    source: str | None,
    day: Sequence[DayShare],
    prices: Prices,
    flying: Sequence[Estimate] = (),
) -> Iterator[Measure]:
    """Measures of the daily budgets for a day, or a part of it."""
    for budget, limit in budgets.limits():
        if budget in DAILY:
            spent = Spent() if budget is Budget.DAILY_TOKENS else spent_on(day, prices)
            yield Measure(
                budget=budget,
                used=tokens_on(day) if budget is Budget.DAILY_TOKENS else spent.cost,
                limit=limit,
                in_flight=sum(_estimated(budget, each) for each in flying),
                source=source,
                warn_shares=budgets.warn_shares,
                known=spent.known,
                unpriced=spent.unpriced,
            )


def tokens_on(shares: Iterable[DayShare]) -> int:
    """The tokens used on a day, or in a part of it."""
    return sum(share.usage.tokens.total for share in shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent for certain, and the models without a price; if there are any, the total is
    unknown."""

    known: float = 0.0
    unpriced: tuple[str, ...] = ()

    @property
    def cost(self) -> float | None:
        return None if self.unpriced else self.known


def spent_on(shares: Iterable[DayShare], prices: Prices) -> Spent:
    """The cost of a day, or of a part of it."""
    known, unpriced = 0.0, set()
    for share in shares:
        each = cost(prices, share.model or None, share.usage)
        known += each.known
        if each.full is None:
            unpriced.add(share.model)
    return Spent(known=known, unpriced=tuple(sorted(unpriced)))


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
            return 0  # counted when a call begins, or independent of calls


def _next(budget: Budget, estimate: Estimate) -> float:
    """What the next call adds: at least 1 for whatever is counted in whole numbers."""
    if budget in COSTS or budget is Budget.WALL_SECONDS:
        return _estimated(budget, estimate)
    return max(1, _estimated(budget, estimate))


# --- Warnings -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Warnings:
    """The alerts to send now, and the keys of all warnings that were sent, including these."""

    alerts: tuple[Alert, ...]
    told: tuple[str, ...]


def warnings(
    session_id: str,
    found: Sequence[Measure],
    told: Collection[str],
    *,
    passed: Measure | None = None,
) -> Warnings:
    """For each budget, warn of the largest share that was reached, once. `passed` is the budget
    that a refused call would have exceeded: it counts as reached. A changed limit warns again."""
    alerts: list[Alert] = []
    now_told: list[str] = []
    for measure in found:
        if not told and measure is not passed and measure.least < measure.warns_from:
            continue  # the usual case
        reached = [
            share
            for share in _shares(measure)
            if measure is passed or measure.least >= share * measure.limit
        ]
        new = [share for share in reached if _key(measure, share) not in told]
        if new and max(new) == max(reached):
            alerts.append(alert(session_id, measure, over=max(new) >= 1))
        keys = {_key(measure, share): share for share in _shares(measure)}
        now_told += [key for key, share in keys.items() if share in new or key in told]
    return Warnings(alerts=tuple(alerts), told=tuple(now_told))


def alert(session_id: str, measure: Measure, *, over: bool) -> Alert:
    return Alert(
        kind=AlertKind.OVER_LIMIT if over else AlertKind.NEAR_LIMIT,
        session_id=session_id,
        what=measure.words,
        value=shown(measure.least),
        limit=shown(measure.limit),
    )


def _shares(measure: Measure) -> tuple[float, ...]:
    return (*measure.warn_shares, 1.0)


def _key(measure: Measure, share: float) -> str:
    return f"{measure.budget}@{share:g}@{measure.limit:g}@{measure.source or ''}"


# --- What is near its limit -----------------------------------------------------------------------


def nearness(
    limits: SessionLimits,
    options: GuardOptions,
    prices: Prices,
    sessions: Sequence[Session],
    today: Iterable[UsageEntry],
) -> Nearness:
    """Which open `sessions` are near a limit or a budget, and which daily budgets are; `today` are
    the entries of the ledger for today. "Near" starts at the lowest share at which a warning is
    due. Limits that an agent set in its code for a single session are not known here."""
    found = [*_near_limits(limits, sessions)]
    unknown = 0
    for source, name, measure in (
        *_near_budgets(options, prices, sessions),
        *_near_days(options, prices, today),
    ):
        unknown += measure.used is None
        if measure.least >= measure.warns_from:
            found.append(
                Near(
                    session=name,
                    source=source,
                    what=measure.budget.value,
                    used=measure.least,
                    limit=measure.limit,
                )
            )
    found.sort(key=lambda near: (-near.share, near.session or "", near.what))
    return Nearness(near=tuple(found), unknown_cost=unknown)


def _near_limits(limits: SessionLimits, sessions: Iterable[Session]) -> Iterator[Near]:
    for session in sessions:
        for what, used, limit in limits.measures(session):
            if limit and used >= limit * limits.warn_share:
                yield Near(
                    session=session.id, source=session.source, what=what, used=used, limit=limit
                )


def _near_budgets(
    options: GuardOptions, prices: Prices, sessions: Iterable[Session]
) -> Iterator[tuple[str, str, Measure]]:
    for session in sessions:
        work = Work(guarded=session.guarded) if session.guarded else Work()
        standing = Standing(session=session, work=work)
        for measure in measures(options, standing, prices, at=0.0):
            if not measure.is_daily and measure.budget not in _FLEETING:
                yield session.source, session.id, measure


def _near_days(
    options: GuardOptions, prices: Prices, today: Iterable[UsageEntry]
) -> Iterator[tuple[str | None, None, Measure]]:
    """Measures for each source with a daily budget of its own, and once for the day of all
    sources."""
    shares = tuple(
        DayShare(source=entry.source, model=entry.model or "", usage=entry.usage) for entry in today
    )
    told = set()
    for source in ("", *options.by_source):
        nobody = Session(id="", source=source, started_at=0.0, last_active_at=0.0)
        for measure in measures(options, Standing(session=nobody, day=shares), prices, at=0.0):
            key = measure.budget, measure.source
            if measure.is_daily and key not in told:
                told.add(key)
                yield measure.source, None, measure
