"""Limits on the size of a session, and when it is time to warn."""

from __future__ import annotations

import math
from collections.abc import Iterator

from holdfast.model.guard import Alert, AlertKind
from holdfast.model.session import Session, SessionFilter
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """0 turns a limit off. A warning is given at `warn_share` of a limit."""

    max_messages: int = 1_000
    max_bytes: int = 10_000_000
    warn_share: float = 0.8

    def measures(self, session: Session) -> tuple[tuple[str, int, int], ...]:
        """The name of each limit, how much of it the session has used, and the limit."""
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
