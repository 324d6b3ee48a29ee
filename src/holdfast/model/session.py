"""One conversation: identity, source, lineage, lifecycle, totals, and its messages."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # it is made of tokens, which are made here
    from holdfast.model.guarded import Guarded

#: Anything JSON can hold. Values come back as they went in.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


_FACTS = struct.Struct("<dd?")
#: The extra field of a message that its user took back. It is kept, and was not said.
TAKEN_BACK = "taken_back"


class Relation(StrEnum):
    """How a session came from its parent."""

    BRANCH = "branch"
    CONTINUATION = "continuation"
    DELEGATE = "delegate"


class EndReason(StrEnum):
    """Reasons that Holdfast itself gives. A host may end a session with any other word."""

    ENDED = "ended"
    SESSION_RESET = "session_reset"
    IDLE_RESET = "idle_reset"
    LIMIT = "limit"
    DELIVERED = "delivered"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a model read, wrote, and read from its cache, which is not among what it read."""

    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def plus(self, other: Tokens) -> Tokens:
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=self.cached + other.cached,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `content` is text, or parts as the model's API has them, or None.

    `extra` holds every field Holdfast has no name for. `number` is the place of a stored message
    in its store: it grows, and is never used twice.
    """

    role: str
    content: Json = None
    timestamp: float | None = None
    tool_name: str | None = None
    tool_calls: Json = None
    tool_call_id: str | None = None
    reasoning: Json = None
    tokens: int | Tokens | None = None
    cost: float | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)
    number: int | None = None

    @property
    def usage(self) -> Tokens:
        """A plain count is what an assistant wrote, or what the model read of anybody else."""
        if self.tokens is None:
            return Tokens()
        if isinstance(self.tokens, Tokens):
            return self.tokens
        if self.role == "assistant":
            return Tokens(output=self.tokens)
        return Tokens(input=self.tokens)

    @property
    def unpriced(self) -> Tokens:
        """What it used without anybody saying what that cost. A cost of 0 was said."""
        return self.usage if self.cost is None else Tokens()

    @property
    def taken_back(self) -> bool:
        return self.extra.get(TAKEN_BACK) is True

    @property
    def tool_call_count(self) -> int:
        return len(self.tool_calls) if isinstance(self.tool_calls, list) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as the store knows it. The totals are those of its messages, and of what a guard
    booked beside them: `guarded`, for a session that had one.

    `message_count` leaves out messages that were taken back: they are kept, and were not said.
    `cost` is what was told; `unpriced` are the tokens of messages that came without a cost.
    `bytes` is the size of its messages before compression. `last_active_at` is the latest of its
    start, its last message, its reopening and its end.
    """

    id: str
    source: str
    started_at: float
    last_active_at: float
    parent_id: str | None = None
    relation: Relation | None = None
    title: str | None = None
    cwd: str | None = None
    model: str | None = None
    ended_at: float | None = None
    end_reason: str | None = None
    pinned: bool = False
    routing_key: str | None = None
    message_count: int = 0
    tool_call_count: int = 0
    tokens: Tokens = Tokens()
    cost: float = 0.0
    unpriced: Tokens = Tokens()
    bytes: int = 0
    extra: Mapping[str, Json] = field(default_factory=dict)
    guarded: Guarded | None = None

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def version(self) -> str:
        return session_version(
            self.message_count, self.last_active_at, self.ended_at, self.title, self.pinned
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "source": self.source,
            "parent_id": self.parent_id,
            "relation": self.relation.value if self.relation else None,
            "title": self.title,
            "cwd": self.cwd,
            "model": self.model,
            "started_at": self.started_at,
            "last_active_at": self.last_active_at,
            "ended_at": self.ended_at,
            "end_reason": self.end_reason,
            "pinned": self.pinned,
            "routing_key": self.routing_key,
            "message_count": self.message_count,
            "tool_call_count": self.tool_call_count,
            "tokens_in": self.tokens.input,
            "tokens_out": self.tokens.output,
            "tokens_cached": self.tokens.cached,
            "cost": self.cost,
            "unpriced_in": self.unpriced.input,
            "unpriced_out": self.unpriced.output,
            "unpriced_cached": self.unpriced.cached,
            "bytes": self.bytes,
            "guarded": self.guarded.to_json() if self.guarded else None,
            "extra": dict(self.extra),
        }


def session_version(
    message_count: int,
    last_active_at: float,
    ended_at: float | None,
    title: str | None,
    pinned: bool,
) -> str:
    """A short text that changes with every message, end, reopening, title and pin."""
    facts = _FACTS.pack(last_active_at, math.inf if ended_at is None else ended_at, bool(pinned))
    if title is not None:
        facts += b"\0" + title.encode(errors="surrogatepass")
    return f"{message_count}.{zlib.crc32(facts):08x}"


class SessionOrder(StrEnum):
    """How a list is sorted; always the largest or latest first."""

    LAST_ACTIVE = "last-active"
    STARTED = "started"
    MESSAGES = "messages"
    TOKENS = "tokens"
    COST = "cost"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions; every field that is set must hold. Times are epoch seconds.

    `title` and `model` match a part of the text, whatever its case; `cwd` a folder and everything
    below it; bounds are inclusive, `active_before` and `active_after` are not. A session of which
    a part has an unknown cost is under no `max_cost`. `agent_archived` are those that were archived
    in the agent whose home it is; our own archive is another place.
    """

    ids: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    title: str | None = None
    end_reasons: tuple[str, ...] | None = None
    cwd: str | None = None
    model: str | None = None
    routing_key: str | None = None
    parent_id: str | None = None
    ended: bool | None = None
    pinned: bool | None = None
    titled: bool | None = None
    agent_archived: bool | None = None
    active_before: float | None = None
    active_after: float | None = None
    min_messages: int | None = None
    max_messages: int | None = None
    min_bytes: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    min_cost: float | None = None
    max_cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What an append changed: the numbers of the new messages, the session before and after."""

    numbers: tuple[int, ...]
    before: Session
    after: Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A message that a search found, with its session and the place around the match.

    `snippet` marks what matched with `[` and `]`; `score` is larger for better matches.
    """

    session: Session
    message: Message
    snippet: str
    score: float
