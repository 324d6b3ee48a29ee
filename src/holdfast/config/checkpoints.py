"""[checkpoints]: what is captured, and which checkpoints stay."""

from __future__ import annotations

from holdfast.config.key import MEGABYTE, key
from holdfast.config.kinds import DAYS, MEGABYTES, Duration, Flag, IgnoreRules, Number
from holdfast.config.sessions import keep
from holdfast.model.checkpoint import (
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_PUSHED_FILE_BYTES,
    MAX_SNAPSHOTS,
    Capturing,
)
from holdfast.model.durations import parse_duration
from holdfast.policy.rules import DAY, CheckpointPolicy, Rules
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """[checkpoints]: what is captured, and what stays. 0 turns a limit off."""

    enabled: bool = key(
        Flag(), False, "Whether an agent takes checkpoints by itself, before it changes files."
    )
    max_snapshots: int = key(
        Number(0, 1_000_000),
        MAX_SNAPSHOTS,
        "The most checkpoints to keep of each project. 0 means no limit. Enforced while an",
        "agent works: the oldest leave the list at once, and soon appear in the log and the trash.",
        was=("max_checkpoints",),
    )
    max_total_size_mb: int = key(
        MEGABYTES,
        MAX_BYTES // MEGABYTE,
        "The most that all checkpoints may take on disk, in MB of 1,000,000 bytes. 0 means no",
        "limit. Enforced soon after each checkpoint; twice this is never exceeded.",
        "Checkpoints are never removed for archives of older layouts; a report says if these do",
        "not fit.",
        was=("max_size_mb",),
    )
    max_file_size_mb: int = key(
        MEGABYTES,
        MAX_FILE_BYTES // MEGABYTE,
        "Files larger than this many MB are not captured. 0 means no limit.",
        was=("max_file_mb",),
    )
    push_max_file_size_mb: int = key(
        MEGABYTES,
        MAX_PUSHED_FILE_BYTES // MEGABYTE,
        "Files larger than this many MB are not sent to a git remote. 0 means no limit.",
    )
    retention_days: float = key(
        DAYS,
        7,
        "A project whose last checkpoint is older than this many days is removed as a whole.",
        "0 means no age rule.",
    )
    delete_orphans: bool = key(
        Flag(),
        True,
        "Whether the checkpoints of a project are removed once its directory is gone. A directory",
        "on a disk that is not mounted does not count as gone.",
    )
    auto_prune: bool = key(
        Flag(),
        True,
        "Whether maintenance prunes by age, orphans and the keep_... rules by itself.",
        "max_snapshots and max_total_size_mb apply either way.",
    )
    keep_last: int = keep("checkpoints of each project, this many")
    keep_hourly: int = keep("of each hour, for this many hours that have one")
    keep_daily: int = keep("of each day, for this many days that have one")
    keep_weekly: int = keep("of each week, for this many weeks that have one")
    keep_monthly: int = keep("of each month, for this many months that have one")
    keep_within: str = key(
        Duration(),
        "",
        "Keep checkpoints at most this much older than the newest one of their project:",
        '"12h", "2w". "" turns this off. Without any keep_... rule, only the limits remove any.',
    )
    # These are added to the default excludes, in stores/checkpoints/default_excludes.py.
    exclude: tuple[str, ...] = key(
        IgnoreRules(),
        (),
        "Additional patterns to leave out, as in a .gitignore file, for example",
        '["data/", "*.parquet"]. A ! before a pattern captures what the default rules leave out,',
        "and takes precedence over the .gitignore files of projects.",
    )
    hash_all: bool = key(
        Flag(),
        False,
        "Whether every file is read when a checkpoint is taken, compared or restored. Otherwise a",
        "file counts as unchanged if its size and times are, which is wrong only for programs that",
        "write through a shared memory map. It costs as much as reading the project.",
    )

    @property
    def max_file_bytes(self) -> int | None:
        """The size of the largest file that is captured; None means no limit."""
        return self.max_file_size_mb * MEGABYTE or None

    @property
    def push_max_file_bytes(self) -> int | None:
        """The size of the largest file that is sent to a remote; None means no limit."""
        return self.push_max_file_size_mb * MEGABYTE or None

    @property
    def max_bytes(self) -> int | None:
        """The cap on everything in the checkpoint folder; None means no cap."""
        return self.max_total_size_mb * MEGABYTE or None

    def capturing(self) -> Capturing:
        """What checkpoints capture, and the limits that apply while they are taken."""
        return Capturing(
            max_file_size=self.max_file_bytes,
            max_snapshots=self.max_snapshots,
            max_bytes=self.max_bytes,
            excludes=self.exclude,
            hash_all=self.hash_all,
        )

    def policy(
        self, *, trash_age: float, use_trash: bool = True, keep_orphans: bool = False
    ) -> CheckpointPolicy:
        """Which checkpoints stay; empty if all do."""
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
            trash_age=trash_age,
            use_trash=use_trash,
        )
