"""The first screen: what fills the disk, and what can be freed.

A scan of large homes takes seconds. The page opens at once with the figures of the last scan, and
fetches new ones in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.budget_words import over_words
from holdfast.api.machine import Machine
from holdfast.api.overview import HomeOverview, MachineOverview
from holdfast.model.figures import Point, growth_words
from holdfast.model.plan_words import frees_when
from holdfast.value import dataclass
from holdfast.web.site import Screen, Site, get

_MEMORY = "overview"
#: Younger figures are not renewed.
_FRESH = 20.0
_MOST_TILES = 12
_ASPECT = 3.2
_HEIGHT = 40
_FEWEST_POINTS = 2
_MOST_OVER = 5
_COLOURS = ("one", "two", "three", "four", "five", "six", "seven")
#: A tile smaller than this, in percent of the width and of the height, has no room for text.
_ROOM = (9.0, 14.0)


class Figures:
    """The last figures, and the scan that is running."""

    def __init__(self) -> None:
        self.last: MachineOverview | None = None
        self._running: Future[MachineOverview] | None = None
        #: The numbers of changes made here when the last scan began, and when the running one did.
        self._seen_after = self._began_after = 0

    def renewed(self, site: Site) -> Future[MachineOverview]:
        """A scan: the running one, or a new one, which is also started if something was changed
        since the running one began."""
        changes = site.threads.changes
        if self._running is None or self._running.done() or changes != self._began_after:
            self._began_after = changes
            self._running = site.threads.begin(Machine.overview)
            self._running.add_done_callback(lambda done: self._keep(done, changes))
        return self._running

    def are_fresh(self, site: Site) -> bool:
        if self.last is None or self._seen_after != site.threads.changes:
            return False
        return 0 <= site.clock() - self.last.at < _FRESH

    def _keep(self, done: Future[MachineOverview], changes: int) -> None:
        if not done.cancelled() and done.exception() is None:
            self.last, self._seen_after = done.result(), changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A rectangle in percent of the whole, for the size at `index`."""

    index: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTile:
    """A home as a rectangle. Several small homes share the last one."""

    tile: Tile
    label: str
    slug: str
    bytes: int
    colour: str
    has_room: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Growth as the points of two shapes, 100 wide and `_HEIGHT` high."""

    line: str
    area: str
    first: Point
    last: Point


async def show(site: Site, request: Request) -> Response:
    figures = _figures(site)
    stale = not figures.are_fresh(site)
    if stale:
        figures.renewed(site)
    seen = figures.last or await site.threads.read(lambda machine: machine.last_overview())
    return site.page(
        request, "overview/page.html", title="Overview", stale=stale, **_values(site, seen)
    )


async def renewed(site: Site, request: Request) -> Response:
    """The figures of a new scan, for the page that is open."""
    seen = await asyncio.wrap_future(_figures(site).renewed(site))
    site.lists.prepare()  # for the next click
    return site.fragment("overview/figures.html", **_values(site, seen))


def _figures(site: Site) -> Figures:
    found: Figures = site.memory.setdefault(_MEMORY, Figures())
    return found


def _values(site: Site, seen: MachineOverview | None) -> dict[str, Any]:
    if seen is None:
        return {"seen": None}
    return {
        "seen": seen,
        "tiles": _tiles(site, seen.homes),
        "colours": _COLOURS,
        "chart": _chart(seen.growth.points),
        "grows": growth_words(seen.growth) if seen.growth.bytes_per_day is not None else "",
        "frees": frees_when(seen.frees, seen.later, seen.trash_days),
        "over": [(home, near, over_words(near)) for home, near in seen.over[:_MOST_OVER]],
        "slug": site.slug,
    }


def _chart(points: Sequence[Point]) -> Chart | None:
    """The bytes over the days, from zero up: a curve that starts at the minimum would
    exaggerate."""
    if len(points) < _FEWEST_POINTS:
        return None
    begun, most = points[0].at, max(each.bytes for each in points) or 1
    span = (points[-1].at - begun) or 1.0
    line = " ".join(
        f"{100 * (each.at - begun) / span:.2f},{_HEIGHT - (_HEIGHT - 4) * each.bytes / most:.2f}"
        for each in points
    )
    return Chart(
        line=line, area=f"0,{_HEIGHT} {line} 100,{_HEIGHT}", first=points[0], last=points[-1]
    )


def _tiles(site: Site, homes: Sequence[HomeOverview]) -> Sequence[AgentTile]:
    shown = list(homes[:_MOST_TILES])
    rest = homes[_MOST_TILES:]
    entries = [(each.home.label, site.slug(each.home), each.bytes) for each in shown]
    if rest:
        entries.append((f"{len(rest)} more", "", sum(each.bytes for each in rest)))
    return [
        AgentTile(
            tile=tile,
            label=entries[tile.index][0],
            slug=entries[tile.index][1],
            bytes=entries[tile.index][2],
            colour=_COLOURS[min(tile.index, len(_COLOURS) - 1)],
            has_room=tile.width >= _ROOM[0] and tile.height >= _ROOM[1],
        )
        for tile in treemap([size for _, _, size in entries], aspect=_ASPECT)
    ]


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
    """As many of the largest areas as fit into a row before the aspect ratio of its worst tile gets
    worse."""
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


SCREEN = Screen(
    title="Overview",
    path="/",
    icon="overview",
    order=0,
    routes=(get("/", show), get("/overview/figures", renewed)),
)
