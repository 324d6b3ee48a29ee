"""Read single settings, and change config.toml: one key, several, or the whole text."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.api.agent_home import looks_like_pattern
from holdfast.api.place import Place, is_home
from holdfast.config.kinds import Value, dotted, nearest
from holdfast.config.reader import key_kind, problems_in, value_of
from holdfast.config.set_key import with_value
from holdfast.config.settings import KEYS, TABLES
from holdfast.config.toml_document import LARGEST, Problem, key_path, read_document
from holdfast.config.toml_document import UnreadableError as Unreadable
from holdfast.errors import ConfigError, StorageError, UsageError
from holdfast.homes.kind import LOG
from holdfast.model.arguments import expanded
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.stores.lock import exclusive
from holdfast.value import dataclass, field

_WAIT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A key with the value in effect and the origin of that value."""

    key: str
    value: Value | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfigChange:
    """New text for config.toml, checked as a whole. `before` is the text it was made from."""

    place: Place = field(repr=False)
    file: Path
    before: str | None
    after: str

    def apply(self) -> None:
        """Write the text atomically, and only if the file still contains `before`."""
        if self.after == self.before:
            return
        self.place.create_state()
        file = self.file.resolve()  # a symlink stays a symlink
        with storage_errors(f"write {self.file}"):
            make_private_dir(self.place.state / LOG)
            lock = self.place.state / LOG / "lock"
            with exclusive(lock, holder="config set", wait=_WAIT):
                if text_of(self.file) != self.before:
                    raise StorageError(
                        f"{self.file} changed in the meantime; it was left alone.",
                        hint="Try again.",
                    )
                mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else None
                replace(file, self.after.encode())
                if mode is not None:
                    os.chmod(file, mode)  # noqa: PTH101 - the mode it had


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SettingChange:
    """One key set in config.toml. `old` is the value in effect before, with its origin.
    `outranked_by` is the environment variable that still overrides the file."""

    key: str
    old: Setting | None
    value: object
    change: ConfigChange
    outranked_by: str | None = None

    @property
    def changes_nothing(self) -> bool:
        return self.change.after == self.change.before


def settings_of(place: Place, names: Sequence[str] = ()) -> Sequence[Setting]:
    """Return all settings in effect, or only those of the named sections and keys."""
    found = [
        Setting(key=key, value=value, origin=origin)
        for key, value, origin in place.settings.entries()
    ]
    if not names:
        return found
    wanted: list[Setting] = []
    for name in names:
        mine = [each for each in found if each.key == name or each.key.startswith(f"{name}.")]
        if not mine and name not in TABLES:
            raise _unknown(name)
        wanted += mine
    return wanted


def setting(place: Place, name: str) -> Setting:
    """Return one setting in effect. A key of a source or a model that is not set has no value."""
    path = _path(name)
    key = dotted(path)
    for each in settings_of(place):
        if each.key == key:
            return each
    key_kind(path)
    return Setting(key=key, value=None, origin="default")


def plan_set(place: Place, name: str, values: Sequence[str]) -> SettingChange:
    """Plan a new value for one key. Raises `UsageError` for an unknown key or a wrong value, and
    `ConfigError` if anything else in the file is wrong."""
    path = _path(name)
    value = value_of(path, values)
    change = _plan_keys(place, {path: value})
    variable = next((key.variable for key in KEYS if key.path == path), None)
    outranked = variable if variable is not None and place.overrides(variable) else None
    return SettingChange(
        key=dotted(path), old=_old(place, path), value=value, change=change, outranked_by=outranked
    )


def plan_several(place: Place, given: Mapping[str, str]) -> ConfigChange:
    """Plan new values for several keys, as one change. Raises like `plan_set`."""
    paths = {_path(name): typed for name, typed in given.items()}
    return _plan_keys(place, {path: value_of(path, [typed]) for path, typed in paths.items()})


def _plan_keys(place: Place, values: Mapping[tuple[str, ...], object]) -> ConfigChange:
    file = place.config_file
    before = text_of(file)
    text = before or ""
    wrong = {(each.path, each.what): each for each in problems_in(text, file.name)}
    for each in wrong.values():
        if not each.path:  # the file is not TOML, so none of its keys can be set
            raise _refused([each])
    for path, value in values.items():
        text = with_value(text, path, value)
    # Report a problem that existed before with its old line number: a new key moves other lines.
    left = [wrong.get((each.path, each.what), each) for each in problems_in(text, file.name)]
    if left:
        raise _refused(left)
    return plan_text(place, text, before=before)


def _refused(problems: Sequence[Problem]) -> ConfigError:
    return ConfigError(
        "\n".join(map(str, problems)),
        hint="Nothing was changed. To correct it yourself: holdfast config edit",
    )


def plan_text(place: Place, text: str, *, before: str | None) -> ConfigChange:
    """Plan new text for the whole file. Raises `ConfigError` with everything wrong in it."""
    file = place.config_file
    problems = problems_in(text, file.name)
    if len(text.encode()) > LARGEST:
        raise UsageError("The configuration would be larger than 1 MiB.")
    if problems:
        raise _refused(problems)
    return ConfigChange(place=place, file=file, before=before, after=text)


def doubtful_homes(homes: Iterable[str]) -> Sequence[str]:
    """Return warnings about the places that `homes` lists. They are not errors: a place may be on a
    disk that is not mounted."""
    found = []
    for each in homes:
        path = expanded(each)
        if not path.exists():
            pattern = " Only paths work here, not patterns." if looks_like_pattern(each) else ""
            found.append(f"{each} does not exist.{pattern}")
        elif not is_home(path):
            found.append(f"{each} is not the home of an agent that Holdfast knows.")
    return found


def text_of(file: Path) -> str | None:
    """Return the text of a configuration file, or None if there is no file."""
    try:
        document = read_document(file, file.name)
    except Unreadable as error:
        if error.problem.line is None:
            raise ConfigError(str(error.problem)) from None
        # It is text, but not TOML: the user can correct it by hand.
        return read_file(file).decode("utf-8", "strict")
    return document.text if document.text or file.exists() else None


def _old(place: Place, path: tuple[str, ...]) -> Setting | None:
    """The setting so far, or None if the configuration is invalid: then nothing was in effect."""
    try:
        return setting(place, dotted(path))
    except ConfigError:
        return None


def _path(name: str) -> tuple[str, ...]:
    path = key_path(name)
    if path is None:
        raise UsageError(
            f"{name!r} is not the name of a key.",
            hint="Keys look like sessions.retention_days: `holdfast config show` lists them.",
        )
    return path


def _unknown(name: str) -> UsageError:
    near = nearest(name, TABLES)
    also = f"Did you mean {near!r}? " if near else ""
    return UsageError(
        f"There is no section {name!r} in the configuration.",
        hint=f"{also}The sections are {', '.join(TABLES)}.",
    )
