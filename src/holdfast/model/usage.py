"""What was used, ever: tokens and cost, also of sessions that are gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.model.session import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, and what they cost as far as that was told. `unpriced` are the tokens of which it
    was not: their cost is in no sum."""

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
    """One line of the ledger. The day and the model are None where there is none. `task` is what an
    auxiliary model was asked for: to look at an image, to sum up, to find a title."""

    day: str | None
    source: str
    model: str | None
    usage: Usage
    task: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShare:
    """What one day, source, model or task used. Without a name: no calendar has the day, or the
    sessions had no model."""

    name: str | None
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """Everything ever used. `by_day` has the latest days with any usage, the latest first; the
    others begin with what used most. `by_task` has what auxiliary models used, which is a part of
    the other sums."""

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
