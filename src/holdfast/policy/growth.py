"""How fast homes grow, and when a disk is full at that pace.

The pace is the median of the slopes between all pairs of days (Theil-Sen estimator): one large
prune, or one large import, does not reverse a trend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model.figures import Growth, HomeFigures, Point
from holdfast.policy.rules import DAY
from holdfast.value import replace

#: How many days are shown, and how many days the pace is computed from.
DAYS = 28
#: With fewer days, or days closer together, the pace is unknown.
_FEWEST = 3
#: Not worth reporting if the disk lasts longer than this.
_FAR = 3_650.0
#: The fields that can be summed over homes: bytes and counts, but not times or disk figures.
_SUMMED = tuple(name for name, kind in HomeFigures.__annotations__.items() if kind == "int")


def growth(figures: Iterable[HomeFigures], now: float) -> Growth:
    """The growth of one home. Looks with a time in the future are left out: the clock was wrong
    then, or is now."""
    known = sorted((each for each in figures if each.at <= now), key=lambda each: each.at)
    if not known:
        return Growth()
    latest = known[-1]
    # The last look of each day.
    points = {int(each.at // DAY): Point(at=each.at, bytes=each.bytes) for each in known}.values()
    recent = tuple(each for each in points if each.at > now - DAYS * DAY)
    made = _paced(Growth(points=recent, latest=latest))
    return replace(made, disk_free=latest.disk_free, full_in_days=_full_in(made, latest.disk_free))


def together(homes: Sequence[Growth]) -> Growth:
    """The growth of several homes together. A home whose first look came later than that of others
    counts with the size of that look from the beginning: it existed before the look, and did not
    grow from nothing. Homes on disks of the same size are assumed to be on one disk; of several
    disks, the one that is full first is reported."""
    known = [(each, each.latest) for each in homes if each.latest is not None]
    if not known:
        return Growth()
    latest = _sum([figures for _, figures in known])
    made = _paced(Growth(points=_added([each for each, _ in known]), latest=latest))
    by_disk: dict[int | None, list[tuple[Growth, HomeFigures]]] = {}
    for each in known:
        by_disk.setdefault(each[1].disk_size, []).append(each)
    disks = [_disk(members) for members in by_disk.values()]
    with_room = [each for each in disks if each[0] is not None]
    if not with_room:
        return made
    free, full = min(with_room, key=lambda each: (each[1] is None, each[1] or 0.0, each[0]))
    return replace(made, disk_free=free, full_in_days=full)


def _disk(members: Sequence[tuple[Growth, HomeFigures]]) -> tuple[int | None, float | None]:
    """The free space on the disk of these homes at the latest look, and when it is full."""
    last = max((figures for _, figures in members), key=lambda each: each.at)
    added = _paced(Growth(points=_added([each for each, _ in members])))
    return last.disk_free, _full_in(added, last.disk_free)


def _added(homes: Sequence[Growth]) -> tuple[Point, ...]:
    """A point for each day on which any of the homes has one."""
    days: dict[int, float] = {}
    for each in homes:
        for point in each.points:
            day = _day(point)
            days[day] = max(point.at, days.get(day, 0.0))
    return tuple(
        Point(at=at, bytes=sum(_at(each, day) for each in homes))
        for day, at in sorted(days.items())
    )


def _at(home: Growth, day: int) -> int:
    """The size of a home at the end of a day, as far as known: before the first look the size at
    that look, and without a look for weeks the size at the last one."""
    before = [each.bytes for each in home.points if _day(each) <= day]
    if before:
        return before[-1]
    if home.points:
        return home.points[0].bytes
    return 0 if home.latest is None else home.latest.bytes


def _day(point: Point) -> int:
    return int(point.at // DAY)


def _paced(made: Growth) -> Growth:
    points = made.points
    span = (points[-1].at - points[0].at) / DAY if points else 0.0
    if len(points) < _FEWEST or span < _FEWEST - 1:
        return replace(made, over_days=span)
    from statistics import median  # noqa: PLC0415 - slow to load, and most commands ask for no pace

    slopes = [
        (later.bytes - earlier.bytes) / ((later.at - earlier.at) / DAY)
        for place, earlier in enumerate(points)
        for later in points[place + 1 :]
    ]
    return replace(made, over_days=span, bytes_per_day=median(slopes))


def _full_in(made: Growth, free: int | None) -> float | None:
    if free is None or made.bytes_per_day is None or made.bytes_per_day <= 0:
        return None
    days = free / made.bytes_per_day
    return days if days <= _FAR else None


def _sum(figures: Sequence[HomeFigures]) -> HomeFigures:
    """The latest looks combined, with the time of the oldest. Several disks have no common size."""
    last = max(figures, key=lambda each: each.at)
    one_disk = all(each.disk_size == last.disk_size for each in figures)
    maintained = [each.maintained_at for each in figures if each.maintained_at is not None]
    told = [each.maintenance_ok for each in figures if each.maintenance_ok is not None]
    sums = {name: sum(getattr(each, name) for each in figures) for name in _SUMMED}
    return HomeFigures(
        at=min(each.at for each in figures),
        maintained_at=min(maintained, default=None),
        maintenance_ok=all(told) if told else None,
        disk_free=last.disk_free if one_disk else None,
        disk_size=last.disk_size if one_disk else None,
        **sums,
    )
