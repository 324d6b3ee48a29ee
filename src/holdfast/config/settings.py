"""The settings as values, and the policy that they amount to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from holdfast.config.finding import Given
from holdfast.config.keys import KEYS, SESSIONS, SOURCE, SOURCE_KEYS
from holdfast.config.kinds import Value
from holdfast.config.shown import dotted
from holdfast.model.units import parse_duration
from holdfast.policy.rules import DAY, Caps, Limits, Policy, Rules

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """[sessions]: what holds for all sessions."""

    retention_days: float
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

    def limits(self) -> Limits:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """[sessions.source.NAME]: what differs for one source. None is not given."""

    name: str
    retention_days: float | None = None
    keep_last: int | None = None
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    keep_monthly: int | None = None
    keep_yearly: int | None = None
    keep_within: str | None = None
    max_total_size_mb: int | None = None
    max_count: int | None = None

    def given(self) -> Iterator[tuple[str, Value]]:
        """The names and values that were set, in the order of the keys."""
        for key in SOURCE_KEYS:
            value: Value | None = getattr(self, key.name)
            if value is not None:
                yield key.name, value

    def limits(self, sessions: SessionSettings) -> Limits:
        """Rules that were not given come from `sessions`; caps bound each on its own."""
        own: dict[str, Any] = {"max_total_size_mb": 0, "max_count": 0, **dict(self.given())}
        return replace(sessions, **own).limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything config.toml and the environment decide. `origins` leaves out the defaults."""

    trash_days: int
    sessions: SessionSettings
    sources: tuple[SourceSettings, ...] = ()
    origins: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )

    def entries(self) -> Iterator[tuple[str, Value, str]]:
        """Each dotted key with its value and origin; of sources, the keys they set."""
        for key in KEYS:
            holder = self.sessions if key.path[0] == SESSIONS else self
            yield self._entry(key.path, getattr(holder, key.name))
        for source in self.sources:
            for name, value in source.given():
                yield self._entry((SESSIONS, SOURCE, source.name, name), value)

    def policy(self, use_trash: bool = True) -> Policy:
        """What to keep. It may be empty; refusing that is the planner's part."""
        return Policy(
            everywhere=self.sessions.limits(),
            by_source={source.name: source.limits(self.sessions) for source in self.sources},
            pins=self.sessions.pins,
            trash_age=self.trash_days * DAY,
            use_trash=use_trash,
        )

    def _entry(self, path: tuple[str, ...], value: Value) -> tuple[str, Value, str]:
        key = dotted(path)
        return key, value, self.origins.get(key, "default")


def build(given: Iterable[Given]) -> Settings:
    """The settings that `given` values make of the defaults; later ones win."""
    top: dict[str, Any] = {}
    sessions: dict[str, Any] = {}
    sources: dict[str, dict[str, Any]] = {}
    for key in KEYS:
        (sessions if key.path[0] == SESSIONS else top)[key.name] = key.default
    origins: dict[str, str] = {}
    for item in given:
        origins[dotted(item.path)] = item.origin
        *tables, name = item.path
        if not tables:
            top[name] = item.value
        elif tables == [SESSIONS]:
            sessions[name] = item.value
        else:
            sources.setdefault(tables[-1], {})[name] = item.value
    return Settings(
        **top,
        sessions=SessionSettings(**sessions),
        sources=tuple(SourceSettings(name=name, **sources[name]) for name in sorted(sources)),
        origins=MappingProxyType(origins),
    )
