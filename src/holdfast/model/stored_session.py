"""A stored session: the process that holds it open, and what a mover sees of it."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.model.plan import PlanItem
from holdfast.value import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process, identified so that it cannot be confused with another one.

    `host` also distinguishes containers, `boot` changes with every boot of the machine, and
    `started` is the start time of the process, so that a reused process id does not count as alive.
    """

    host: str
    boot: str
    process: int
    started: str


#: Messages in one transaction: some tens of milliseconds, also where each leaves a search index.
MOST_MESSAGES = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A session as a run finds it. `alive` is why it must stay; `abandoned` is the proof that one
    without an end may be ended, or go if a person named it."""

    id: str
    number: int
    version: str
    messages: int
    bytes: int
    alive: str | None
    abandoned: str | None

    def obstacle(self, item: PlanItem) -> str | None:
        """Why it may not go: it is no longer what was judged, or it lives."""
        if self.version != item.version:
            return "changed since the plan was made"
        if self.alive is None or (item.without_end and self.abandoned is not None):
            return None
        return f"in use: {self.alive}"

    def obstacle_to_ending(self, item: PlanItem) -> str | None:
        if self.version != item.version:
            return "changed since the plan was made"
        if self.abandoned is not None:
            return None
        return f"in use: {self.alive}" if self.alive else "it has an end"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a session, or that it has none. `last_active_at` leaves its end out."""

    number: int
    last_active_at: float
    ended_at: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Copied:
    """One session in a bundle, as far as it takes to tell it from another of the same id."""

    id: str
    number: int
    started_at: float
    first_message: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What became of sessions that were to come back: why some could not be put back, and what of
    others is not as it was. Both by id."""

    refused: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
