"""The keys that say which sessions stay."""

from __future__ import annotations

from holdfast.config.key import SESSIONS, Key
from holdfast.config.kinds import Duration, Number, Patterns

_COUNT = Number(low=0, high=1_000_000)


def _keep(bucket: str, what: str) -> Key:
    return Key(
        path=(SESSIONS, f"keep_{bucket}"),
        kind=_COUNT,
        default=0,
        about=(f"Keep the newest {what}. 0 turns this off.",),
        per_source=True,
    )


RETENTION: tuple[Key, ...] = (
    Key(
        path=(SESSIONS, "retention_days"),
        kind=Number(low=0, high=36_500, whole=False),
        default=90,
        about=(
            "Keep sessions whose last activity is younger than this many days.",
            "0 is no rule about age.",
        ),
        per_source=True,
    ),
    Key(
        path=(SESSIONS, "files_retention_days"),
        kind=Number(low=0, high=36_500, whole=False),
        default=0,
        about=(
            "Maintenance removes the files (transcripts, request dumps) of sessions whose last",
            "activity is older than this many days. The sessions stay. 0 turns this off.",
        ),
        per_source=True,
    ),
    Key(
        path=(SESSIONS, "idle_hours"),
        kind=Number(
            low=1, high=8_760, whole=False, hint="a shorter time could take a session in use"
        ),
        default=24,
        about=("A file touched within this many hours counts as in use and is left alone.",),
    ),
    _keep("last", "sessions, this many"),
    _keep("hourly", "of each hour, for this many hours that have one"),
    _keep("daily", "of each day, for this many days that have one"),
    _keep("weekly", "of each week, for this many weeks that have one"),
    _keep("monthly", "of each month, for this many months that have one"),
    _keep("yearly", "of each year, for this many years that have one"),
    Key(
        path=(SESSIONS, "keep_within"),
        kind=Duration(),
        default="",
        about=(
            'Keep what is at most this much older than the newest: "12h", "2w", "1y".',
            '"" turns this off.',
        ),
        per_source=True,
    ),
    Key(
        path=(SESSIONS, "max_total_size_mb"),
        kind=Number(low=0, high=1_000_000_000),
        default=0,
        about=("The most that all may take on disk, in MB of 1,000,000 bytes. 0 is no bound.",),
        per_source=True,
    ),
    Key(
        path=(SESSIONS, "max_count"),
        kind=Number(low=0, high=1_000_000_000),
        default=0,
        about=("The most sessions to keep. 0 is no bound.",),
        per_source=True,
    ),
    Key(
        path=(SESSIONS, "pins"),
        kind=Patterns(),
        default=(),
        about=(
            "Sessions that always stay: ids, or patterns with * ? [ ], for example",
            '["20260325_112518_6995d1", "cron_report_*"].',
        ),
    ),
)
