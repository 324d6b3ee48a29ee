"""The settings as values, and the policies and options derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from holdfast.config import VARIABLE_PREFIX
from holdfast.config.archive import ArchiveSettings
from holdfast.config.checkpoints import CheckpointSettings
from holdfast.config.guard import BLOCK, PRICE_KEYS, GuardSettings, HookSettings, McpSettings
from holdfast.config.guardian import GuardianSettings
from holdfast.config.key import Key, keys_of
from holdfast.config.kinds import Value, WrongValueError, dotted
from holdfast.config.maintenance import MaintenanceSettings, NotifySettings
from holdfast.config.sessions import REMOVE, CronSettings, SessionSettings, TranscriptSettings
from holdfast.config.store import StoreSettings
from holdfast.config.top_level import TopLevelSettings
from holdfast.config.vault import VaultSettings
from holdfast.errors import UsageError
from holdfast.model.checkpoint import Capturing
from holdfast.policy.budgets import GuardOptions
from holdfast.policy.lifecycle import DEFAULT_SOURCE, OnReset, SessionOptions, Transcript
from holdfast.policy.loop_rules import LoopRules
from holdfast.policy.prices import Price, Prices
from holdfast.policy.rules import ANY_SOURCE, DAY, HOUR, CheckpointPolicy, GcRules, Policy, Rules
from holdfast.value import dataclass, field, replace

TOP = ""
SESSIONS = "sessions"
TRANSCRIPTS = "transcripts"
GUARD = "guard"
PRICES = "prices"
SOURCE = "source"
#: The tables that, with the top of the file, determine what maintenance does.
_UPKEEP = (SESSIONS, "checkpoints", "archive", "vault", "guardian")
_SectionT = TypeVar("_SectionT", SessionSettings, GuardSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A checked value that is set in the file or the environment, and its origin."""

    path: tuple[str, ...]
    value: Value
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The keys that a table sets for one source or one model: [sessions.source.NAME],
    [guard.source.NAME], [prices.MODEL]."""

    table: str
    name: str
    values: tuple[tuple[str, Value], ...]

    def over(self, section: _SectionT) -> _SectionT:
        """The settings for this source: its own keys, and those of `section` for the rest."""
        own: dict[str, Any] = dict(self.values)
        return replace(section, **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TopLevelSettings):
    """Everything that config.toml and the environment determine. `origins` leaves out the
    defaults."""

    sessions: SessionSettings = field(default_factory=SessionSettings)
    transcripts: TranscriptSettings = field(default_factory=TranscriptSettings)
    cron: CronSettings = field(default_factory=CronSettings)
    checkpoints: CheckpointSettings = field(default_factory=CheckpointSettings)
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    guardian: GuardianSettings = field(default_factory=GuardianSettings)
    vault: VaultSettings = field(default_factory=VaultSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    own: tuple[Own, ...] = ()
    #: True if agents are connected to the home: hooks have left notes in it.
    connected: bool = False
    origins: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )

    def entries(self) -> Iterator[tuple[str, Value | None, str]]:
        """Each dotted key with its value and origin; for sources and models, only the keys they
        set.

        A key without a default that is not set has the value None.
        """
        for path, value in self._values():
            name = dotted(path)
            yield name, value, self.origins.get(name, "default")

    def is_in_file(self, *path: str) -> bool:
        """True if the configuration file sets a key. The environment applies to all homes, so it
        does not count."""
        origin = self.origins.get(dotted(path))
        return origin is not None and not origin.startswith(VARIABLE_PREFIX)

    def changed(self, table: str, given: Mapping[str, object]) -> Settings:
        """The settings with other values for keys of one table, checked like those of a file.

        A value of None leaves its key unchanged. Raises UsageError for an invalid value.
        """
        own = {
            name: checked(table, name, value) for name, value in given.items() if value is not None
        }
        section: Any = getattr(self, table)
        changes: dict[str, Any] = {table: replace(section, **own)}
        return replace(self, **changes)

    def changed_for(self, table: str, name: str, given: Mapping[str, object]) -> Settings:
        """The same for the keys that a table sets for one source, [sessions.source.NAME]. A value
        of None removes a key, so that the general setting applies to the source."""
        values = dict(next((each.values for each in self._own(table) if each.name == name), ()))
        for own_key, value in given.items():
            values.pop(own_key, None)
            if value is not None:
                shown = f"{table}.source.{name}.{own_key}"
                values[own_key] = checked(table, own_key, value, shown)
        rest = tuple(each for each in self.own if (each.table, each.name) != (table, name))
        own = Own(table=table, name=name, values=tuple(values.items()))
        return replace(self, own=(*rest, own) if values else rest)

    def policy(self, use_trash: bool = True) -> Policy:
        """Which sessions stay. The planner refuses an empty policy."""
        uncapped = replace(self.sessions, max_total_size_mb=0, max_count=0)
        return Policy(
            everywhere=self.sessions.limits(),
            # A source inherits the rules; the caps of [sessions] apply to all sources together.
            by_source={own.name: own.over(uncapped).limits() for own in self._own(SESSIONS)},
            pins=self.sessions.pins,
            trash_age=self.trash_days * DAY,
            use_trash=use_trash,
            trivial_max=self.sessions.trivial_max,
            leftovers=self._leftovers(),
        )

    def _leftovers(self) -> Mapping[str, Rules | None]:
        """Rules for leftovers by their source; those of [sessions] apply to every other one."""
        rules = {
            ANY_SOURCE: self.sessions.leftover_rules(),
            **{own.name: own.over(self.sessions).leftover_rules() for own in self._own(SESSIONS)},
        }
        return rules if any(rules.values()) else {}

    def files_policy(self) -> Policy:
        """Which sessions keep their files. If empty, maintenance leaves files alone."""
        return Policy(
            everywhere=self.sessions.file_limits(),
            by_source={
                own.name: own.over(self.sessions).file_limits() for own in self._own(SESSIONS)
            },
            pins=self.sessions.pins,
        )

    def auto_archive_policy(self) -> Policy:
        """Which sessions maintenance does not archive. If empty, it archives none."""
        return Policy(
            everywhere=self.sessions.archive_limits(),
            by_source={
                own.name: own.over(self.sessions).archive_limits() for own in self._own(SESSIONS)
            },
            pins=self.sessions.pins,
            trivial_max=self.sessions.trivial_max,
        )

    def gc_rules(self) -> GcRules:
        """What gc removes."""
        return self.sessions.gc_rules()

    def archive_policy(self, use_trash: bool = True) -> Policy:
        """What stays in the archive; empty if everything does."""
        return Policy(
            everywhere=self.archive.limits(), pins=self.sessions.pins, use_trash=use_trash
        )

    def vault_policy(self, use_trash: bool = True) -> Policy:
        """What stays in the vault; empty if everything does."""
        return Policy(everywhere=self.vault.limits(), pins=self.sessions.pins, use_trash=use_trash)

    def checkpoint_policy(
        self, *, use_trash: bool = True, keep_orphans: bool = False
    ) -> CheckpointPolicy:
        """Which checkpoints stay."""
        policy = self.checkpoints.policy(
            trash_age=self.trash_days * DAY, use_trash=use_trash, keep_orphans=keep_orphans
        )
        return replace(policy, max_count=self.max_snapshots or None)

    def capturing(self) -> Capturing:
        """What checkpoints capture, and the limits that apply while they are taken."""
        return replace(self.checkpoints.capturing(), max_snapshots=self.max_snapshots)

    @property
    def max_snapshots(self) -> int:
        """How many checkpoints each project keeps; 0 for no limit."""
        usual, connected = self.checkpoints.max_snapshots, self.hooks.max_snapshots
        if not self.connected or not usual:
            return usual
        return connected and max(usual, connected)

    def upkeep_fingerprint(self) -> str:
        """Equal for settings with which maintenance does the same."""
        # The origin of a value matters too: a default does not apply everywhere.
        said = [
            (path, value, self.is_in_file(*path))
            for path, value in self._values()
            if len(path) == 1 or path[0] in _UPKEEP
        ]
        from hashlib import sha256  # noqa: PLC0415 - slow to load, and only maintenance needs it

        return sha256(repr(said).encode()).hexdigest()[:16]

    def session_options(self) -> SessionOptions:
        """The lifecycle options of sessions."""
        named = ((DEFAULT_SOURCE, self.transcripts.default), *self.transcripts.by_source)
        return SessionOptions(
            limits=self.sessions.session_limits(),
            on_reset=OnReset(self.sessions.on_reset),
            idle_minutes=self.sessions.idle_minutes,
            transcripts={source: Transcript(transcript) for source, transcript in named},
            remove_after_delivery=self.cron.after_delivery == REMOVE,
            abandoned_after=self.sessions.abandoned_hours * HOUR,
        )

    def guard_options(self) -> GuardOptions:
        """What sessions may use. A source may be named before its first session exists."""
        # A source inherits the limits of a session; the daily ones of [guard] apply to all
        # together.
        undated = replace(self.guard, daily_tokens=0, daily_cost=0.0)
        return self.guard.options(
            {own.name: own.over(undated).budgets() for own in self._own(GUARD)}
        )

    def loop_rules(self) -> LoopRules:
        """The rules for agents that Holdfast is connected to."""
        return LoopRules(
            options=self.guard_options(),
            prices=self.prices(),
            project_daily_tokens=self.hooks.project_daily_tokens,
            project_daily_cost=self.hooks.project_daily_cost,
            blocks_on_failure=self.hooks.on_failure == BLOCK,
        )

    def prices(self) -> Prices:
        """The prices of tokens; empty unless prices are set."""
        lines: dict[str, dict[str, Any]] = {own.name: dict(own.values) for own in self._own(PRICES)}
        return Prices(by_model={model: Price(**line) for model, line in lines.items()})

    def _own(self, table: str) -> Iterator[Own]:
        return (own for own in self.own if own.table == table)

    def _values(self) -> Iterator[tuple[tuple[str, ...], Value | None]]:
        """All values, table by table; what a table sets for sources or models follows its own
        keys."""
        for table, keys in BY_TABLE.items():
            section = getattr(self, table, None) if table else self
            for each in keys.values():
                yield each.path, getattr(section, each.name)
            if table == TRANSCRIPTS:
                yield from (((table, name), value) for name, value in self.transcripts.by_source)
            within = () if table == PRICES else (SOURCE,)
            for own in self._own(table):
                for name, value in own.values:
                    yield (table, *within, own.name, name), value


BY_TABLE: dict[str, dict[str, Key]] = {
    TOP: keys_of(TopLevelSettings),
    SESSIONS: keys_of(SessionSettings, SESSIONS),
    TRANSCRIPTS: keys_of(TranscriptSettings, TRANSCRIPTS),
    "cron": keys_of(CronSettings, "cron"),
    "checkpoints": keys_of(CheckpointSettings, "checkpoints"),
    "maintenance": keys_of(MaintenanceSettings, "maintenance"),
    "store": keys_of(StoreSettings, "store"),
    "archive": keys_of(ArchiveSettings, "archive"),
    "guardian": keys_of(GuardianSettings, "guardian"),
    "vault": keys_of(VaultSettings, "vault"),
    "notify": keys_of(NotifySettings, "notify"),
    "mcp": keys_of(McpSettings, "mcp"),
    GUARD: keys_of(GuardSettings, GUARD),
    "hooks": keys_of(HookSettings, "hooks"),
    PRICES: {},
}
TABLES = tuple(table for table in BY_TABLE if table != TOP)
#: Every key, in display order.
KEYS = tuple(each for keys in BY_TABLE.values() for each in keys.values())
#: The keys that may be set for one source or one model, by the enclosing table.
OWN_KEYS = {
    table: {name: each for name, each in BY_TABLE[table].items() if each.per_source}
    for table in (SESSIONS, GUARD)
} | {PRICES: PRICE_KEYS}


def checked(table: str, name: str, value: object, shown: str | None = None) -> Any:
    """A value for a key, as a configuration file would have set it; raises UsageError if it is
    invalid."""
    try:
        return BY_TABLE[table][name].kind.read(value)
    except WrongValueError as error:
        raise UsageError(f"{shown or name}: {'; '.join(error.reasons)}.") from None


def build(given: Iterable[Given]) -> Settings:
    """The defaults with the `given` values applied; later ones win."""
    tables: dict[str, dict[str, Any]] = {table: {} for table in BY_TABLE}
    own: dict[tuple[str, str], dict[str, Value]] = {}
    origins: dict[str, str] = {}
    for item in given:
        origins[dotted(item.path)] = item.origin
        *within, name = item.path
        if len(within) > 1:
            own.setdefault((within[0], within[-1]), {})[name] = item.value
        else:
            tables[within[0] if within else TOP][name] = item.value
    transcripts = tables[TRANSCRIPTS]
    named = sorted(transcripts.keys() - {DEFAULT_SOURCE})
    transcripts["by_source"] = tuple((name, transcripts.pop(name)) for name in named)
    usual = Settings()
    sections = {
        table: replace(getattr(usual, table), **values)
        for table, values in tables.items()
        if table not in (TOP, PRICES)
    }
    return Settings(
        **tables[TOP],
        **sections,
        own=tuple(
            Own(
                table=table,
                name=name,
                values=tuple((each, values[each]) for each in OWN_KEYS[table] if each in values),
            )
            for (table, name), values in sorted(own.items())
        ),
        origins=MappingProxyType(origins),
    )
