"""Sizes as areas: a treemap whose tiles are as square as possible."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A place in percent of the whole, for the size at `index`."""

    index: int
    x: float
    y: float
    width: float
    height: float


def treemap(sizes: Sequence[float], *, aspect: float) -> Sequence[Tile]:
    """One tile for each size above 0, in an area that is `aspect` times as wide as high."""
    wanted = sorted(((size, n) for n, size in enumerate(sizes) if size > 0), reverse=True)
    total = sum(size for size, _ in wanted)
    tiles: list[Tile] = []
    left, top, width, height = 0.0, 0.0, aspect, 1.0
    scale = aspect / total if total else 0.0
    areas = [(size * scale, n) for size, n in wanted]
    while areas:
        side = min(width, height)
        row = _row(areas, side)
        areas = areas[len(row) :]
        thick = sum(area for area, _ in row) / side if side else 0.0
        at = 0.0
        for area, n in row:
            long = area / thick if thick else 0.0
            x, y, w, h = (
                (left, top + at, thick, long) if width >= height else (left + at, top, long, thick)
            )
            tiles.append(
                Tile(
                    index=n,
                    x=_percent(x / aspect),
                    y=_percent(y),
                    width=_percent(w / aspect),
                    height=_percent(h),
                )
            )
            at += long
        if width >= height:
            left, width = left + thick, width - thick
        else:
            top, height = top + thick, height - thick
    return tiles


def _row(areas: Sequence[tuple[float, int]], side: float) -> Sequence[tuple[float, int]]:
    """As many of the largest as make the worst tile of a row no longer than it has to be."""
    row = [areas[0]]
    worst = _worst(row, side)
    for each in areas[1:]:
        longer = [*row, each]
        if (now := _worst(longer, side)) > worst:
            break
        row, worst = longer, now
    return row


def _worst(row: Sequence[tuple[float, int]], side: float) -> float:
    total = sum(area for area, _ in row)
    square = side * side
    largest, smallest = row[0][0], row[-1][0]
    return max(square * largest / total**2, total**2 / (square * smallest))


def _percent(share: float) -> float:
    return round(100 * share, 3)
