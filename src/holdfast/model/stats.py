"""What a home's sessions add up to."""

from __future__ import annotations

from typing import Any

from holdfast.model.usage import UsageTotals
from holdfast.value import dataclass


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
