"""How homes grew in the last weeks, in one line: a curve, and when the disk will be full."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import joined, say, width
from holdfast.cli.plain import Line, is_piped
from holdfast.model.text import format_bytes, format_count

if TYPE_CHECKING:
    from holdfast.model.figures import Growth, Point

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"
_WIDEST = 28
_NARROWEST = 7
#: A date that is further away is no news.
_FAR_DAYS = 730.0
_SOON_DAYS = 30.0
_VERY_SOON_DAYS = 7.0


def show_growth(growth: Growth) -> None:
    """Nothing while too little is known for a pace."""
    if line := _line(growth):
        say(line)


def lines_of(growth: Growth) -> int:
    """How many lines `show_growth` takes."""
    line = _line(growth)
    return sum(1 for _ in line.folded(width())) if line else 0


def _line(growth: Growth) -> Line | None:
    if growth.bytes_per_day is None:
        return None
    text = growth_words(growth)
    if is_piped():  # which takes numbers, and no pictures
        return Line(text)
    days = min(_WIDEST, round(growth.over_days) + 1)
    room = min(days, max(_NARROWEST, width() - len(text) - 2))
    style = ""
    if growth.full_in_days is not None and growth.full_in_days <= _SOON_DAYS:
        style = "bold red" if growth.full_in_days <= _VERY_SOON_DAYS else "yellow"
    return joined((curve(growth.points, room), "cyan"), "  ", (text, style))


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


def curve(points: Sequence[Point], cells: int) -> str:
    """The points as a row of bars of eight heights, from the least to the most."""
    blocks = _BLOCKS if sys.stdout.encoding.lower().startswith("utf") else _ASCII
    start, end = points[0].at, points[-1].at
    least, most = min(each.bytes for each in points), max(each.bytes for each in points)
    shown, place = [], 0
    for cell in range(cells):
        until = start + (end - start) * (cell + 1) / cells
        while place + 1 < len(points) and points[place + 1].at <= until:
            place += 1
        share = (points[place].bytes - least) / (most - least) if most > least else 0.0
        shown.append(blocks[round(share * (len(blocks) - 1))])
    return "".join(shown)
