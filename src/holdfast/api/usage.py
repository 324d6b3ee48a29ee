"""What agents used: tokens and cost of every home by day, model, source and project, and the
budgets that bound them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.model.session import SessionFilter
from holdfast.model.usage import Cost, CostShare, CostTotals
from holdfast.policy.budget_check import end_reason
from holdfast.policy.budgets import Budget
from holdfast.policy.prices import session_cost
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """A budget that is set: for sessions of one source, or of any without one. `used` is what was
    used of a daily one today (UTC), None for the others. `ended` counts the sessions in the store
    that it ended."""

    budget: str
    source: str | None
    limit: float
    used: float | None
    ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeUsage:
    """What a home used. `by_project` counts the sessions that are in the store: what a removed one
    used is known by day, model and source alone. `refusals` is how many tools a connected agent was
    refused, by the last figures that were kept."""

    costs: CostTotals
    by_project: Sequence[CostShare]
    budgets: Sequence[BudgetUse]
    refusals: int


def home_usage(home: Home, *, now: float) -> HomeUsage:
    """What was used in one home, and what may be."""
    costs, latest = home.costs(), home.growth().latest
    return HomeUsage(
        costs=costs,
        by_project=_by_project(home),
        budgets=_budgets(home, costs, now),
        refusals=0 if latest is None else latest.refusals,
    )


def together(totals: Sequence[CostTotals]) -> CostTotals:
    """The totals of several homes as one."""
    ever = Cost()
    for each in totals:
        ever = ever.plus(each.ever)
    by_day = added(share for each in totals for share in each.by_day)
    return CostTotals(
        ever=ever,
        by_day=tuple(sorted(by_day, key=lambda share: share.name or "", reverse=True)),
        by_source=added(share for each in totals for share in each.by_source),
        by_model=added(share for each in totals for share in each.by_model),
        by_task=added(share for each in totals for share in each.by_task),
        removed_too=all(each.removed_too for each in totals),
    )


def added(shares: Iterable[CostShare]) -> tuple[CostShare, ...]:
    """Shares of the same name as one, the highest known cost first."""
    sums: dict[str | None, Cost] = {}
    for share in shares:
        known = sums.get(share.name)
        sums[share.name] = share.cost if known is None else known.plus(share.cost)
    found = [CostShare(name=name, cost=cost) for name, cost in sums.items()]
    found.sort(key=lambda each: (-each.cost.known, -each.cost.usage.tokens.total, each.name or ""))
    return tuple(found)


def _by_project(home: Home) -> Sequence[CostShare]:
    page = home.list_sessions()
    return added(
        CostShare(name=each.cwd or None, cost=session_cost(page.prices, each))
        for each in page.sessions
        if each.tokens.total or each.tokens.cached or each.cost
    )


def _budgets(home: Home, costs: CostTotals, now: float) -> Sequence[BudgetUse]:
    options = home.settings.guard_options()
    store = home.session_store
    today = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
    used = next((share.cost for share in costs.by_day if share.name == today), Cost())

    def ended(budget: Budget, source: str | None) -> int:
        sources = None if source is None else (source,)
        wanted = SessionFilter(end_reasons=(end_reason(budget),), sources=sources)
        return 0 if store is None else store.count(wanted)

    of_day = {Budget.DAILY_TOKENS: used.usage.tokens.total, Budget.DAILY_COST: used.known}
    return [
        BudgetUse(
            budget=budget.value,
            source=source,
            limit=limit,
            # The ledger has no day of one source.
            used=of_day.get(budget) if source is None else None,
            ended=ended(budget, source),
        )
        for source, budgets in ((None, options.everywhere), *sorted(options.by_source.items()))
        for budget, limit in budgets.limits()
    ]
