"""Tokens and what they cost, of everything that was ever used; and what a session store holds.

Totals include sessions that are gone.
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One part of a whole: how many items, how many bytes."""

    name: str
    count: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "count": self.count, "bytes": self.bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What a session store holds now, its size on the disk, and everything that was ever used.

    `tokens` and `cost` are those of the sessions in the store; `usage` includes sessions that left
    it. Bytes in the other fields that start with `by` are those of messages before compression.
    `by_size` groups sessions by their number of messages, `by_average_message` by the average size
    of a message.
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
    usage: UsageTotals

    def to_json(self) -> dict[str, Any]:
        return {
            "sessions": self.sessions,
            "open_sessions": self.open_sessions,
            "messages": self.messages,
            "tokens": self.tokens,
            "cost": self.cost,
            "message_bytes": self.message_bytes,
            "database_bytes": self.database_bytes,
            "free_bytes": self.free_bytes,
            "wal_bytes": self.wal_bytes,
            "by_source": [share.to_json() for share in self.by_source],
            "by_age": [share.to_json() for share in self.by_age],
            "by_size": [share.to_json() for share in self.by_size],
            "by_average_message": [share.to_json() for share in self.by_average_message],
            "usage": self.usage.to_json(),
        }
