"""The cost of everything that was ever used. Prices apply to tokens that came without a cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.model.session import Session, Tokens
from holdfast.model.usage import Cost, CostShare, CostTotals, Usage, UsageEntry
from holdfast.policy.prices import Prices

_MOST_DAYS = 30


def cost(prices: Prices, model: str | None, usage: Usage) -> Cost:
    """A reported cost counts as it is; prices apply only to the rest."""
    if usage.unpriced == Tokens():
        return Cost(usage=usage)
    priced = prices.cost_of(model, usage.unpriced)
    if priced is None:
        return Cost(usage=usage, unknown=usage.unpriced)
    return Cost(usage=usage, priced=priced)


def session_cost(prices: Prices, session: Session) -> Cost:
    used = Usage(tokens=session.tokens, cost=session.cost, unpriced=session.unpriced)
    return cost(prices, session.model, used)


def costs(entries: Iterable[UsageEntry], prices: Prices) -> CostTotals:
    """The totals of a ledger. Of the days, only the latest on which anything was used."""
    ever = Cost()
    by_day: dict[str | None, Cost] = {}
    by_source: dict[str | None, Cost] = {}
    by_model: dict[str | None, Cost] = {}
    by_task: dict[str | None, Cost] = {}
    for entry in entries:
        each = cost(prices, entry.model, entry.usage)
        ever = ever.plus(each)
        of = [(by_day, entry.day), (by_source, entry.source), (by_model, entry.model)]
        if entry.task is not None:
            of.append((by_task, entry.task))
        for sums, name in of:
            sums[name] = sums[name].plus(each) if name in sums else each
    days = sorted(by_day, key=lambda day: day or "", reverse=True)[:_MOST_DAYS]
    return CostTotals(
        ever=ever,
        by_day=tuple(CostShare(name=day, cost=by_day[day]) for day in days),
        by_source=_most_first(by_source),
        by_model=_most_first(by_model),
        by_task=_most_first(by_task),
    )


def _most_first(sums: Mapping[str | None, Cost]) -> tuple[CostShare, ...]:
    shares = [CostShare(name=name, cost=each) for name, each in sums.items()]
    shares.sort(
        key=lambda share: (-share.cost.known, -share.cost.usage.tokens.total, share.name or "")
    )
    return tuple(shares)
