"""What a guard counted in a session. It moves with the session, into the archive and back."""

from __future__ import annotations

from datetime import date
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.json_reader import Reader
from holdfast.model.session import Tokens
from holdfast.model.usage import Usage
from holdfast.value import dataclass, field

#: More than any session lasts, calls or costs; sums of it stay exact.
_LARGEST = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """What was used on one UTC day with one model and is part of no message. The model is '' when
    it is unknown."""

    day: str
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """Calls that started, seconds at work, and usage that is part of no message. The totals of the
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
        """The same with more usage booked; there is one entry for each day and model."""
        sums = {(each.day, each.model): each.usage for each in self.booked}
        sums[day, model] = sums.get((day, model), Usage()).plus(usage)
        return tuple(Booked(day=on, model=of, usage=used) for (on, of), used in sums.items())

    def to_json(self) -> dict[str, Any]:
        booked = [
            {"day": each.day, "model": each.model} | each.usage.to_json() for each in self.booked
        ]
        return {"iterations": self.iterations, "seconds": self.seconds, "booked": booked}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The most that a call is expected to use; 0 when that is unknown."""

    tokens: Tokens = field(default_factory=Tokens)
    cost: float = 0.0


def guarded_from_json(value: object, error: type[HoldfastError]) -> Guarded | None:
    """What `Guarded.to_json` wrote, every part checked; None for a session that had no guard."""
    if value is None:
        return None
    read = Reader(value, "guarded session", error)
    guarded = Guarded(
        iterations=read.whole("iterations"),
        seconds=read.number("seconds"),
        booked=tuple(_booked(each, error) for each in read.array("booked")),
    )
    if not 0 <= guarded.seconds <= _LARGEST or guarded.iterations > _LARGEST:
        raise error("`seconds` or `iterations` of a guarded session is beyond all measure")
    return guarded


def _booked(value: object, error: type[HoldfastError]) -> Booked:
    read = Reader(value, "booked usage", error)
    day, model = read.text("day"), read.text("model")
    if not _is_day(day) or "\0" in model or any("\ud800" <= each <= "\udfff" for each in model):
        raise error("`day` of booked usage must be a date, and its `model` plain text")
    cost = read.number("cost")
    tokens, unpriced = _tokens(read, "tokens"), _tokens(read, "unpriced")
    counts = (cost, *(count for each in (tokens, unpriced) for count in _each(each)))
    if not all(0 <= count <= _LARGEST for count in counts):
        raise error("booked usage cannot be negative or beyond all measure")
    return Booked(day=day, model=model, usage=Usage(tokens=tokens, cost=cost, unpriced=unpriced))


def _tokens(read: Reader, name: str) -> Tokens:
    return Tokens(
        input=read.whole(f"{name}_in"),
        output=read.whole(f"{name}_out"),
        cached=read.whole(f"{name}_cached"),
    )


def _each(tokens: Tokens) -> tuple[int, int, int]:
    return tokens.input, tokens.output, tokens.cached


def _is_day(text: str) -> bool:
    """'' stands for a time that is not a valid date."""
    try:
        return not text or date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
