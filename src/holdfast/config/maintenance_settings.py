"""[maintenance], [archive] and [notify] as values."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from holdfast.policy.rules import DAY, Caps, Limits, Rules

_HOUR = 3_600.0
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceSettings:
    """[maintenance]."""

    min_interval_hours: float

    @property
    def interval(self) -> float:
        """The least time between two runs, in seconds."""
        return self.min_interval_hours * _HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """[archive]. A `folder` of "" is the usual one; a relative one lies inside the home."""

    folder: str
    codec: str
    retention_days: float
    max_total_size_mb: int

    def limits(self) -> Limits:
        """Which archived sessions stay; empty when they all do."""
        return Limits(
            rules=Rules(max_age=self.retention_days * DAY or None),
            caps=Caps(max_bytes=self.max_total_size_mb * _MEGABYTE or None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """[notify]. A `command` of "" is none."""

    command: str
    near_percent: int
    timeout_seconds: float

    @property
    def program(self) -> tuple[str, ...]:
        """The program and its arguments, as the system wants them."""
        return tuple(shlex.split(self.command))

    @property
    def near_share(self) -> float:
        return self.near_percent / 100
