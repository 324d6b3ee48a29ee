"""How homes grew in the last weeks, in one line: a curve, and when the disk will be full."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import joined, say, width
from holdfast.cli.plain import Line, is_piped
from holdfast.model.growth_words import growth_words

if TYPE_CHECKING:
    from holdfast.model.figures import Growth, Point

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"
_WIDEST = 28
_NARROWEST = 7
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


def is_urgent(growth: Growth) -> bool:
    """Whether the disk is full before long."""
    return growth.full_in_days is not None and growth.full_in_days <= _SOON_DAYS


def _line(growth: Growth) -> Line | None:
    if growth.bytes_per_day is None:
        return None
    text = growth_words(growth)
    if is_piped():  # which takes numbers, and no pictures
        return Line(text)
    days = min(_WIDEST, round(growth.over_days) + 1)
    room = min(days, max(_NARROWEST, width() - len(text) - 2))
    style = ""
    if is_urgent(growth):
        very_soon = (growth.full_in_days or 0.0) <= _VERY_SOON_DAYS
        style = "bold red" if very_soon else "yellow"
    return joined((curve(growth.points, room), "cyan"), "  ", (text, style))


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
