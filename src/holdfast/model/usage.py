"""Tokens and cost of everything that was ever used; and what a session store holds.

Totals include sessions that were removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.model.json_value import JsonValue
from holdfast.model.session import Tokens
from holdfast.model.text import format_cost
from holdfast.value import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, and their cost if it was reported. `unpriced` are the tokens without a reported cost;
    no sum includes them."""

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
        tokens = self.tokens.to_json("tokens") | self.unpriced.to_json("unpriced")
        return {"cost": self.cost} | tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageEntry:
    """One line of the ledger. Day and model are None if unknown. `task` is what an auxiliary model
    was used for, such as describing an image, summarising, or finding a title."""

    day: str | None
    source: str
    model: str | None
    usage: Usage
    task: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """`priced` is the cost, by the price table, of tokens without a reported cost. `unknown` are
    the tokens that have no price either."""

    usage: Usage = field(default_factory=Usage)
    priced: float = 0.0
    unknown: Tokens = field(default_factory=Tokens)

    @property
    def known(self) -> float:
        return self.usage.cost + self.priced

    @property
    def full(self) -> float | None:
        """None if part of the cost is unknown, which is not the same as 0."""
        return self.known if self.unknown == Tokens() else None

    @property
    def unknown_tokens(self) -> int:
        """All tokens that would cost something. Cached tokens count too: a price may apply to them
        alone."""
        return self.unknown.total + self.unknown.cached

    def in_words(self, digits: int | None = None) -> str:
        """The known cost, and whether there is more. Costs in one column share `digits`."""
        if self.full is not None:
            return format_cost(self.full, digits)
        return f"{format_cost(self.known, digits)} + unknown" if self.known else "unknown"

    def plus(self, other: Cost) -> Cost:
        return Cost(
            usage=self.usage.plus(other.usage),
            priced=self.priced + other.priced,
            unknown=self.unknown.plus(other.unknown),
        )

    def to_json(self) -> dict[str, Any]:
        costs = {"known_cost": self.known, "full_cost": self.full}
        return self.usage.to_json() | costs | self.unknown.to_json("unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostShare:
    """The cost of one day, source, model or task. The name is None if the day is not a valid date,
    or the sessions had no model."""

    name: str | None
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotals:
    """The cost of everything ever used. `by_day` starts with the latest day, the others with the
    highest known cost. `by_task` is the cost of auxiliary models, which the other sums include.
    `removed_too` is False if no ledger is kept: then the usage of removed sessions is missing."""

    ever: Cost
    by_day: tuple[CostShare, ...]
    by_source: tuple[CostShare, ...]
    by_model: tuple[CostShare, ...]
    by_task: tuple[CostShare, ...] = ()
    removed_too: bool = True

    def to_json(self) -> dict[str, Any]:
        return self._json(Cost.to_json)

    def usage_json(self) -> dict[str, Any]:
        """The same without prices: tokens, and reported costs."""
        return self._json(lambda cost: cost.usage.to_json())

    def _json(self, fields_of: Callable[[Cost], dict[str, Any]]) -> dict[str, Any]:
        by = {
            "day": self.by_day,
            "source": self.by_source,
            "model": self.by_model,
            "task": self.by_task,
        }
        return fields_of(self.ever) | {
            f"by_{what}": [{what: share.name} | fields_of(share.cost) for share in shares]
            for what, shares in by.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(JsonValue):
    """One part of a whole: how many items, how many bytes."""

    name: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats(JsonValue):
    """What a session store holds now, and its size on the disk.

    `tokens` and `cost` are those of the sessions in the store. Bytes in the fields that start with
    `by` are those of messages before compression. `by_size` groups sessions by their number of
    messages, `by_average_message` by the average size of a message.
    """

    sessions: int
    open_sessions: int
    messages: int
    tokens: int
    cost: float
    message_bytes: int
    database_bytes: int
    free_bytes: int
    wal_bytes: int
    by_source: tuple[Share, ...]
    by_age: tuple[Share, ...]
    by_size: tuple[Share, ...]
    by_average_message: tuple[Share, ...]
