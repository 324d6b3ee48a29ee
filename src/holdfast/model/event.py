"""Something about a home that its user should be notified of."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from holdfast.model.session import Json
from holdfast.value import dataclass, field


class EventKind(StrEnum):
    CAP_NEAR = "cap_near"
    CAP_NOT_REACHED = "cap_not_reached"
    SESSION_TOO_LARGE = "session_too_large"
    FILE_TOO_LARGE = "file_too_large"
    MAINTENANCE_FAILED = "maintenance_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `subject` is the cap, the session or the step that it is about.

    `state` describes the situation coarsely. As long as it stays the same, there is nothing new to
    tell.
    """

    kind: EventKind
    home: str
    at: float
    subject: str
    state: str
    message: str
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same for later events about the same subject."""
        return f"{self.kind.value} {self.subject}"

    def to_json(self) -> dict[str, Any]:
        return {
            "event": self.kind.value,
            "home": self.home,
            "at": self.at,
            "subject": self.subject,
            "state": self.state,
            "message": self.message,
            "details": dict(self.details),
        }
