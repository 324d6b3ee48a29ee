"""The current UTC day: usage and budgets are counted by UTC days, so that all machines agree."""

from __future__ import annotations

from datetime import UTC, date, datetime

_DAY = 86_400.0
_EPOCH = datetime.fromtimestamp(0, UTC).toordinal()
_LAST = date.max.toordinal()


def utc_day(timestamp: float) -> str:
    """The UTC day of a time; '' for a time outside the calendar."""
    number = _EPOCH + timestamp // _DAY
    return date.fromordinal(int(number)).isoformat() if 1 <= number <= _LAST else ""
