"""Limits, budgets and guards: what a guard counts, stores and advises, and what is near a limit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.model.json_value import JsonValue, Reader, fields_to_json
from holdfast.model.session import Session, Tokens
from holdfast.model.usage import Usage
from holdfast.value import dataclass, field

if TYPE_CHECKING:  # every command loads this module, and few need `stored_session`
    from holdfast.model.stored_session import Holder

#: More than any session lasts, calls or costs; sums of it stay exact.
_LARGEST = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """Usage on one UTC day with one model that is part of no message. The model is '' if it is
    unknown."""

    day: str
    model: str
    usage: Usage

    def to_json(self) -> dict[str, Any]:
        return {"day": self.day, "model": self.model} | self.usage.to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded(JsonValue):
    """Calls that started, seconds of work, and usage that is part of no message. The totals of the
    session include that usage; it is kept here so that they can be recomputed."""

    iterations: int = 0
    seconds: float = 0.0
    booked: tuple[Booked, ...] = ()

    @property
    def usage(self) -> Usage:
        total = Usage()
        for each in self.booked:
            total = total.plus(each.usage)
        return total

    def with_usage(self, day: str, model: str, usage: Usage) -> tuple[Booked, ...]:
        """Return `booked` with more usage added; there is one entry for each day and model."""
        sums = {(each.day, each.model): each.usage for each in self.booked}
        sums[day, model] = sums.get((day, model), Usage()).plus(usage)
        return tuple(Booked(day=on, model=of, usage=used) for (on, of), used in sums.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The most that a call is expected to use; 0 if that is unknown."""

    tokens: Tokens = field(default_factory=Tokens)
    cost: float = 0.0


def guarded_from_json(value: object, error: type[HoldfastError]) -> Guarded | None:
    """Read what `Guarded.to_json` wrote, checking every field; None for a session without a
    guard."""
    if value is None:
        return None
    read = Reader(value, "guarded session", error)
    guarded = Guarded(
        iterations=read.whole("iterations"),
        seconds=read.number("seconds"),
        booked=tuple(_booked(each, error) for each in read.array("booked")),
    )
    if not 0 <= guarded.seconds <= _LARGEST or guarded.iterations > _LARGEST:
        raise error("`seconds` or `iterations` of a guarded session is too large")
    return guarded


def _booked(value: object, error: type[HoldfastError]) -> Booked:
    read = Reader(value, "booked usage", error)
    day, model = read.text("day"), read.text("model")
    if not _is_day(day) or "\0" in model or any("\ud800" <= each <= "\udfff" for each in model):
        raise error("`day` of booked usage must be a date, and its `model` plain text")
    cost = read.number("cost")
    tokens, unpriced = tokens_from_json(read, "tokens"), tokens_from_json(read, "unpriced")
    if not all(0 <= count <= _LARGEST for count in (cost, *tokens.counts, *unpriced.counts)):
        raise error("booked usage cannot be negative or too large")
    return Booked(day=day, model=model, usage=Usage(tokens=tokens, cost=cost, unpriced=unpriced))


def tokens_from_json(read: Reader, name: str) -> Tokens:
    """Read what `Tokens.to_json` wrote under this name."""
    return Tokens(
        input=read.whole(f"{name}_in"),
        output=read.whole(f"{name}_out"),
        cached=read.whole(f"{name}_cached"),
    )


def _is_day(text: str) -> bool:
    """'' means a time that is not a valid date."""
    try:
        return not text or date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class Level(IntEnum):
    """How urgent advice is, for the host. `STOP` asks it to leave its loop."""

    NONE = 0
    NUDGE = 1
    STRONG_NUDGE = 2
    STOP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to tell the model, and how urgent it is. An empty text means there is nothing to say."""

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

    `boot` and `ticked` are the boot id and the monotonic clock at the last call: that clock cannot
    be set. `warned` are the warnings that were already given.
    """

    guarded: Guarded = field(default_factory=Guarded)
    boot: str | None = None
    ticked: float | None = None
    samples: tuple[Sample, ...] = ()
    warned: tuple[str, ...] = ()

    def with_iteration(self) -> Work:
        before = self.guarded
        return Work(
            guarded=Guarded(
                iterations=before.iterations + 1, seconds=before.seconds, booked=before.booked
            ),
            boot=self.boot,
            ticked=self.ticked,
            samples=self.samples,
            warned=self.warned,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A call in flight: the process that makes it, its session and source, and what it may use."""

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

    `in_flight` are the calls of this session; if `day` is set, the calls of all sessions.
    """

    session: Session
    work: Work = field(default_factory=Work)
    in_flight: tuple[Reservation, ...] = ()
    day: tuple[DayShare, ...] = ()

    def day_of(self, source: str | None) -> Sequence[DayShare]:
        """The shares of one source, or of all sources for None."""
        return [each for each in self.day if source in (None, each.source)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Something near its limit: a session, a day of one source, or a day of all sources (no session
    and no source in it).

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
        return fields_to_json(self, "share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """Everything that is near a limit, nearest first. `unknown_cost` counts open sessions, and days
    of sources, that have a cost budget but whose cost is not fully known."""

    near: tuple[Near, ...] = ()
    unknown_cost: int = 0


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
        verb, now = "is near", f" ({self.value:,})"
        if self.kind is AlertKind.OVER_LIMIT:
            verb = "has passed" if self.value > self.limit else "has reached"
            if self.value == self.limit:
                now = ""
            elif self.value < self.limit:  # the next request was too much
                now = f" ({self.value:,}; the next call would pass it)"
        return f"session {self.session_id} {verb} its limit of {self.limit:,} {self.what}{now}"
