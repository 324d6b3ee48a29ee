"""What usage costs: reported costs, costs from a table of prices, and unknown costs."""

from __future__ import annotations

from typing import Any

from holdfast.model.session import Tokens
from holdfast.model.usage import Usage
from holdfast.value import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """`priced` is the cost, by the table of prices, of tokens without a reported cost. `unknown`
    are the tokens that have no price either."""

    usage: Usage = field(default_factory=Usage)
    priced: float = 0.0
    unknown: Tokens = field(default_factory=Tokens)

    @property
    def known(self) -> float:
        return self.usage.cost + self.priced

    @property
    def full(self) -> float | None:
        """None when a part of the cost is unknown, which is not the same as 0."""
        return self.known if self.unknown == Tokens() else None

    def plus(self, other: Cost) -> Cost:
        return Cost(
            usage=self.usage.plus(other.usage),
            priced=self.priced + other.priced,
            unknown=self.unknown.plus(other.unknown),
        )

    def to_json(self) -> dict[str, Any]:
        return self.usage.to_json() | {
            "known_cost": self.known,
            "full_cost": self.full,
            "unknown_in": self.unknown.input,
            "unknown_out": self.unknown.output,
            "unknown_cached": self.unknown.cached,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CostShare:
    """The cost of one day, source, model or task. The name is None when the day is not a valid
    date, or the sessions had no model."""

    name: str | None
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotals:
    """The cost of everything ever used. `by_day` starts with the latest day, the others with the
    highest known cost. `by_task` is the cost of auxiliary models, which the other sums include."""

    ever: Cost
    by_day: tuple[CostShare, ...]
    by_source: tuple[CostShare, ...]
    by_model: tuple[CostShare, ...]
    by_task: tuple[CostShare, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return self.ever.to_json() | {
            f"by_{what}": [{what: share.name} | share.cost.to_json() for share in shares]
            for what, shares in (
                ("day", self.by_day),
                ("source", self.by_source),
                ("model", self.by_model),
                ("task", self.by_task),
            )
        }
