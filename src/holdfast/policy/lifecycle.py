"""The lifecycle of sessions: resets, idleness, transcripts, and what counts as alive."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from holdfast.model.session import Session
from holdfast.model.text import format_duration
from holdfast.policy.session_limits import SessionLimits
from holdfast.value import dataclass, field

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
    failure."""

    NONE = "none"
    JSONL = "jsonl"
    JSONL_SYNCED = "jsonl-synced"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How sessions behave. Without `idle_minutes` there is no idle reset.

    `transcripts` is by source; `default` applies to sources that are not named. A session whose
    process is gone is ended after `abandoned_after` idle seconds; 0 means never.
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
    """True if it has been idle for so long that the next message starts a new session."""
    minutes = options.idle_minutes
    return minutes is not None and now - session.last_active_at > minutes * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLife:
    """Why a session counts as alive, in words; None if it does not.

    A session without an end always counts as alive. `abandoned` is the proof that no process will
    continue it: such a session may be ended.
    """

    alive: str | None = None
    abandoned: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCount:
    """The leases of one session. `living` counts those whose process is not provably gone, `held`
    those of them that were not released."""

    all: int = 0
    living: int = 0
    held: int = 0


def session_life(
    *, ended: bool, idle: float, leases: LeaseCount, abandoned_after: float
) -> SessionLife:
    """Judge a session by its end, its idle time and its leases.

    A process that released its lease and still runs may return to the session: it protects the
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
