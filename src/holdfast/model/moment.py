"""Lengths of time and moments as callers write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from holdfast.errors import UsageError
from holdfast.model.arguments import shown
from holdfast.model.text import parse_duration, parse_moment

#: A length of time: "90d", "1d12h", or a `timedelta`. A bare number is refused: nobody can tell
#: days from seconds.
Duration: TypeAlias = str | timedelta
#: A moment: a length of time before now, a date or ISO time in local time, or a `datetime`.
Moment: TypeAlias = str | timedelta | datetime


def seconds(value: object, what: str) -> float:
    """A length of time in seconds."""
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, timedelta) and value >= timedelta():
        return value.total_seconds()
    raise UsageError(
        f"{what} must be a length of time, not {shown(value)}.",
        hint='Write it with its unit: "90d", "12h" or timedelta(days=90).',
    )


def moment(value: object, now: float, what: str) -> float:
    """A moment in epoch seconds."""
    if isinstance(value, str):
        return parse_moment(
            value, now=now, local=datetime.fromtimestamp(now, UTC).astimezone().tzinfo
        )
    if isinstance(value, datetime):
        return value.timestamp()
    return now - seconds(value, what)


def epoch(value: object, now: float, what: str) -> float:
    """The same where epoch seconds are usual: a number is a moment too."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if not isinstance(value, str | datetime | timedelta):
        raise UsageError(
            f"{what} must be a moment, not {shown(value)}.",
            hint='Write "2d" for two days ago, "2026-03-25", a datetime, or epoch seconds.',
        )
    return moment(value, now, what)
