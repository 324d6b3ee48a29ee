"""Growth in words, the same for a terminal and a page."""

from __future__ import annotations

from holdfast.model.figures import Growth
from holdfast.model.text import format_bytes, format_count

#: A date that is further away is no news.
_FAR_DAYS = 730.0


def growth_words(growth: Growth) -> str:
    """What the curve says, and from how many days it knows."""
    change = growth.points[-1].bytes - growth.points[0].bytes
    days = format_count(round(growth.over_days), "day")
    if not change:
        return f"unchanged in {days}"
    text = f"{'+' if change > 0 else '-'}{format_bytes(abs(change))} in {days}"
    full, pace = growth.full_in_days, growth.bytes_per_day
    if full is None or pace is None or full > _FAR_DAYS:
        return text
    when = f"in {format_count(int(full), 'day')}" if full >= 1 else "within a day"
    return f"{text}; at {format_bytes(int(pace))} a day the disk is full {when}"
