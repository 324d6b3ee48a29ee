"""What a guard knows when it decides, and the advice that it gives about tools."""

from __future__ import annotations

from enum import IntEnum

from holdfast.model.guard import Estimate, Guarded
from holdfast.model.session import Session
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Usage
from holdfast.value import dataclass, field, replace


class Level(IntEnum):
    """How urgent advice is, for the host. `STOP` asks it to leave its loop."""

    NONE = 0
    NUDGE = 1
    STRONG_NUDGE = 2
    STOP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to tell the model, and how urgent it is. An empty text means nothing to tell."""

    level: Level = Level.NONE
    text: str = ""

    def __bool__(self) -> bool:
        return self.level is not Level.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How many messages a session had at one time of the monotonic clock."""

    at: float
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is stored about a guarded session between calls.

    `boot` and `ticked` are the boot id and the monotonic clock at the last call: nobody can set
    that clock. `warned` are the warnings that were given.
    """

    guarded: Guarded = field(default_factory=Guarded)
    boot: str | None = None
    ticked: float | None = None
    samples: tuple[Sample, ...] = ()
    warned: tuple[str, ...] = ()

    def with_iteration(self) -> Work:
        more = replace(self.guarded, iterations=self.guarded.iterations + 1)
        return replace(self, guarded=more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A call in flight: which process makes it, for which session and source, and what it may
    use."""

    number: int
    session_id: str
    source: str
    holder: Holder
    made_at: float
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class DayShare:
    """What sessions of one source used with one model on the day in question."""

    source: str
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Everything that a decision about one session depends on, read in one transaction.

    `in_flight` are the calls of this session; if `day` is set, those of all sessions.
    """

    session: Session
    work: Work = field(default_factory=Work)
    in_flight: tuple[Reservation, ...] = ()
    day: tuple[DayShare, ...] = ()
