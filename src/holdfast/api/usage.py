"""The usage of agents: tokens and cost of every home by day, model, source and project, and the
budgets that limit them."""

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
    """A configured budget, for sessions of one source, or of any source if `source` is None. `used`
    is today's (UTC) use of a daily budget, None for the others. `ended` counts the sessions in the
    store that the budget ended."""

    budget: str
    source: str | None
    limit: float
    used: float | None
    ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeUsage:
    """The usage of a home. `by_project` counts only the sessions in the store: the usage of removed
    sessions is known only by day, model and source. `refusals` is how many tools connected agents
    were refused, by the last recorded figures."""

    costs: CostTotals
    by_project: Sequence[CostShare]
    budgets: Sequence[BudgetUse]
    refusals: int


def home_usage(home: Home, *, now: float) -> HomeUsage:
    """The usage of one home, and its budgets."""
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
    """Add up shares with the same name, and sort them by known cost, the highest first."""
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
            # The ledger does not split a day by source.
            used=of_day.get(budget) if source is None else None,
            ended=ended(budget, source),
        )
        for source, budgets in ((None, options.everywhere), *sorted(options.by_source.items()))
        for budget, limit in budgets.limits()
    ]
