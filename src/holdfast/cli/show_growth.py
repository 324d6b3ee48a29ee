"""The growth of homes in the last weeks, in one line: a curve, and when the disk will be full."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import joined, say, width
from holdfast.cli.plain import Line, is_piped
from holdfast.model.figures import LOG_NEEDS, growth_words
from holdfast.model.text import format_bytes

if TYPE_CHECKING:
    from holdfast.model.figures import Growth, Point

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"
_WIDEST = 28
_NARROWEST = 7
_SOON_DAYS = 30.0
_VERY_SOON_DAYS = 7.0
#: With less free than this, a disk is full.
_FULL = 1024 * 1024


def show_growth(growth: Growth, *, log_fits: bool = True) -> None:
    """Show the growth. There is no curve while there is not enough data for a pace. `log_fits` is
    false if nothing can be removed before the user has freed a little."""
    for line in _lines(growth, log_fits=log_fits):
        say(line)


def lines_of(growth: Growth, *, log_fits: bool = True) -> int:
    """How many lines `show_growth` takes."""
    return sum(1 for line in _lines(growth, log_fits=log_fits) for _ in line.folded(width()))


def is_urgent(growth: Growth) -> bool:
    """True if the disk is full, or will be soon."""
    return _is_full(growth) or (
        growth.full_in_days is not None and growth.full_in_days <= _SOON_DAYS
    )


def _is_full(growth: Growth) -> bool:
    return growth.disk_free is not None and growth.disk_free < _FULL


def _lines(growth: Growth, *, log_fits: bool) -> Iterator[Line]:
    if line := _line(growth):
        yield line
    if _is_full(growth):
        free = format_bytes(growth.disk_free or 0)
        if log_fits:
            how = "To free space, remove for good, with --now."
        else:
            how = f"{LOG_NEEDS} To free more, remove for good then, with --now."
        yield joined((f"The disk is full: {free} free. {how}", "bold red"))


def _line(growth: Growth) -> Line | None:
    if growth.bytes_per_day is None:
        return None
    text = growth_words(growth)
    if is_piped():  # a pipe gets numbers, no pictures
        return Line(text)
    days = min(_WIDEST, round(growth.over_days) + 1)
    room = min(days, max(_NARROWEST, width() - len(text) - 2))
    style = ""
    if is_urgent(growth):
        very_soon = (growth.full_in_days or 0.0) <= _VERY_SOON_DAYS
        style = "bold red" if very_soon else "yellow"
    return joined((curve(growth.points, room), "cyan"), "  ", (text, style))


def curve(points: Sequence[Point], cells: int) -> str:
    """The points as a row of bars with eight heights, from the minimum to the maximum."""
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
