"""[sessions], [transcripts] and [cron]: which sessions stay, and their lifecycle."""

from __future__ import annotations

from typing import Any

from holdfast.config.key import MEGABYTE, key
from holdfast.config.kinds import DAYS, Choice, Duration, Flag, Number, Patterns
from holdfast.model.durations import parse_duration
from holdfast.policy.lifecycle import OnReset, Transcript
from holdfast.policy.rules import DAY, HOUR, TRIVIAL_MAX, Caps, GcRules, Limits, Rules
from holdfast.policy.session_limits import SessionLimits
from holdfast.value import dataclass

REMOVE = "remove"
TRANSCRIPT = Choice(*Transcript)

_COUNT = Number(0, 1_000_000)
_LARGE = Number(0, 1_000_000_000)


def keep(what: str, *, per_source: bool = False) -> Any:
    """Declare a rule that keeps the newest items of some kind."""
    return key(_COUNT, 0, f"Keep the newest {what}. 0 turns this off.", per_source=per_source)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """[sessions]: the settings for all sessions."""

    retention_days: float = key(
        DAYS,
        90,
        "Keep sessions whose last activity is younger than this many days.",
        "0 means no age rule.",
        per_source=True,
        was=("max_age_days", "prune_days", "older_than_days"),
    )
    files_retention_days: float = key(
        DAYS,
        0,
        "Maintenance removes the files (transcripts, request dumps) of sessions whose last",
        "activity is older than this many days. The sessions stay. 0 turns this off.",
        per_source=True,
    )
    leftovers_retention_days: float = key(
        DAYS,
        0,
        "In the home of another agent: remove leftovers (what no session owns) that are older",
        "than this many days. Here a source is a kind of leftover. 0 keeps all of them.",
        per_source=True,
    )
    idle_hours: float = key(
        Number(1, 8_760, whole=False, hint="a shorter time could take a session in use"),
        24,
        "A file touched within this many hours counts as in use and is left alone.",
    )
    keep_last: int = keep("sessions, this many", per_source=True)
    keep_hourly: int = keep("of each hour, for this many hours that have one", per_source=True)
    keep_daily: int = keep("of each day, for this many days that have one", per_source=True)
    keep_weekly: int = keep("of each week, for this many weeks that have one", per_source=True)
    keep_monthly: int = keep("of each month, for this many months that have one", per_source=True)
    keep_yearly: int = keep("of each year, for this many years that have one", per_source=True)
    keep_within: str = key(
        Duration(),
        "",
        'Keep sessions at most this much older than the newest one: "12h", "2w", "1y".',
        '"" turns this off.',
        per_source=True,
    )
    max_total_size_mb: int = key(
        _LARGE,
        0,
        "The most that sessions, files, trash and log may take on disk together, in MB of",
        "1,000,000 bytes. 0 means no limit.",
        per_source=True,
    )
    max_count: int = key(_LARGE, 0, "The most sessions to keep. 0 means no limit.", per_source=True)
    pins: tuple[str, ...] = key(
        Patterns("ids or patterns", "an id or a pattern"),
        (),
        "Sessions that always stay: ids, or patterns with * ? [ ], for example",
        '["20260325_112518_6995d1", "cron_report_*"].',
    )
    auto_prune: bool = key(
        Flag(), False, "Whether maintenance prunes by the rules above on its own."
    )
    auto_gc: bool = key(
        Flag(), False, "Whether maintenance also removes empty and trivial sessions."
    )
    auto_archive: bool = key(
        Flag(), False, "Whether maintenance moves archive old sessions before it prunes."
    )
    archive_after_days: float = key(
        DAYS,
        30,
        "With auto_archive, ended sessions go to the archive when their last activity is older",
        "than this many days. 0 archives none.",
        per_source=True,
    )
    empty_hours: float = key(
        Number(0, 8_760, whole=False),
        24,
        "gc removes a session without messages after this many hours. 0 turns this off.",
    )
    trivial_days: float = key(
        DAYS, 7, "gc removes a trivial session after this many days. 0 turns this off."
    )
    trivial_max: int = key(
        _COUNT,
        TRIVIAL_MAX,
        "A session with at most this many messages is trivial. With 0, no session is.",
    )
    keep_titled: bool = key(
        Flag(), False, "gc keeps sessions that have a title. Agents set titles automatically."
    )
    on_reset: str = key(
        Choice(*OnReset),
        OnReset.ARCHIVE.value,
        'What a reset does with the files of the old session: "keep", "archive" or "delete".',
    )
    idle_minutes: float | None = key(
        Number(
            0,
            525_600,
            above=True,
            whole=False,
            hint="it would reset at once; leave the key out to turn off idle resets",
        ),
        None,
        "Reset a session at its next message if it was idle for more than this many minutes.",
        example=30,
    )
    max_messages: int = key(
        _LARGE,
        1_000,
        "Reset a session that has this many messages. 0 turns this off.",
        was=("max_messages_per_session",),
    )
    max_size_mb: int = key(
        _COUNT, 10, "Reset a session of this size, in MB of 1,000,000 bytes. 0 turns this off."
    )
    warn_percent: int = key(
        Number(1, 99), 80, "Warn when a session reaches this share of max_messages or max_size_mb."
    )
    abandoned_hours: float = key(
        Number(
            1, 8_760, whole=False, or_off=True, hint="a shorter time could end a session in use"
        ),
        24,
        "Maintenance ends a session whose process is gone once it has been idle for this many",
        "hours. 0 turns this off. In another agent's home it is off unless it is set there.",
    )

    def limits(self) -> Limits:
        """Which sessions stay."""
        rules = Rules(
            max_age=self.retention_days * DAY or None,
            keep_last=self.keep_last,
            keep_within=parse_duration(self.keep_within) if self.keep_within else None,
            keep_hourly=self.keep_hourly,
            keep_daily=self.keep_daily,
            keep_weekly=self.keep_weekly,
            keep_monthly=self.keep_monthly,
            keep_yearly=self.keep_yearly,
        )
        caps = Caps(
            max_bytes=self.max_total_size_mb * MEGABYTE or None,
            max_count=self.max_count or None,
        )
        return Limits(rules=rules, caps=caps)

    def file_limits(self) -> Limits:
        """Which sessions keep their files; empty if all do."""
        return Limits(rules=Rules(max_age=self.files_retention_days * DAY or None))

    def leftover_rules(self) -> Rules | None:
        """Which leftovers stay; None if all do."""
        days = self.leftovers_retention_days
        return Rules(max_age=days * DAY) if days else None

    def archive_limits(self) -> Limits:
        """Which sessions are not archived; empty if none is."""
        return Limits(rules=Rules(max_age=self.archive_after_days * DAY or None))

    def gc_rules(self) -> GcRules:
        """Which sessions were never worth keeping."""
        return GcRules(
            empty_after=self.empty_hours * HOUR,
            trivial_after=self.trivial_days * DAY,
            trivial_max=self.trivial_max,
            keep_titled=self.keep_titled,
        )

    def session_limits(self) -> SessionLimits:
        """The maximum size of one session."""
        return SessionLimits(
            max_messages=self.max_messages,
            max_bytes=self.max_size_mb * MEGABYTE,
            warn_share=self.warn_percent / 100,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSettings:
    """[transcripts]: `by_source` has the sources that the file names."""

    default: str = key(
        TRANSCRIPT,
        Transcript.NONE.value,
        'Whether sessions are also written as files: "none", "jsonl", or "jsonl-synced", which',
        "also survives a power cut.",
    )
    by_source: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSettings:
    """[cron]."""

    after_delivery: str = key(
        Choice("keep", REMOVE),
        "keep",
        'What happens to a cron session once its result was delivered: "keep" or "remove".',
    )
