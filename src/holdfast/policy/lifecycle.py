"""How sessions live: resets, idleness, transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.model.session import Session
from holdfast.policy.limits import SessionLimits

DEFAULT_SOURCE = "default"


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
