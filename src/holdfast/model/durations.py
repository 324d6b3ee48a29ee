"""Durations and moments, as people and callers write them: "90d", a date, a `timedelta`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo

from holdfast.errors import UsageError
from holdfast.model.arguments import shown
from holdfast.model.text import BARE, without_unit

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import TypeAlias

_SECONDS = {
    "s": 1.0,
    "m": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 7 * 86_400.0,
    "mo": 30 * 86_400.0,
    "y": 365 * 86_400.0,
}
_UNITS = {"min": "m", "mon": "mo"} | {
    word + end: unit
    for word, unit in {
        "sec": "s",
        "second": "s",
        "minute": "m",
        "hour": "h",
        "day": "d",
        "week": "w",
        "month": "mo",
        "year": "y",
    }.items()
    for end in ("", "s")
}
# Compiled when they are first used: most commands load this module, and few parse.
_DURATION_PART = (
    rf"(\d+(?:\.\d+)?)({'|'.join(sorted({*_SECONDS, *_UNITS}, key=len, reverse=True))})"
)
_DURATION = rf"(?:{_DURATION_PART})+"
_MINUTES = r"(\d+(?:\.\d+)?)m"
_LONGEST = 1_000 * _SECONDS["y"]
_M = ("minute", "month")

#: A duration: "90d", "1d12h", or a `timedelta`. A bare number is refused: it could be days or
#: seconds.
Duration: TypeAlias = str | timedelta
#: A moment: a duration before now, or a date or time, as a string or an object. A date, and a time
#: without an offset, are local.
Moment: TypeAlias = str | timedelta | date | datetime


def parse_duration(text: str) -> float:
    """Seconds in `5h`, `2d`, `1w`, `3mo`, `1d12h`, `2weeks`. A month has 30 days, a year 365."""
    compact = text.strip().lower()
    if re.fullmatch(BARE, compact):
        raise without_unit(text, compact, ("seconds", "s"), ("days", "d"))
    if not re.fullmatch(_DURATION, compact):
        raise UsageError(
            f"{text!r} is not a duration.",
            hint="Write a number and a unit: 30m, 5h, 2d, 1w, 3mo, 1y, or several: 1d12h. m is "
            "minutes, mo months.",
        )
    parts = re.findall(_DURATION_PART, compact)
    seconds = sum(float(number) * _SECONDS[_UNITS.get(unit, unit)] for number, unit in parts)
    if seconds > _LONGEST:
        raise UsageError(f"{text!r} is longer than 1,000 years.")
    return seconds


def minutes_meant(text: str) -> str | None:
    """What `3m` means, for people who may have meant months; None for any other text."""
    found = re.fullmatch(_MINUTES, text.strip().lower())
    if found is None:
        return None
    number = found[1]
    minutes, months = (f"{number} {unit}{'' if number == '1' else 's'}" for unit in _M)
    return f"{text.strip()} means {minutes}; for {months} write {number}mo."


def parse_moment(text: str, *, now: float, local: tzinfo | None = None) -> float:
    """The epoch second that `text` names: a duration before `now`, a date, or an ISO time.

    Dates and times without an offset are in `local`, or UTC when it is None.
    """
    stripped = text.strip()
    if re.fullmatch(_DURATION, stripped.lower()):
        return now - parse_duration(stripped)
    try:
        named = datetime.fromisoformat(stripped)
        if named.tzinfo is None:
            named = named.replace(tzinfo=local or UTC)
        return named.timestamp()
    except (ValueError, OverflowError):
        if re.fullmatch(BARE, stripped):
            raise without_unit(text, stripped, ("hours ago", "h"), ("days ago", "d")) from None
        raise UsageError(
            f"{text!r} is neither a duration nor a date.",
            hint="Write 5h, 2d, 1w, 3mo, a date such as 2026-03-25, or 2026-03-25T11:25.",
        ) from None


def seconds(value: object, what: str) -> float:
    """Return a duration in seconds."""
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, timedelta) and value >= timedelta():
        return value.total_seconds()
    raise UsageError(
        f"{what} must be a length of time, not {shown(value)}.",
        hint='Write it with its unit: "90d", "12h" or timedelta(days=90).',
    )


def moment(value: object, now: float, what: str) -> float:
    """Return a moment in epoch seconds."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day).timestamp()  # noqa: DTZ001 - local
    if isinstance(value, str):
        return parse_moment(
            value, now=now, local=datetime.fromtimestamp(now, UTC).astimezone().tzinfo
        )
    if isinstance(value, timedelta):
        return now - seconds(value, what)
    raise UsageError(
        f"{what} must be a length of time or a date, not {shown(value)}.",
        hint='Write "90d", timedelta(days=90), "2026-03-25", or a date or datetime.',
    )


def epoch(value: object, now: float, what: str) -> float:
    """Like `moment` where epoch seconds are usual: a number is a moment too."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if not isinstance(value, str | date | timedelta):
        raise UsageError(
            f"{what} must be a moment, not {shown(value)}.",
            hint='Write "2d" for two days ago, "2026-03-25", a date or datetime, or epoch seconds.',
        )
    return moment(value, now, what)
