"""The cost of tokens, by a table that the user writes.

There is no built-in price list: it would soon be wrong. A model without a price costs an unknown
amount, which is None and never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from holdfast.errors import UsageError
from holdfast.model.arguments import number
from holdfast.model.session import Session, Tokens
from holdfast.model.usage import Cost, CostShare, CostTotals, Usage, UsageEntry
from holdfast.value import dataclass, field

#: At the end of a name: matches every model whose name begins with the rest.
ANY = "*"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a million tokens. Without its own price, `cached` costs as much as `input`."""

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for price in (self.input, self.output, self.cached):
            if price is not None and number(price, "A price") == math.inf:
                raise UsageError("A price must be a finite number.")

    def cost_of(self, tokens: Tokens) -> float:
        """`tokens.cached` is not part of `tokens.input`."""
        cached = self.input if self.cached is None else self.cached
        cost = tokens.input * self.input + tokens.output * self.output + tokens.cached * cached
        return cost / _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices by model name. A name that ends in * matches every model that begins that way.

    An exact name takes precedence, then the longest prefix. A session without a model has only the
    price of "*".
    """

    by_model: Mapping[str, Price] = field(default_factory=dict)

    def of(self, model: str | None) -> Price | None:
        name = model or ""
        if name in self.by_model and not name.endswith(ANY):
            return self.by_model[name]
        beginnings = (
            pattern
            for pattern in self.by_model
            if pattern.endswith(ANY) and name.startswith(pattern.removesuffix(ANY))
        )
        longest = max(beginnings, key=len, default=None)
        return None if longest is None else self.by_model[longest]

    def over(self, other: Prices) -> Prices:
        """These prices, plus those that only the other table has."""
        return Prices(by_model={**other.by_model, **self.by_model})

    def cost_of(self, model: str | None, tokens: Tokens) -> float | None:
        """The cost of these tokens; None if the price is unknown."""
        price = self.of(model)
        return None if price is None else price.cost_of(tokens)

    def cost_of_session(self, session: Session) -> float | None:
        """The reported cost plus the price of the unpriced tokens; None if these have no price."""
        if session.unpriced == Tokens():
            return session.cost
        rest = self.cost_of(session.model, session.unpriced)
        return None if rest is None else session.cost + rest


def cost(prices: Prices, model: str | None, usage: Usage) -> Cost:
    """The cost of a usage. A reported cost is used as it is; prices apply only to the rest."""
    if usage.unpriced == Tokens():
        return Cost(usage=usage)
    priced = prices.cost_of(model, usage.unpriced)
    if priced is None:
        return Cost(usage=usage, unknown=usage.unpriced)
    return Cost(usage=usage, priced=priced)


def session_cost(prices: Prices, session: Session) -> Cost:
    used = Usage(tokens=session.tokens, cost=session.cost, unpriced=session.unpriced)
    return cost(prices, session.model, used)


def costs(entries: Iterable[UsageEntry], prices: Prices, *, removed_too: bool = True) -> CostTotals:
    """The totals of a ledger. The days are those with any usage, the latest first."""
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
    days = sorted(by_day, key=lambda day: day or "", reverse=True)
    return CostTotals(
        ever=ever,
        by_day=tuple(CostShare(name=day, cost=by_day[day]) for day in days),
        by_source=_most_first(by_source),
        by_model=_most_first(by_model),
        by_task=_most_first(by_task),
        removed_too=removed_too,
    )


def _most_first(sums: Mapping[str | None, Cost]) -> tuple[CostShare, ...]:
    shares = [CostShare(name=name, cost=each) for name, each in sums.items()]
    shares.sort(
        key=lambda share: (-share.cost.known, -share.cost.usage.tokens.total, share.name or "")
    )
    return tuple(shares)
