"""A warning for the host, the log and the status screen."""

from __future__ import annotations

from enum import StrEnum

from holdfast.value import dataclass


class AlertKind(StrEnum):
    NEAR_LIMIT = "near_limit"
    OVER_LIMIT = "over_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A session that is near one of its limits, or has passed it."""

    kind: AlertKind
    session_id: str
    what: str
    value: float
    limit: float

    @property
    def message(self) -> str:
        verb = "has passed" if self.kind is AlertKind.OVER_LIMIT else "is near"
        return (
            f"session {self.session_id} {verb} its limit of {self.limit:,} {self.what} "
            f"({self.value:,})"
        )
