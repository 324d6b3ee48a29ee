"""The disk usage of homes over time, and a forecast.

Numbers alone: no ids, paths or titles, so exporting them gives nothing away.
"""

from __future__ import annotations

import math
from enum import StrEnum

from holdfast.model.json_value import TOO_LARGE, JsonValue
from holdfast.model.text import format_bytes, format_count
from holdfast.value import dataclass

LEAST_ROOM = 256 * 1024
#: The room that a change needs for its journal, its undo copies and the log of a database.
NEEDED = 8 * 1024**2
_FULL = 1024**2
#: What helps on a disk without room for the log of a removal.
LOG_NEEDS = f"Free {format_bytes(LEAST_ROOM)} elsewhere first, for the log."
#: A disk is nearly full when less than a twentieth of it is free. 2 GiB is enough on any disk.
_PART = 20
_LITTLE = 2 * 1024**3
#: A date further away than this is not worth reporting.
_FAR_DAYS = 730.0


class Tally(StrEnum):
    """Events that every process counts as they happen."""

    REFUSALS = "refusals"
    HOOK_FAILURES = "hook_failures"
    ALARMS = "alarms"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """The size of a disk, and how much of it is free for this user."""

    free: int
    size: int

    @property
    def is_used_up(self) -> bool:
        """True if not even the journal of a small change is sure to fit."""
        return self.free < LEAST_ROOM

    @property
    def is_full(self) -> bool:
        """True if so little is free that nothing goes to the trash, which is on the same disk."""
        return self.free < _FULL

    @property
    def is_nearly_full(self) -> bool:
        """True if the user should be warned, before an agent fails to write."""
        return self.free < max(NEEDED, min(self.size // _PART, _LITTLE))


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeFigures(JsonValue):
    """One look at a home. The fields in bytes are parts of `bytes`, except `reclaimable_bytes`
    (what the policy would free, and the trash) and those of the disk, which are None if the system
    does not report them. `maintenance_ok` is None before the first maintenance. The last three
    fields are counts since the home was created."""

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
        """Bytes in no named part: the log, databases, files of the agent."""
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
    """The size of a home at its last look on one day."""

    at: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth(JsonValue):
    """The growth of one home, or of all homes together. `points` cover the last weeks, oldest
    first, one for each day with a look. `bytes_per_day` is the pace over `over_days`; None while
    there is not enough data. `full_in_days` is when the disk is full at that pace, None if that is
    years away."""

    points: tuple[Point, ...] = ()
    latest: HomeFigures | None = None
    bytes_per_day: float | None = None
    over_days: float = 0.0
    disk_free: int | None = None
    full_in_days: float | None = None


def growth_words(growth: Growth) -> str:
    """The growth in words, and over how many days it was measured."""
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
