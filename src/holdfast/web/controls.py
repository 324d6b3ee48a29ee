"""The policy as controls: the settings of a clean-up, their current values, and what the user
typed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from holdfast.api.cleanup import Cleanup, TrashUse, Trial
from holdfast.config.kinds import Value, dotted
from holdfast.config.settings import BY_TABLE
from holdfast.errors import UsageError
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.config.settings import Settings

#: Separates a home from its key, for a key that applies to one home only where all are planned
#: together.
OF_HOME = ":"
#: What the user types to turn a time limit off; an empty field leaves it unchanged.
_OFF = "off"
_TITLES = {
    Cleanup.SESSIONS: "Old sessions",
    Cleanup.SMALL: "Small sessions",
    Cleanup.CHECKPOINTS: "Checkpoints",
    Cleanup.ARCHIVE: "Archive",
}
_COMMANDS = {
    Cleanup.SESSIONS: "sessions prune",
    Cleanup.SMALL: "sessions gc",
    Cleanup.CHECKPOINTS: "checkpoints prune",
    Cleanup.ARCHIVE: "sessions prune --archived",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of a control: its key, its texts, and the range of its slider."""

    key: str
    label: str
    unit: str
    slider: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A control as it is shown. `usual` is the value in config.toml, `value` the current one, both
    as a user types them. `kind` is "number", "text" or "flag"."""

    name: str
    label: str
    unit: str
    about: str
    kind: str
    usual: str
    value: str
    slider: int = 0
    more: bool = False

    @property
    def changed(self) -> bool:
        return self.value not in ("", self.usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Controls of one source, or of one home if all are planned together."""

    name: str
    label: str
    controls: Sequence[Control]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The parsed content of an address or a form. `home` is the slug of one home, "" for all."""

    what: Cleanup
    home: str
    trash: TrashUse
    typed: dict[str, str]

    @property
    def title(self) -> str:
        return _TITLES[self.what]

    @property
    def command(self) -> str:
        """The command name in the log."""
        return _COMMANDS[self.what]

    def trial(self, slug: str, settings: Settings) -> Trial:
        """What to try in one home: the typed values that differ from its own settings."""
        usual = _usual(settings)
        wanted: dict[str, str] = {}
        for name, text in self.typed.items():
            of, mark, key = name.partition(OF_HOME)
            value = "" if text == _OFF else text
            if not mark and value != usual.get(name):
                wanted.setdefault(name, value)
            elif mark and of == slug:  # takes precedence over what is typed for all
                wanted[key] = value
        return Trial(what=self.what, changes=wanted, trash=self.trash)

    def query(self, **other: str) -> str:
        """The same as the query string of an address."""
        return urlencode({**self.fields(), **other})

    def fields(self) -> Mapping[str, str]:
        """The same as the fields of a form."""
        said = {"home": self.home, "what": self.what.value, "trash": self.trash.value}
        return said | self.typed


def _keeps(table: str, *, yearly: bool = True) -> Sequence[Setting]:
    each = "project" if table == "checkpoints" else "source"
    periods = ("hour", "day", "week", "month", *(("year",) if yearly else ()))
    return (
        Setting(f"{table}.keep_last", "Keep the newest", f"of each {each}"),
        Setting(f"{table}.keep_within", f"Keep {table} within", "of the newest", more=True),
        *(
            Setting(
                f"{table}.keep_{'dai' if period == 'day' else period}ly",
                f"Keep one of each {period}",
                f"for this many {period}s",
                more=True,
            )
            for period in periods
        ),
    )


SETTINGS: Mapping[Cleanup, Sequence[Setting]] = {
    Cleanup.SESSIONS: (
        Setting("sessions.retention_days", "Keep sessions used within", "days", slider=365),
        Setting("sessions.max_total_size_mb", "Cap on size", "MB"),
        Setting("sessions.max_count", "Cap on number", "sessions"),
        *_keeps("sessions"),
        Setting("sessions.leftovers_retention_days", "Remove leftovers after", "days", more=True),
    ),
    Cleanup.SMALL: (
        Setting("sessions.empty_hours", "Remove empty sessions after", "hours", slider=336),
        Setting("sessions.trivial_days", "Remove trivial sessions after", "days", slider=90),
        Setting("sessions.trivial_max", "Trivial is at most", "messages"),
        Setting("sessions.keep_titled", "Keep sessions with a title", ""),
    ),
    Cleanup.CHECKPOINTS: (
        Setting("checkpoints.retention_days", "Keep projects used within", "days", slider=90),
        Setting("checkpoints.max_snapshots", "Cap on number", "of each project"),
        Setting("checkpoints.max_total_size_mb", "Cap on size", "MB"),
        Setting("checkpoints.delete_orphans", "Remove those of deleted directories", ""),
        *_keeps("checkpoints", yearly=False),
    ),
    Cleanup.ARCHIVE: (
        Setting("archive.retention_days", "Keep items archived within", "days", slider=3_650),
        Setting("archive.max_total_size_mb", "Cap on size", "MB"),
    ),
}
#: The keys that a source, or a home, may set for itself in the table of caps.
_OF_ROW = ("retention_days", "max_total_size_mb", "max_count")


def read_asked(fields: Mapping[str, Sequence[str]]) -> Asked:
    """Parse the fields of an address or a form. Only keys of that clean-up count."""
    one = {name: values[-1].strip() for name, values in fields.items() if values}
    try:
        what = Cleanup(one.get("what") or Cleanup.SESSIONS)
        trash = TrashUse(one.get("trash") or TrashUse.RULES)
    except ValueError as error:
        raise UsageError(f"This page cannot do that: {error}.") from None
    known = {each.key for each in SETTINGS[what]}
    typed = {
        name: text
        for name, text in one.items()
        if text and (_plain(name) in known or _plain(name).startswith("sessions.source."))
    }
    return Asked(what=what, home=one.get("home", ""), trash=trash, typed=typed)


def _plain(name: str) -> str:
    return name.partition(OF_HOME)[2] or name


def shown(value: Value | None) -> str:
    """A value as a user types it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def controls(asked: Asked, homes: Sequence[Settings]) -> Sequence[Control]:
    """The controls of one home, or of several: where their values differ, the control is "", which
    leaves each home its own value."""
    values = [_usual(each) for each in homes]

    def common(key: str) -> str:
        found = {each[key] for each in values}
        return found.pop() if len(found) == 1 else ""

    return [
        _control(each, each.key, common(each.key), asked.typed) for each in SETTINGS[asked.what]
    ]


def of_sources(asked: Asked, settings: Settings, sources: Iterable[str]) -> Sequence[Row]:
    """The controls of each source of a home."""
    if asked.what is not Cleanup.SESSIONS:
        return ()
    usual = _usual(settings)
    own = {each.name for each in settings.own if each.table == "sessions"}
    return [
        Row(
            name=source,
            label=source,
            controls=[
                _control(each, name, usual.get(name, ""), asked.typed)
                for each, key in _of_row(asked)
                for name in [dotted(("sessions", "source", source, key))]
            ],
        )
        for source in sorted({*sources, *own})
    ]


def of_homes(asked: Asked, homes: Sequence[tuple[str, str, Settings]]) -> Sequence[Row]:
    """The controls of each home, if all are planned together: slug, label and settings."""
    return [
        Row(
            name=slug,
            label=label,
            controls=[
                _control(each, f"{slug}{OF_HOME}{each.key}", usual.get(each.key, ""), asked.typed)
                for each, _ in _of_row(asked)
            ],
        )
        for slug, label, settings in homes
        for usual in [_usual(settings)]
    ]


def _of_row(asked: Asked) -> Sequence[tuple[Setting, str]]:
    named = [(each, each.key.rpartition(".")[2]) for each in SETTINGS[asked.what]]
    return [(each, key) for each, key in named if key in _OF_ROW]


def _usual(settings: Settings) -> Mapping[str, str]:
    return {key: shown(value) for key, value, _ in settings.entries()}


def _control(setting: Setting, name: str, usual: str, typed: Mapping[str, str]) -> Control:
    table, _, key = setting.key.rpartition(".")
    declared = BY_TABLE[table][key]
    kind = "flag" if isinstance(declared.default, bool) else "number"
    if isinstance(declared.default, str):
        kind = "text"
    return Control(
        name=name,
        label=setting.label,
        unit=setting.unit,
        about=" ".join(declared.about),
        kind=kind,
        usual=usual,
        value=typed.get(name, ""),
        slider=setting.slider,
        more=setting.more,
    )
