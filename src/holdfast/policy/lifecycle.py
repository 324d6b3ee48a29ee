"""How sessions live: resets, idleness, transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.model.session import Session
from holdfast.model.units import format_duration
from holdfast.policy.limits import SessionLimits

DEFAULT_SOURCE = "default"
HELD = "a process holds it"
NOT_ENDED = "it has not ended"


class OnReset(StrEnum):
    """What becomes of the files of a session that was reset."""

    KEEP = "keep"
    ARCHIVE = "archive"
    DELETE = "delete"


class Transcript(StrEnum):
    """Whether a source's sessions are also written as files; synced ones survive a power cut."""

    NONE = "none"
    JSONL = "jsonl"
    JSONL_SYNCED = "jsonl-synced"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How sessions behave. `idle_minutes` of None is no idle reset.

    `transcripts` is by source; the one named `default` holds for all others.
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
    """Idle for so long that the next message begins a new session."""
    minutes = options.idle_minutes
    return minutes is not None and now - session.last_active_at > minutes * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLife:
    """Whether a session lives, in words: `alive` says why it does, `abandoned` why it does not
    although it has no end."""

    alive: str | None = None
    abandoned: str | None = None


def session_life(
    *, ended: bool, idle: float, leases: int, holders: int, abandoned_after: float
) -> SessionLife:
    """Judge by its end, by how long ago it was active, and by its leases: `holders` are those
    that were not given back and whose process is not provably gone.

    A session without an end that nobody ever held may be anybody's: its death cannot be proved.
    """
    if holders:
        return SessionLife(alive=HELD)
    if ended:
        return SessionLife()
    if not leases or idle < abandoned_after:
        return SessionLife(alive=NOT_ENDED)
    return SessionLife(abandoned=f"its process is gone, idle for {format_duration(idle)}")
