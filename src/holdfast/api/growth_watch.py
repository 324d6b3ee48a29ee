"""Notices files that grow too fast; costs next to nothing while none does.

Reading the free space of a disk takes a microsecond, a look at all files of a machine a tenth of a
second or more. So the files are looked at only while a disk fills up, and from time to time anyway:
a program that deletes as fast as another one writes hides it. Two looks in a row give the rate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from holdfast.model.alarm import Alarm, Writer
from holdfast.policy.growth_alarm import Grown, Room, Sizes, filling, grown
from holdfast.value import replace

#: Seconds between two readings.
TICK = 2.0
#: Looks at the files take at most 4 % of the time while a disk fills up. Otherwise they come every
#: five minutes, or more seldom where they take long.
_TIMES, _TIMES_AT_REST, _AT_REST = 25, 8_000, 300.0
#: What has not grown for so many seconds has stopped.
_OVER = 30.0


class Eyes(Protocol):
    """How a machine is observed."""

    def monotonic(self) -> float: ...

    def room(self) -> Room: ...

    def sizes(self, disks: Collection[int]) -> Sizes:
        """The sizes of the files on these disks; on every disk if none is given."""

    def writers(self, grown: Grown) -> Sequence[Writer]: ...

    def home_of(self, path: str) -> str: ...


class GrowthWatch:
    """Call `look` every few seconds. It returns the alarms that are new, and those that ended."""

    def __init__(self, eyes: Eyes, limit: float) -> None:
        self.limit = limit
        self.active: dict[str, Alarm] = {}
        self._eyes = eyes
        self._room: Room | None = None
        self._before: Sizes | None = None
        self._disks: Collection[int] = ()
        self._filled: Collection[int] = ()
        self._seen_at: dict[str, float] = {}
        self._not_before = self._at_the_latest = 0.0

    def look(self, now: float) -> list[Alarm]:
        if self.limit <= 0:
            return []
        before, self._room = self._room, self._eyes.room()
        at = self._room.at
        filled = self._filled
        self._filled = () if before is None else filling(before, self._room, self.limit)
        fills = [disk for disk in self._filled if disk in filled]  # for more than a moment
        wanted = fills or self.active or self._before is not None or at >= self._at_the_latest
        if not wanted or at < self._not_before:
            return self._ended(now, at)
        if self._before is None:
            self._disks = fills
        first, sizes = self._before, self._eyes.sizes(self._disks)
        cost = self._eyes.monotonic() - at
        told = [] if first is None else self._tell(grown(first, sizes, self.limit), now, at)
        # While something grows, each look is compared with the one before. Otherwise nothing is
        # kept: a machine has many folders.
        self._before = sizes if first is None or fills or self.active else None
        self._not_before = at + _TIMES * cost
        if not self._disks:
            self._at_the_latest = at + max(_AT_REST, _TIMES_AT_REST * cost)
        return told + self._ended(now, at)

    def _tell(self, found: Sequence[Grown], now: float, at: float) -> list[Alarm]:
        new: list[Alarm] = []
        for each in found:
            known = self.active.get(each.path)
            named = () if known is None else known.writers
            seen = Alarm(
                home=self._eyes.home_of(each.path),
                path=each.path,
                folder=each.folder,
                first_at=now if known is None else known.first_at,
                last_at=now,
                bytes=each.bytes,
                bytes_per_minute=each.bytes_per_minute,
                writers=named or tuple(self._eyes.writers(each)),
            )
            self.active[each.path], self._seen_at[each.path] = seen, at
            if known is None or (seen.writers and not named):
                new.append(seen)
        return new

    def _ended(self, now: float, at: float) -> list[Alarm]:
        over = [path for path in self.active if at - self._seen_at[path] > _OVER]
        return [replace(self.active.pop(path), ended_at=now) for path in over]
