"""How sessions live: limits on their size, resets, idleness, transcripts, and the signs of life."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

from holdfast.model.guard import Alert, AlertKind
from holdfast.model.session import Session, SessionFilter
from holdfast.model.text import format_duration
from holdfast.value import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """0 turns a limit off. A warning comes at `warn_share` of a limit."""

    max_messages: int = 1_000
    max_bytes: int = 10_000_000
    warn_share: float = 0.8

    def measures(self, session: Session) -> tuple[tuple[str, int, int], ...]:
        """What is limited, what the session has of it, and the limit."""
        return (
            ("messages", session.message_count, self.max_messages),
            ("bytes", session.bytes, self.max_bytes),
        )


def alerts(limits: SessionLimits, before: Session, after: Session) -> tuple[Alert, ...]:
    """The alerts for a change from `before` to `after`; each threshold gives one alert."""
    return tuple(_alerts(limits, before, after))


def near(limits: SessionLimits) -> tuple[SessionFilter, ...]:
    """Filters for the open sessions that have reached the warning share of a limit."""
    filters = []
    if limits.max_messages:
        least = math.ceil(limits.max_messages * limits.warn_share)
        filters.append(SessionFilter(ended=False, min_messages=least))
    if limits.max_bytes:
        least = math.ceil(limits.max_bytes * limits.warn_share)
        filters.append(SessionFilter(ended=False, min_bytes=least))
    return tuple(filters)


def is_over(limits: SessionLimits, session: Session) -> bool:
    return any(limit and value >= limit for _, value, limit in limits.measures(session))


def _alerts(limits: SessionLimits, before: Session, after: Session) -> Iterator[Alert]:
    for (what, old, limit), (_, new, _) in zip(
        limits.measures(before), limits.measures(after), strict=True
    ):
        if not limit:
            continue
        if new >= limit > old:
            kind = AlertKind.OVER_LIMIT
        elif new >= limit * limits.warn_share > old and new < limit:
            kind = AlertKind.NEAR_LIMIT
        else:
            continue
        yield Alert(kind=kind, session_id=after.id, what=what, value=new, limit=limit)


DEFAULT_SOURCE = "default"
HELD = "a process holds it"
NOT_ENDED = "it has not ended"


class OnReset(StrEnum):
    """What happens to the files of a session that was reset."""

    KEEP = "keep"
    ARCHIVE = "archive"
    DELETE = "delete"


class Transcript(StrEnum):
    """Whether the sessions of a source are also written to files. Synced files survive a power
    cut."""

    NONE = "none"
    JSONL = "jsonl"
    JSONL_SYNCED = "jsonl-synced"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How sessions behave. Without `idle_minutes` there is no idle reset.

    `transcripts` is by source; `default` holds for sources that are not named. A session whose
    process is gone is ended after `abandoned_after` idle seconds; 0 is never.
    """

    limits: SessionLimits = field(default_factory=SessionLimits)
    on_reset: OnReset = OnReset.ARCHIVE
    idle_minutes: float | None = None
    transcripts: Mapping[str, Transcript] = field(default_factory=dict)
    remove_after_delivery: bool = False
    abandoned_after: float = 86_400.0

    def transcript_of(self, source: str) -> Transcript:
        default = self.transcripts.get(DEFAULT_SOURCE, Transcript.NONE)
        return self.transcripts.get(source, default)


def is_idle(options: SessionOptions, session: Session, now: float) -> bool:
    """Whether it has been idle for so long that the next message starts a new session."""
    minutes = options.idle_minutes
    return minutes is not None and now - session.last_active_at > minutes * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLife:
    """Why a session counts as alive, in words; None if it does not.

    A session without an end always counts as alive. `abandoned` is the proof that nobody will
    continue it: such a session may be ended.
    """

    alive: str | None = None
    abandoned: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCount:
    """The leases of one session. `living` counts those whose process is not provably gone, `held`
    those of the living that were not released."""

    all: int = 0
    living: int = 0
    held: int = 0


def session_life(
    *, ended: bool, idle: float, leases: LeaseCount, abandoned_after: float
) -> SessionLife:
    """Judge a session by its end, by how long it has been idle, and by its leases.

    A process that released its lease and still runs may come back to the session: it protects the
    session as long as it lives. Without any lease there is no proof.
    """
    if leases.held:
        return SessionLife(alive=HELD)
    if ended:
        return SessionLife()
    if not leases.all or leases.living or idle < abandoned_after:
        return SessionLife(alive=NOT_ENDED)
    gone = f"its process is gone, idle for {format_duration(idle)}"
    return SessionLife(alive=NOT_ENDED, abandoned=gone)
