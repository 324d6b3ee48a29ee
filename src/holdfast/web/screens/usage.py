"""Usage: tokens and cost of all agents, by day, model, agent and project; budgets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.api.budget_words import amount_of
from holdfast.api.home import Home
from holdfast.api.usage import BudgetUse, added, home_usage, together
from holdfast.model.session import Tokens
from holdfast.model.usage import Cost, CostShare, CostTotals
from holdfast.value import dataclass
from holdfast.web.site import Screen, Site, get

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.machine import Machine

_DAYS = (30, 90, 365)
_MOST = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of a table: a name and its usage. `share` is its part of the largest row."""

    name: str
    cost: Cost
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One day of the chart, from the left: `x`, `width` and `height` in percent."""

    day: str
    cost: Cost
    x: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The whole screen. `unpriced` are models whose tokens have no price."""

    totals: CostTotals
    bars: Sequence[Bar]
    by_cost: bool
    tables: Sequence[tuple[str, Sequence[Line]]]
    budgets: Sequence[tuple[str, BudgetUse]]
    refusals: int
    unpriced: Sequence[tuple[str, int]]
    homes: Sequence[tuple[str, str]]
    unread: Sequence[tuple[str, str]]


async def show(site: Site, request: Request) -> Response:
    query = site.query(request)
    chosen = query.one("home")
    asked = query.one("days", "30")
    days = int(asked) if asked in map(str, _DAYS) else _DAYS[0]
    shown = await site.threads.work(lambda machine: _look(site, machine, chosen, days))
    return site.page(
        request,
        "usage/show.html",
        title="Usage",
        amount_of=amount_of,
        shown=shown,
        chosen=chosen,
        days=days,
        spans=_DAYS,
    )


def _look(site: Site, machine: Machine, chosen: str, days: int) -> Shown:
    now = site.clock()
    looked = machine.look(lambda place: home_usage(Home(place), now=now))
    seen = [
        (home.label, each) for home, each in looked.seen if not chosen or site.slug(home) == chosen
    ]
    totals = together([each.costs for _, each in seen])
    agents = added(CostShare(name=label, cost=each.costs.ever) for label, each in seen)
    projects = added(share for _, each in seen for share in each.by_project)
    tables = [
        ("Model", _lines(totals.by_model, "no model")),
        ("Agent", _lines(agents, "")),
        ("Project", _lines(projects, "no directory")),
        ("Source", _lines(totals.by_source, "")),
    ]
    if totals.by_task:
        tables.append(("Auxiliary task", _lines(totals.by_task, "")))
    bars, by_cost = _chart(totals, now, days)
    return Shown(
        totals=totals,
        bars=bars,
        by_cost=by_cost,
        tables=tables,
        budgets=[(label, budget) for label, each in seen for budget in each.budgets],
        refusals=sum(each.refusals for _, each in seen),
        unpriced=[
            (share.name or "no model", share.cost.unknown_tokens)
            for share in totals.by_model
            if share.cost.unknown != Tokens()
        ],
        homes=[(site.slug(each), each.label) for each in machine.homes],
        unread=[(str(each.path), each.error.message) for each in looked.unread],
    )


def _chart(totals: CostTotals, now: float, days: int) -> tuple[Sequence[Bar], bool]:
    """A bar for each of the last days. The bars show the cost if it is known for all of them,
    otherwise tokens: an unknown cost would look like 0."""
    by_day = {share.name: share.cost for share in totals.by_day}
    last = datetime.fromtimestamp(now, UTC).date()
    names = [str(last - timedelta(days=each)) for each in range(days - 1, -1, -1)]
    found = [by_day.get(name, Cost()) for name in names]
    by_cost = any(each.known for each in found) and all(each.full is not None for each in found)
    values = [each.known if by_cost else float(each.usage.tokens.total) for each in found]
    most = max(values, default=0.0) or 1.0
    width = 100 / days
    bars = [
        Bar(
            day=name,
            cost=cost,
            x=number * width + width * 0.12,
            width=width * 0.76,
            height=max(100 * value / most, 0.8 if value else 0.0),
        )
        for number, (name, cost, value) in enumerate(zip(names, found, values, strict=True))
    ]
    return bars, by_cost


def _lines(shares: Sequence[CostShare], nameless: str) -> Sequence[Line]:
    few, rest = list(shares[:_MOST]), shares[_MOST:]
    if rest:
        others = added(CostShare(name=f"{len(rest):,} others", cost=each.cost) for each in rest)
        few += others
    # By cost if all of it is known; an unknown cost would look like 0.
    by_cost = all(each.cost.full is not None for each in few)
    if not by_cost:
        few.sort(key=lambda each: -each.cost.usage.tokens.total)
    most = max((_weight(each.cost, by_cost=by_cost) for each in few), default=0.0) or 1.0
    return [
        Line(
            name=each.name or nameless,
            cost=each.cost,
            share=_weight(each.cost, by_cost=by_cost) / most,
        )
        for each in few
    ]


def _weight(cost: Cost, *, by_cost: bool) -> float:
    return cost.known if by_cost else float(cost.usage.tokens.total)


SCREEN = Screen(title="Usage", path="/usage", icon="usage", order=50, routes=(get("/usage", show),))
