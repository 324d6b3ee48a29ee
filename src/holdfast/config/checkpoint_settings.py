"""[checkpoints] as values, and the policy that they amount to."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.units import parse_duration
from holdfast.policy.rules import DAY, CheckpointPolicy, Rules

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """[checkpoints]. 0 turns a bound off."""

    enabled: bool
    max_snapshots: int
    max_total_size_mb: int
    max_file_size_mb: int
    retention_days: float
    delete_orphans: bool
    auto_prune: bool
    keep_last: int
    keep_hourly: int
    keep_daily: int
    keep_weekly: int
    keep_monthly: int
    keep_within: str
    exclude: tuple[str, ...]
    hash_all: bool

    @property
    def max_file_bytes(self) -> int | None:
        """The size of the largest file that is captured; None is no bound."""
        return self.max_file_size_mb * _MEGABYTE or None

    @property
    def max_bytes(self) -> int | None:
        """The cap on everything in the checkpoint folder; None is no cap."""
        return self.max_total_size_mb * _MEGABYTE or None

    def policy(self, *, use_trash: bool = True, keep_orphans: bool = False) -> CheckpointPolicy:
        """Which checkpoints stay. It may be empty: then all do."""
        return CheckpointPolicy(
            rules=Rules(
                keep_last=self.keep_last,
                keep_within=parse_duration(self.keep_within) if self.keep_within else None,
                keep_hourly=self.keep_hourly,
                keep_daily=self.keep_daily,
                keep_weekly=self.keep_weekly,
                keep_monthly=self.keep_monthly,
            ),
            stale_after=self.retention_days * DAY or None,
            max_count=self.max_snapshots or None,
            max_bytes=self.max_bytes,
            keep_orphans=keep_orphans or not self.delete_orphans,
            use_trash=use_trash,
        )
