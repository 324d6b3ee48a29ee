"""[sessions] and its sources as values, and the limits that they amount to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from holdfast.config.keys import SOURCE_KEYS
from holdfast.config.kinds import Value
from holdfast.model.units import parse_duration
from holdfast.policy.limits import SessionLimits
from holdfast.policy.rules import DAY, Caps, GcRules, Limits, Rules

_HOUR = 3_600.0
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """[sessions]: what holds for all sessions."""

    retention_days: float
    files_retention_days: float
    idle_hours: float
    keep_last: int
    keep_hourly: int
    keep_daily: int
    keep_weekly: int
    keep_monthly: int
    keep_yearly: int
    keep_within: str
    max_total_size_mb: int
    max_count: int
    pins: tuple[str, ...]
    auto_prune: bool
    auto_gc: bool
    auto_archive: bool
    archive_after_days: float
    empty_hours: float
    trivial_days: float
    trivial_max: int
    keep_titled: bool
    on_reset: str
    idle_minutes: float | None
    max_messages: int
    max_size_mb: int
    warn_percent: int
    abandoned_hours: float

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
            max_bytes=self.max_total_size_mb * _MEGABYTE or None,
            max_count=self.max_count or None,
        )
        return Limits(rules=rules, caps=caps)

    def file_limits(self) -> Limits:
        """Which sessions keep their files; empty when all do."""
        return Limits(rules=Rules(max_age=self.files_retention_days * DAY or None))

    def archive_limits(self) -> Limits:
        """Which sessions stay out of the archive; empty when all do."""
        return Limits(rules=Rules(max_age=self.archive_after_days * DAY or None))

    def gc_rules(self) -> GcRules:
        """Which sessions were never worth keeping."""
        return GcRules(
            empty_after=self.empty_hours * _HOUR,
            trivial_after=self.trivial_days * DAY,
            trivial_max=self.trivial_max,
            keep_titled=self.keep_titled,
        )

    def session_limits(self) -> SessionLimits:
        """How large one session may get."""
        return SessionLimits(
            max_messages=self.max_messages,
            max_bytes=self.max_size_mb * _MEGABYTE,
            warn_share=self.warn_percent / 100,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """[sessions.source.NAME]: what differs for one source. None is not given."""

    name: str
    retention_days: float | None = None
    files_retention_days: float | None = None
    keep_last: int | None = None
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    keep_monthly: int | None = None
    keep_yearly: int | None = None
    keep_within: str | None = None
    max_total_size_mb: int | None = None
    max_count: int | None = None
    archive_after_days: float | None = None

    def given(self) -> Iterator[tuple[str, Value]]:
        """The names and values that were set, in the order of the keys."""
        for key in SOURCE_KEYS:
            value: Value | None = getattr(self, key.name)
            if value is not None:
                yield key.name, value

    def limits(self, sessions: SessionSettings) -> Limits:
        """Rules that were not given come from `sessions`; caps bound each on its own."""
        return self._over(replace(sessions, max_total_size_mb=0, max_count=0)).limits()

    def file_limits(self, sessions: SessionSettings) -> Limits:
        return self._over(sessions).file_limits()

    def archive_limits(self, sessions: SessionSettings) -> Limits:
        return self._over(sessions).archive_limits()

    def _over(self, sessions: SessionSettings) -> SessionSettings:
        own: dict[str, Any] = dict(self.given())
        return replace(sessions, **own)
