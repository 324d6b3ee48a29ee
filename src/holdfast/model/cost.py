"""What usage costs: what was told, what a table of prices adds, and what nobody knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.model.session import Tokens
from holdfast.model.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """`priced` is what prices say of tokens that came without a cost; `unknown` are those tokens
    that have no price either."""

    usage: Usage = field(default_factory=Usage)
    priced: float = 0.0
    unknown: Tokens = field(default_factory=Tokens)

    @property
    def known(self) -> float:
        return self.usage.cost + self.priced

    @property
    def full(self) -> float | None:
        """None when a part of it is unknown: that is not 0."""
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
    """What one day, source, model or task cost. Without a name: no calendar has the day, or the
    sessions had no model."""

    name: str | None
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotals:
    """What everything ever used cost. `by_day` begins with the latest; the others with what cost
    most, as far as that is known. `by_task` has what auxiliary models cost, which is a part of the
    other sums."""

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
