"""What a home's sessions add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One slice of a whole: how many, how many bytes."""

    name: str
    count: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "count": self.count, "bytes": self.bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What a session store holds, and what it takes on the disk.

    The bytes of `by_source`, `by_age` and `by_size` are those of messages before compression;
    `by_size` counts sessions by their number of messages.
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
        }
