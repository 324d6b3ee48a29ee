"""A stored session: the process that holds it open, and what a mover sees of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.value import dataclass, field

if TYPE_CHECKING:  # a hook needs only the `Holder`
    from holdfast.model.plan import PlanItem
    from holdfast.model.session import Message, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process, identified so that it cannot be confused with another one.

    `host` also distinguishes containers, `boot` changes with every boot of the machine, and
    `started` is the start time of the process, so that a reused process id is not taken for a live
    process.
    """

    host: str
    boot: str
    process: int
    started: str


#: Messages in one transaction: tens of milliseconds, even if each must be removed from a search
#: index.
MOST_MESSAGES = 800
#: Instead of a number of messages, if a store can drop all of them at once.
EVERYTHING = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A session as a run finds it. `alive` is why it must stay. `abandoned` is the proof that a
    session without an end may be ended, or removed if a person named it."""

    id: str
    number: int
    version: str
    messages: int
    bytes: int
    alive: str | None
    abandoned: str | None

    def obstacle(self, item: PlanItem) -> str | None:
        """Why it may not be removed: it changed since the plan was made, or it is alive."""
        if self.version != item.version:
            return "changed since the plan was made"
        if self.alive is None or (item.without_end and self.abandoned is not None):
            return None
        return f"in use: {self.alive}"

    def obstacle_to_ending(self, item: PlanItem, *, held: str) -> str | None:
        """Why it may not be ended. A session that a person ends needs no proof of its death: only a
        process that holds it (`alive` is then `held`) protects it."""
        if self.version != item.version:
            return "changed since the plan was made"
        if self.abandoned is not None or (item.target and self.alive and self.alive != held):
            return None
        return f"in use: {self.alive}" if self.alive else "it has already ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a session, if it has one. `last_active_at` does not include the end."""

    number: int
    last_active_at: float
    ended_at: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Copied:
    """One session in a bundle, with enough detail to tell it from another one with the same id."""

    id: str
    number: int
    started_at: float
    first_message: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The result of putting sessions back, by id: why a session was refused, and what differs from
    before."""

    refused: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A session that comes back from the archive, with its messages. `children` are those that it
    had when it left; `last_active_at` includes its end."""

    session: Session
    messages: Sequence[Message]
    children: Sequence[str]
    last_active_at: float
