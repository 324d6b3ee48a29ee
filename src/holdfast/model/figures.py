"""What homes took on the disk over time, and what that says about tomorrow.

Numbers alone: no id, no path and no title, so exporting them gives nothing away.
"""

from __future__ import annotations

import math
from enum import StrEnum

from holdfast.model.json_value import TOO_LARGE, JsonValue
from holdfast.model.text import format_bytes, format_count
from holdfast.value import dataclass

LEAST_ROOM = 256 * 1024
#: A change needs so much for its journal, its undo copies and the log of a database.
NEEDED = 8 * 1024**2
_FULL = 1024**2
#: A disk is nearly full with less than one part in so many free; but so much is enough on any.
_PART = 20
_LITTLE = 2 * 1024**3
#: A date that is further away is no news.
_FAR_DAYS = 730.0


class Tally(StrEnum):
    """What is counted as it happens, by every process."""

    REFUSALS = "refusals"
    HOOK_FAILURES = "hook_failures"
    ALARMS = "alarms"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """What a disk has, and what of it is free for this user."""

    free: int
    size: int

    @property
    def is_used_up(self) -> bool:
        """Whether not even the journal of a small change is sure to fit."""
        return self.free < LEAST_ROOM

    @property
    def is_full(self) -> bool:
        """With so little free, nothing goes to the trash, which is on the same disk."""
        return self.free < _FULL

    @property
    def is_nearly_full(self) -> bool:
        """Whether somebody should hear of it, before an agent fails to write."""
        return self.free < max(NEEDED, min(self.size // _PART, _LITTLE))


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeFigures(JsonValue):
    """One look at a home. The fields in bytes are parts of `bytes`, except for
    `reclaimable_bytes` (what the policy would free, and the trash) and those of the disk, which are
    None where the system does not tell. `maintenance_ok` is None before the first maintenance. The
    last three count from the beginning."""

    at: float
    bytes: int
    session_bytes: int = 0
    checkpoint_bytes: int = 0
    trash_bytes: int = 0
    vault_bytes: int = 0
    archive_bytes: int = 0
    leftover_bytes: int = 0
    sessions: int = 0
    reclaimable_bytes: int = 0
    disk_free: int | None = None
    disk_size: int | None = None
    maintained_at: float | None = None
    maintenance_ok: bool | None = None
    refusals: int = 0
    hook_failures: int = 0
    alarms: int = 0

    def __post_init__(self) -> None:
        for name in type(self).__slots__:
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and 0 <= value < TOO_LARGE):
                raise ValueError(f"{name} is {value!r}")

    @property
    def other_bytes(self) -> int:
        """What is none of the named parts: the log, databases, files of the agent."""
        named = (
            self.session_bytes,
            self.checkpoint_bytes,
            self.trash_bytes,
            self.vault_bytes,
            self.archive_bytes,
            self.leftover_bytes,
        )
        return max(0, self.bytes - sum(named))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(JsonValue):
    """What was there at the end of a day, or at the last look of it."""

    at: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth(JsonValue):
    """How a home grew, or all homes together. `points` are those of the last weeks, the oldest
    first, one for each day with a look. `bytes_per_day` is the pace over `over_days`; None while
    too little is known. `full_in_days` is when the disk is full at that pace, None if it will not
    be for years."""

    points: tuple[Point, ...] = ()
    latest: HomeFigures | None = None
    bytes_per_day: float | None = None
    over_days: float = 0.0
    disk_free: int | None = None
    full_in_days: float | None = None


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
