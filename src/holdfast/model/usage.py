"""Everything that was ever used: tokens and cost, including sessions that are gone."""

from __future__ import annotations

from typing import Any

from holdfast.model.session import Tokens
from holdfast.value import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, and their cost where it was reported. `unpriced` are the tokens without a reported
    cost, which no sum includes."""

    tokens: Tokens = field(default_factory=Tokens)
    cost: float = 0.0
    unpriced: Tokens = field(default_factory=Tokens)

    def plus(self, other: Usage) -> Usage:
        return Usage(
            tokens=self.tokens.plus(other.tokens),
            cost=self.cost + other.cost,
            unpriced=self.unpriced.plus(other.unpriced),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "tokens_in": self.tokens.input,
            "tokens_out": self.tokens.output,
            "tokens_cached": self.tokens.cached,
            "cost": self.cost,
            "unpriced_in": self.unpriced.input,
            "unpriced_out": self.unpriced.output,
            "unpriced_cached": self.unpriced.cached,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageEntry:
    """One line of the ledger. The day and the model are None where they are unknown. `task` is what
    an auxiliary model was used for, such as describing an image, summarising, or finding a
    title."""

    day: str | None
    source: str
    model: str | None
    usage: Usage
    task: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShare:
    """What one day, source, model or task used. The name is None when the day is not a valid date,
    or the sessions had no model."""

    name: str | None
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """Everything ever used. `by_day` has the latest days with any usage, latest first; the others
    start with the highest usage. `by_task` is what auxiliary models used, which the other sums
    include."""

    ever: Usage
    by_day: tuple[UsageShare, ...]
    by_source: tuple[UsageShare, ...]
    by_model: tuple[UsageShare, ...]
    by_task: tuple[UsageShare, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return self.ever.to_json() | {
            f"by_{what}": [{what: share.name} | share.usage.to_json() for share in shares]
            for what, shares in (
                ("day", self.by_day),
                ("source", self.by_source),
                ("model", self.by_model),
                ("task", self.by_task),
            )
        }
