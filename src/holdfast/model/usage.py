"""What was used, ever: tokens and cost, also of sessions that are gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.model.session import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, and what they cost as far as that is known: an unknown cost is in no sum."""

    tokens: Tokens = field(default_factory=Tokens)
    cost: float = 0.0

    def plus(self, other: Usage) -> Usage:
        return Usage(tokens=self.tokens.plus(other.tokens), cost=self.cost + other.cost)

    def to_json(self) -> dict[str, Any]:
        return {
            "tokens_in": self.tokens.input,
            "tokens_out": self.tokens.output,
            "tokens_cached": self.tokens.cached,
            "cost": self.cost,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShare:
    """What one day, source or model used. Without a name: no calendar has the day, or the sessions
    had no model."""

    name: str | None
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """Everything ever used. `by_day` has the latest days with any usage, the latest first; the
    others begin with what used most."""

    ever: Usage
    by_day: tuple[UsageShare, ...]
    by_source: tuple[UsageShare, ...]
    by_model: tuple[UsageShare, ...]

    def to_json(self) -> dict[str, Any]:
        return self.ever.to_json() | {
            f"by_{what}": [{what: share.name} | share.usage.to_json() for share in shares]
            for what, shares in (
                ("day", self.by_day),
                ("source", self.by_source),
                ("model", self.by_model),
            )
        }
