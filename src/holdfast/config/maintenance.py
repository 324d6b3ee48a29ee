"""[maintenance] and [notify]: how often maintenance runs, and which program is run with its
events."""

from __future__ import annotations

import shlex

from holdfast.config.key import key
from holdfast.config.kinds import CommandLine, Number
from holdfast.policy.rules import HOUR
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceSettings:
    """[maintenance]."""

    min_interval_hours: float = key(
        Number(0, 8_760, above=True, whole=False),
        24,
        "Maintenance runs at most once in this many hours, no matter who asks for it.",
    )

    @property
    def interval(self) -> float:
        """The minimum time between two runs, in seconds."""
        return self.min_interval_hours * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """[notify]."""

    command: str = key(
        CommandLine(),
        "",
        "A program with its arguments, run with each event as JSON on its standard input.",
        'It runs without a shell; write "sh -c ..." to use one. "" means none.',
    )
    near_percent: int = key(
        Number(1, 100),
        90,
        "Report a cap (max_total_size_mb, max_count) when this share of it is used.",
    )
    timeout_seconds: float = key(
        Number(0, 3_600, above=True, whole=False),
        10,
        "Stop the program if it is still running after this many seconds.",
    )

    @property
    def program(self) -> tuple[str, ...]:
        """The program and its arguments, as a list for `exec`."""
        return tuple(shlex.split(self.command))

    @property
    def near_share(self) -> float:
        return self.near_percent / 100
