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

    `transcripts` is by source; the one named `default` holds for all others. `abandoned_after`
    are the idle seconds after which a session is ended whose process is gone; 0 is never.
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
    """Why a session counts as alive, in words; None when it does not.

    A session without an end is always alive. `abandoned` is the proof that nobody will go on with
    it: such a session may be ended, and counts as alive until it is.
    """

    alive: str | None = None
    abandoned: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCount:
    """The leases of one session. `living` are those whose process is not provably gone, `held`
    those of them that were not given back."""

    all: int = 0
    living: int = 0
    held: int = 0


def session_life(
    *, ended: bool, idle: float, leases: LeaseCount, abandoned_after: float
) -> SessionLife:
    """Judge by its end, by how long it has been idle, and by its leases.

    A process that gave its lease back and still runs may come back to its session: it protects as
    long as it lives. A session that nobody ever held may be anybody's: there is no proof.
    """
    if leases.held:
        return SessionLife(alive=HELD)
    if ended:
        return SessionLife()
    if not leases.all or leases.living or idle < abandoned_after:
        return SessionLife(alive=NOT_ENDED)
    gone = f"its process is gone, idle for {format_duration(idle)}"
    return SessionLife(alive=NOT_ENDED, abandoned=gone)
