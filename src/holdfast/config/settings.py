"""The settings as values, and the policy and options that they amount to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from holdfast.config.checkpoint_settings import CheckpointSettings
from holdfast.config.finding import Given
from holdfast.config.guard_settings import GuardSettings, GuardSourceSettings, PriceSettings
from holdfast.config.key import (
    ARCHIVE,
    CHECKPOINTS,
    CRON,
    GUARD,
    MAINTENANCE,
    NOTIFY,
    PRICES,
    SESSIONS,
    SOURCE,
    TOP,
    TRANSCRIPTS,
    VARIABLE_PREFIX,
)
from holdfast.config.keys import BY_TABLE
from holdfast.config.keys_lifecycle import REMOVE
from holdfast.config.kinds import Value
from holdfast.config.maintenance_settings import (
    ArchiveSettings,
    MaintenanceSettings,
    NotifySettings,
)
from holdfast.config.session_settings import SessionSettings, SourceSettings
from holdfast.config.shown import dotted
from holdfast.policy.budgets import GuardOptions
from holdfast.policy.lifecycle import DEFAULT_SOURCE, OnReset, SessionOptions, Transcript
from holdfast.policy.prices import Prices
from holdfast.policy.rules import DAY, CheckpointPolicy, GcRules, Policy

_HOUR = 3_600.0
#: The tables, beside the top, that decide what maintenance does.
_UPKEEP = (SESSIONS, CHECKPOINTS, ARCHIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSettings:
    """[transcripts]: `by_source` are the sources that were given, by name."""

    default: str
    by_source: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSettings:
    """[cron]."""

    after_delivery: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything config.toml and the environment decide. `origins` leaves out the defaults."""

    trash_days: int
    log_days: int
    sessions: SessionSettings
    transcripts: TranscriptSettings
    cron: CronSettings
    checkpoints: CheckpointSettings
    maintenance: MaintenanceSettings
    archive: ArchiveSettings
    notify: NotifySettings
    guard: GuardSettings
    sources: tuple[SourceSettings, ...] = ()
    guard_sources: tuple[GuardSourceSettings, ...] = ()
    price_list: tuple[PriceSettings, ...] = ()
    origins: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )

    def entries(self) -> Iterator[tuple[str, Value | None, str]]:
        """Each dotted key, its value and its origin; of sources, the keys they set.

        A key that has no default and that nobody set has None.
        """
        for path, value in self._values():
            key = dotted(path)
            yield key, value, self.origins.get(key, "default")

    def is_in_file(self, *path: str) -> bool:
        """Whether the configuration file sets a key; the environment holds for all homes."""
        origin = self.origins.get(dotted(path))
        return origin is not None and not origin.startswith(VARIABLE_PREFIX)

    def policy(self, use_trash: bool = True) -> Policy:
        """What to keep. It may be empty; refusing that is the planner's part."""
        return Policy(
            everywhere=self.sessions.limits(),
            by_source={source.name: source.limits(self.sessions) for source in self.sources},
            pins=self.sessions.pins,
            trash_age=self.trash_days * DAY,
            use_trash=use_trash,
            trivial_max=self.sessions.trivial_max,
        )

    def files_policy(self) -> Policy:
        """Which sessions keep their files. Empty: maintenance leaves files alone."""
        return Policy(
            everywhere=self.sessions.file_limits(),
            by_source={each.name: each.file_limits(self.sessions) for each in self.sources},
            pins=self.sessions.pins,
        )

    def auto_archive_policy(self) -> Policy:
        """Which sessions maintenance leaves out of the archive. Empty: it archives none."""
        return Policy(
            everywhere=self.sessions.archive_limits(),
            by_source={each.name: each.archive_limits(self.sessions) for each in self.sources},
            pins=self.sessions.pins,
            trivial_max=self.sessions.trivial_max,
        )

    def gc_rules(self) -> GcRules:
        """What gc takes."""
        return self.sessions.gc_rules()

    def archive_policy(self, use_trash: bool = True) -> Policy:
        """What stays in the archive. It may be empty: then everything does."""
        return Policy(
            everywhere=self.archive.limits(), pins=self.sessions.pins, use_trash=use_trash
        )

    def checkpoint_policy(
        self, *, use_trash: bool = True, keep_orphans: bool = False
    ) -> CheckpointPolicy:
        """Which checkpoints stay."""
        return replace(
            self.checkpoints.policy(use_trash=use_trash, keep_orphans=keep_orphans),
            trash_age=self.trash_days * DAY,
        )

    def upkeep_fingerprint(self) -> str:
        """The same for settings with which maintenance does the same."""
        # Where a value comes from matters too: what is only a default does not hold everywhere.
        said = [
            (path, value, self.is_in_file(*path))
            for path, value in self._values()
            if len(path) == 1 or path[0] in _UPKEEP
        ]
        return sha256(repr(said).encode()).hexdigest()[:16]

    def session_options(self) -> SessionOptions:
        """How sessions live."""
        named = ((DEFAULT_SOURCE, self.transcripts.default), *self.transcripts.by_source)
        return SessionOptions(
            limits=self.sessions.session_limits(),
            on_reset=OnReset(self.sessions.on_reset),
            idle_minutes=self.sessions.idle_minutes,
            transcripts={source: Transcript(transcript) for source, transcript in named},
            remove_after_delivery=self.cron.after_delivery == REMOVE,
            abandoned_after=self.sessions.abandoned_hours * _HOUR,
        )

    def guard_options(self) -> GuardOptions:
        """What sessions may use. A source that no session has is no mistake: one may come."""
        return self.guard.options(self.guard_sources)

    def prices(self) -> Prices:
        """What tokens cost; empty unless somebody set prices."""
        return Prices(by_model={line.model: line.price() for line in self.price_list})

    def _values(self) -> Iterator[tuple[tuple[str, ...], Value | None]]:
        """Table by table, what a table says of sources after its own keys."""
        for table, keys in BY_TABLE.items():
            for key in keys.values():
                yield key.path, getattr(getattr(self, table) if table else self, key.name)
            yield from self._of_names(table)

    def _of_names(self, table: str) -> Iterator[tuple[tuple[str, ...], Value | None]]:
        """What a table says of sources or models."""
        sources: Mapping[str, Sequence[SourceSettings | GuardSourceSettings]] = {
            SESSIONS: self.sources,
            GUARD: self.guard_sources,
        }
        for source in sources.get(table, ()):
            for name, value in source.given():
                yield (table, SOURCE, source.name, name), value
        if table == TRANSCRIPTS:
            for name, transcript in self.transcripts.by_source:
                yield (TRANSCRIPTS, name), transcript
        if table == PRICES:
            for line in self.price_list:
                for name, value in line.given():
                    yield (PRICES, line.model, name), value


def build(given: Iterable[Given]) -> Settings:
    """The settings that `given` values make of the defaults; later ones win."""
    tables: dict[str, dict[str, Any]] = {
        table: {name: key.default for name, key in keys.items()} for table, keys in BY_TABLE.items()
    }
    named: dict[str, dict[str, dict[str, Any]]] = {SESSIONS: {}, GUARD: {}, PRICES: {}}
    origins: dict[str, str] = {}
    for item in given:
        origins[dotted(item.path)] = item.origin
        *within, name = item.path
        if len(within) > 1:
            named[within[0]].setdefault(within[-1], {})[name] = item.value
        else:
            tables[within[0] if within else TOP][name] = item.value
    default = tables[TRANSCRIPTS].pop(DEFAULT_SOURCE)
    by_source = tuple(sorted(tables[TRANSCRIPTS].items()))
    return Settings(
        **tables[TOP],
        sessions=SessionSettings(**tables[SESSIONS]),
        transcripts=TranscriptSettings(default=default, by_source=by_source),
        cron=CronSettings(**tables[CRON]),
        checkpoints=CheckpointSettings(**tables[CHECKPOINTS]),
        maintenance=MaintenanceSettings(**tables[MAINTENANCE]),
        archive=ArchiveSettings(**tables[ARCHIVE]),
        notify=NotifySettings(**tables[NOTIFY]),
        guard=GuardSettings(**tables[GUARD]),
        sources=tuple(SourceSettings(name=n, **own) for n, own in sorted(named[SESSIONS].items())),
        guard_sources=tuple(
            GuardSourceSettings(name=n, **own) for n, own in sorted(named[GUARD].items())
        ),
        price_list=tuple(PriceSettings(model=n, **own) for n, own in sorted(named[PRICES].items())),
        origins=MappingProxyType(origins),
    )
