"""[store], [checkpoints], [archive], [vault], [maintenance], [notify] and [mcp]: what else a home
keeps and where, its upkeep, and who may ask for changes."""

from __future__ import annotations

import shlex

from holdfast.config.key import MEGABYTE, key
from holdfast.config.kinds import (
    Choice,
    CommandLine,
    DatabaseAddress,
    Duration,
    Endpoint,
    Flag,
    Folder,
    IgnoreRules,
    Number,
    StoreUrl,
    Word,
)
from holdfast.config.sessions import keep
from holdfast.model.checkpoint import (
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_PUSHED_FILE_BYTES,
    MAX_SNAPSHOTS,
    Capturing,
)
from holdfast.model.durations import parse_duration
from holdfast.policy.rules import DAY, HOUR, Caps, CheckpointPolicy, Limits, Rules
from holdfast.value import dataclass

ZSTD = "zstd"
GZIP = "gzip"

_DAYS = Number(0, 36_500, whole=False)
_MEGABYTES = Number(0, 1_000_000_000)


def _limits(retention_days: float, max_total_size_mb: int) -> Limits:
    return Limits(
        rules=Rules(max_age=retention_days * DAY or None),
        caps=Caps(max_bytes=max_total_size_mb * MEGABYTE or None),
    )


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
        _MEGABYTES,
        MAX_BYTES // MEGABYTE,
        "The most that all checkpoints may take on disk, in MB of 1,000,000 bytes. 0 means no",
        "limit. Enforced soon after each checkpoint; twice this is never exceeded.",
        "Archives of older layouts never push a checkpoint out; a report says if they do not fit.",
        was=("max_size_mb",),
    )
    max_file_size_mb: int = key(
        _MEGABYTES,
        MAX_FILE_BYTES // MEGABYTE,
        "Files larger than this many MB are not captured. 0 means no limit.",
        was=("max_file_mb",),
    )
    push_max_file_size_mb: int = key(
        _MEGABYTES,
        MAX_PUSHED_FILE_BYTES // MEGABYTE,
        "Files larger than this many MB are not sent to a git remote. 0 means no limit.",
    )
    retention_days: float = key(
        _DAYS,
        7,
        "A project whose last checkpoint is older than this many days goes with all of them.",
        "0 means no age rule.",
    )
    delete_orphans: bool = key(
        Flag(),
        True,
        "Whether the checkpoints of a project go once its directory is gone. A directory on a",
        "disk that is not mounted is not gone.",
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
        '"12h", "2w". "" turns this off. Without any keep_... rule, only the bounds remove any.',
    )
    exclude: tuple[str, ...] = key(
        IgnoreRules(),
        (),
        "More that is not captured, as in a .gitignore file, for example",
        '["data/", "*.parquet"]. A ! before one captures what the usual rules leave out,',
        "and wins over the .gitignore files of projects.",
    )
    hash_all: bool = key(
        Flag(),
        False,
        "Whether every file is read when a checkpoint is taken, compared or restored. Without",
        "it a file counts as unchanged while its size and times are: right, but for programs",
        "that write through a shared memory map. It costs as much as reading the project.",
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
        """What checkpoints capture, and the bounds that hold while they are taken."""
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
        """Which checkpoints stay. Empty when all do."""
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
class StoreSettings:
    """[store]."""

    url: str = key(
        DatabaseAddress(),
        "",
        "Keep sessions in this PostgreSQL database, which many machines can use at once:",
        '"postgresql://db.example.org/holdfast". Passwords come from ~/.pgpass or PGPASSWORD.',
        '"" is the file sessions.db of the home.',
    )
    machine_silence_days: float = key(
        _DAYS,
        30,
        "A machine that shares the store, and that nobody has heard of for so many days, counts",
        "as gone: sessions that its processes hold can then end as abandoned. 0 means never.",
    )

    @property
    def machine_silence(self) -> float:
        """In seconds; 0 for never."""
        return self.machine_silence_days * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """[archive]."""

    folder: str = key(
        Folder(),
        "",
        'Where archived sessions are kept: a whole path, or one inside the home. "" is the',
        "folder archive/ of the home.",
    )
    url: str = key(
        StoreUrl(),
        "",
        'An object store in place of a folder: "s3://bucket/prefix", "gs://..." or "az://...".',
        "Many machines may share it. Keys and passwords never go here. Needs the extra `objects`.",
    )
    endpoint: str = key(
        Endpoint(),
        "",
        'The address of an S3 service that is not AWS: "https://minio.example:9000".',
        '"" is that of the service, or of AWS_ENDPOINT_URL.',
    )
    region: str = key(
        Word(), "", 'The region of the bucket. "" is that of AWS_REGION, or us-east-1.'
    )
    profile: str = key(
        Word(),
        "",
        "A profile of the files of AWS with the credentials. Needs boto3. Without one they come",
        "from the environment, or from the machine.",
    )
    codec: str = key(
        Choice(ZSTD, GZIP), ZSTD, 'How archived sessions are compressed: "zstd" or "gzip".'
    )
    retention_days: float = key(
        _DAYS,
        0,
        "Maintenance removes sessions archived more than this many days ago. 0 keeps them for",
        "ever.",
    )
    max_total_size_mb: int = key(
        _MEGABYTES,
        0,
        "The most that the archive may take, in MB of 1,000,000 bytes. 0 means no limit.",
    )

    def limits(self) -> Limits:
        """Which archived sessions stay; empty when all do."""
        return _limits(self.retention_days, self.max_total_size_mb)


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultSettings:
    """[vault]."""

    enabled: bool = key(
        Flag(),
        False,
        "Whether maintenance keeps second names of the sessions of another agent, so that what",
        "the agent deletes by itself is not lost. They take no space while the agent has them.",
    )
    cold_days: float = key(
        _DAYS,
        7,
        "Compress a session this many days after its agent deleted it. 0 does so at once.",
    )
    url: str = key(
        StoreUrl(),
        "",
        "Where compressed sessions of the vault go in place of its own folder: an object store,",
        '"s3://bucket/prefix", "gs://..." or "az://...". The other keys for it are in [archive].',
    )
    retention_days: float = key(
        _DAYS,
        0,
        "Maintenance removes sessions that their agent deleted more than this many days ago.",
        "0 keeps them for ever.",
    )
    max_total_size_mb: int = key(
        _MEGABYTES,
        0,
        "The most that the vault may hold alone, in MB of 1,000,000 bytes. 0 means no limit.",
    )

    def limits(self) -> Limits:
        """Which sessions stay in the vault; empty when all do."""
        return _limits(self.retention_days, self.max_total_size_mb)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """[notify]."""

    command: str = key(
        CommandLine(),
        "",
        "A program with its arguments, run with each event as JSON on its standard input.",
        'There is no shell: write "sh -c ..." for one. "" is none.',
    )
    near_percent: int = key(
        Number(1, 100),
        90,
        "Report a cap (max_total_size_mb, max_count) when this share of it is used.",
    )
    timeout_seconds: float = key(
        Number(0, 3_600, above=True, whole=False),
        10,
        "End the program when it has not ended by itself after this many seconds.",
    )

    @property
    def program(self) -> tuple[str, ...]:
        """The program and its arguments, as the system wants them."""
        return tuple(shlex.split(self.command))

    @property
    def near_share(self) -> float:
        return self.near_percent / 100


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """[mcp]."""

    changes: str = key(
        Choice("ask", "allow", "refuse"),
        "ask",
        "What an agent may change through `holdfast mcp`. With ask, the user confirms a restore.",
        "With refuse, it can only read, and takes no checkpoints.",
    )
