"""How close something is to a limit that was set for it."""

from __future__ import annotations

from typing import Any

from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Something near its limit: a session, or a day of one source; of all sources when it has none.

    `what` is the name of the limit or budget, `used` how much of it is used.
    """

    session: str | None
    source: str | None
    what: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "session": self.session,
            "source": self.source,
            "what": self.what,
            "used": self.used,
            "limit": self.limit,
            "share": self.share,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """Everything that is near a limit, the nearest first. `unknown_cost` counts open sessions, and
    days of sources, that have a budget for cost and an unknown cost."""

    near: tuple[Near, ...] = ()
    unknown_cost: int = 0
