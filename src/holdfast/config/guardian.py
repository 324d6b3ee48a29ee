"""[guardian]: the limits that the watcher enforces on a machine."""

from __future__ import annotations

from holdfast.config.key import MEGABYTE, key
from holdfast.config.kinds import MEGABYTES, Number
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardianSettings:
    """[guardian]. `max_home_size_mb` applies to the home of this configuration. The other keys
    apply to the machine, and are read from Holdfast's own home."""

    max_total_size_mb: int = key(
        MEGABYTES,
        0,
        "The most that all homes of this machine may take together, in MB of 1,000,000 bytes:",
        "sessions, their files, checkpoints, archives, trash and logs. 0 means no limit.",
        "Only the value in Holdfast's own home counts.",
    )
    max_home_size_mb: int = key(
        MEGABYTES,
        0,
        "The same for this home alone. 0 means no limit.",
    )
    high_percent: int = key(
        Number(1, 100),
        95,
        "Start to free space when this share of a budget is used.",
    )
    low_percent: int = key(
        Number(1, 100),
        85,
        "Then move the oldest sessions to the trash until what stays fits into this share. The",
        "trash counts too: beyond the whole budget, the oldest trash is emptied.",
    )
    alarm_mb_per_minute: float = key(
        Number(0, 1_000_000_000, whole=False),
        1_000,
        "Report a file or folder of an agent that grows by more than this many MB in a minute.",
        "0 turns this off. Only the value in Holdfast's own home counts.",
    )
    reserve_mb: int = key(
        Number(0, 100_000),
        64,
        "How many MB the watcher over all homes sets aside on the disk of each home. They are",
        "given back when the disk is full, so that there is room to clean up. 0 sets none aside.",
        "Only the value in Holdfast's own home counts.",
    )

    @property
    def max_bytes(self) -> int | None:
        """The budget of the machine; None for no limit."""
        return self.max_total_size_mb * MEGABYTE or None

    @property
    def max_home_bytes(self) -> int | None:
        """The budget of one home; None for no limit."""
        return self.max_home_size_mb * MEGABYTE or None

    @property
    def alarm_rate(self) -> float:
        """In bytes per minute; 0 for no alarm."""
        return self.alarm_mb_per_minute * MEGABYTE

    @property
    def reserve_bytes(self) -> int:
        return self.reserve_mb * MEGABYTE
