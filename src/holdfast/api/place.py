"""A home as its callers opened it: its folder, its configuration, its clock and the command.

Every part of the API works on a `Place`. It opens the home on first use, so a caller
that only takes a checkpoint never opens a database.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from holdfast.config import NOTES, VARIABLE_PREFIX
from holdfast.config import is_default as is_unconfigured
from holdfast.errors import ClosedError, ConfigError, NotAHomeError, StorageError, UsageError
from holdfast.homes.kind import KIND, LOG, OWN, open_own
from holdfast.homes.options import UNCONFIGURED, USUAL, HomeOptions
from holdfast.homes.registry import (
    agent_at,
    agent_named,
    check_folder,
    config_file,
    create_home,
    create_state,
    folder_in_variable,
    kind_of,
    kinds,
    open_home,
    similar_name,
    state_folder,
    usual_places,
)
from holdfast.homes.registry import find_home as find_home  # noqa: PLC0414 - for the command
from holdfast.model.arguments import StrPath, checked_clock, expanded
from holdfast.model.checkpoint import BY_DEFAULT, CONNECTED_BY_DEFAULT, Capturing
from holdfast.stores.files import make_private_dir, read_file, storage_errors, write_new
from holdfast.value import replace

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.config.settings import Settings
    from holdfast.homes.holdfast import HoldfastHome
    from holdfast.model.checkup import Finding
    from holdfast.policy.prices import Prices
    from holdfast.ports.home import Home
    from holdfast.ports.runs import Clock


def system_clock() -> float:
    """The time, for a host that passes no clock."""
    return time.time()  # noqa: TID251 - the edge of the library


def usual_homes(
    user_home: Path, environ: Mapping[str, str], listed: Sequence[str] | None = None
) -> list[Path]:
    """The places where homes of agents may be: their usual folders below the home directory, the
    folders in environment variables, homes inside these, such as profiles, and those listed in the
    configuration: `listed`, if the caller has read them already."""
    named = {kind.name: folder_in_variable(kind, environ) for kind in kinds()}
    found = usual_places(
        user_home, {name: expanded(place) for name, place in named.items() if place}
    )
    real = {os.path.realpath(each) for each in found}
    more = listed_homes(user_home, environ) if listed is None else listed
    return [*found, *(Path(each) for each in more if os.path.realpath(each) not in real)]


def listed_homes(user_home: Path, environ: Mapping[str, str]) -> Sequence[str]:
    """The list `homes` in the configuration of Holdfast's own home; empty if the configuration is
    wrong, which is reported when that home is opened."""
    path = (
        expanded(folder_in_variable(OWN, environ) or user_home / OWN.default_folder) / "config.toml"
    )
    if not environ.get(f"{VARIABLE_PREFIX}HOMES"):
        try:  # few users list homes, and loading all settings takes longer than listing sessions
            if b"homes" not in read_file(path):
                return ()
        except OSError:
            return ()
    from holdfast.config.reader import load  # noqa: PLC0415 - as in `Place.settings`

    try:
        return load(path, environ).homes
    except (ConfigError, StorageError):
        return ()


def usual_places_of(user_home: Path, environ: Mapping[str, str]) -> Mapping[str, Path]:
    """The folder that each agent's name stands for, as in `find_home`."""
    return {
        kind.name: expanded(folder_in_variable(kind, environ) or user_home / kind.default_folder)
        for kind in kinds()
    }


def is_home(path: Path) -> bool:
    """True if a folder is a home of any agent, or cannot be read and so may be one."""
    try:
        return path.is_dir() and kind_of(path) is not None
    except (OSError, StorageError):
        return True


def checkpoints_to_import(
    named: Path | None, environ: Mapping[str, str]
) -> tuple[Path, Path | None]:
    """The home that `Home.import_checkpoints` should import from, and the directory to import, or
    None for all. `named` is such a home, a directory that Hermes took checkpoints of, or None."""
    if named is not None:
        with storage_errors(f"read {named}"):
            kind = kind_of(named) if named.is_dir() else None
        if kind is not None and kind.import_checkpoints is not None:
            return named, None
    usual = find_home("hermes", environ)
    if named is not None and not os.path.lexists(usual):
        raise UsageError(
            f"{named} is not a Hermes home, and there is none at {usual} either.",
            hint="Name a Hermes home: `holdfast checkpoints import PATH`.",
        )
    return usual, named


def has_own_home(path: Path) -> bool:
    """True if a folder is a home of Holdfast's own, with checkpoints in it."""
    with suppress(OSError):
        kind = kind_of(path) if (path / "checkpoints").is_dir() else None
        return kind is not None and kind.name == KIND
    return False


class Place:
    """One home as a caller opened it. Constructing a `Place` reads and creates nothing."""

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock | None = None,
        command: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.clock: Clock = system_clock if clock is None else checked_clock(clock)
        self._command = command
        self._environ = environ or {}
        self._homes: list[Home] = []
        self._opened: Home | None = None
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    def need_open(self) -> None:
        """Raise `ClosedError` after `close`."""
        if self._closed:
            raise ClosedError(
                f"{self.root} was closed.", hint="Open it again with `holdfast.open(path)`."
            )

    def checked(self) -> Place:
        """This place, with the real path of its folder; raises `NotAHomeError` if there is no
        home."""
        self.root = check_folder(self.root)
        return self

    @cached_property
    def settings(self) -> Settings:
        """The settings. Raises `ConfigError` when anything in config.toml is wrong."""
        # Slow to import, because it declares every key; a take without a configuration needs none.
        from holdfast.config.reader import load  # noqa: PLC0415

        return load(self.config_file, self._environ)

    def check_settings(self) -> None:
        """Raise `ConfigError` when anything in the configuration is wrong."""
        if not self.is_default():
            _ = self.settings

    def overrides(self, variable: str) -> bool:
        """True if this variable outranks config.toml."""
        return bool(self._environ.get(variable))

    def is_default(self) -> bool:
        """True if nothing is configured: then the settings need not be loaded."""
        return "settings" not in self.__dict__ and is_unconfigured(self.config_file, self._environ)

    # Most homes are not configured: for those, the next three methods do not load the settings.

    def capturing(self) -> Capturing:
        """What checkpoints capture, and the limits that apply while they are taken."""
        if not self.is_default():
            return self.settings.capturing()
        return CONNECTED_BY_DEFAULT if (self.root / NOTES).is_dir() else BY_DEFAULT

    def options(self) -> HomeOptions:
        """The options with which the home is opened."""
        return UNCONFIGURED if self.is_default() else HomeOptions.of(self.settings)

    def prices(self) -> Prices:
        """What tokens cost."""
        from holdfast.policy.prices import Prices  # noqa: PLC0415 - no take needs it

        return Prices() if self.is_default() else self.settings.prices()

    @property
    def config_file(self) -> Path:
        """Where the configuration is, or would be."""
        return config_file(self.root)

    @property
    def state(self) -> Path:
        """The folder for Holdfast's own files: the home itself, or a folder in the home of another
        agent."""
        self.need_open()
        return state_folder(self.root)

    def command(self, name: str) -> str:
        """The command of an operation in the log: the caller's text, or else the method's name."""
        return self._command or name

    @property
    def home(self) -> Home:
        """The opened home. Raises `NotAHomeError` if there is none."""
        if self._opened is None:
            self._opened = self.another()
        return self._opened

    def another(self, change: Callable[[HomeOptions], HomeOptions] = lambda same: same) -> Home:
        """Open the home once more, with changed options. `close` closes it too."""
        self.need_open()
        options = change(self.options())
        home = open_home(self.root, clock=self.clock, options=options)
        self._homes.append(home)
        return home

    def close_one(self, home: Home) -> None:
        """Close a home that `another` opened, and forget it."""
        if home in self._homes:
            self._homes.remove(home)
            home.close()

    def to_examine(self) -> tuple[Home, Finding]:
        """Open the home for a check-up, and return it with the finding about its configuration. It
        opens even if the configuration is wrong, and even if the folder is empty."""
        from holdfast.model.checkup import Finding, Severity  # noqa: PLC0415

        self.need_open()
        finding, options = Finding(check="configuration"), USUAL
        try:
            options = self.options()
        except (ConfigError, StorageError) as error:
            finding = Finding(
                check="configuration",
                severity=Severity.WARNING,
                message=error.message,
                advice="Until it is fixed, the home cannot be used. "
                "`holdfast config check` lists every line that is wrong.",
            )
        home: Home
        try:
            home = open_home(self.root, clock=self.clock, options=replace(options, idle=USUAL.idle))
        except NotAHomeError:
            if any(self.root.iterdir()) or agent_at(self.root) is not None:
                raise
            home = open_own(self.root, self.clock)
        self._homes.append(home)
        return home, finding

    def create(self) -> None:
        """Create the home if it does not exist. Another agent's home is not changed."""
        self.need_open()
        with storage_errors(f"read {self.root}"):
            kind = kind_of(self.root) if self.root.is_dir() else None
        if kind is not None and kind.name != KIND:
            return
        create_home(self.root)
        self.root = self.root.resolve()
        if kind is None:  # otherwise the folder stays empty, and the next caller finds no home
            with storage_errors(f"create {self.root / LOG}"):
                make_private_dir(self.root / LOG)

    def create_own(self) -> None:
        """Create a Holdfast home if there is none. Raises `NotAHomeError` for a home of another
        agent."""
        self.need_open()
        create_home(self.root)
        self.create()

    def create_state(self) -> Path:
        """Create the folder for Holdfast's own files, and the home if it does not exist."""
        self.need_open()
        return create_state(self.root).resolve()

    def create_config(self) -> Path:
        """Write a config.toml that has every key with its default as a comment. The home is created
        if it does not exist. Raises `UsageError` if the file exists, and leaves it alone."""
        from holdfast.config.template import template  # noqa: PLC0415

        path = self.config_file
        self.create_state()
        with storage_errors(f"write {path}"):
            try:
                write_new(path, template().encode())
            except FileExistsError:
                raise UsageError(
                    f"{path} already exists; it was left alone.",
                    hint="`holdfast config check` checks it; `holdfast config show` explains it.",
                ) from None
        return path

    def own(self, change: Callable[[HomeOptions], HomeOptions] = lambda same: same) -> HoldfastHome:
        """Open the home once more, to write sessions. Only Holdfast's own homes allow that."""
        from holdfast.homes.holdfast import HoldfastHome  # noqa: PLC0415

        home = self.another(change)
        if not isinstance(home, HoldfastHome):
            raise UsageError(
                f"{self.root} is a home of kind {home.kind}: only its agent writes sessions there.",
                hint="Nothing was touched. Write your own sessions to a Holdfast home.",
            )
        return home

    def close(self) -> None:
        """Close every home that was opened. All changes are on the disk already, so errors while
        closing are ignored."""
        self._closed = True
        self._opened = None
        while self._homes:
            with suppress(Exception):
                self._homes.pop().close()


def warn_of_unknown(environ: Mapping[str, str] | None) -> None:
    """Log the caller's variables that look like settings of Holdfast but are not."""
    if not environ or not any(name.startswith(VARIABLE_PREFIX) for name in environ):
        return
    import logging  # noqa: PLC0415 - a take does not need it

    from holdfast.config.reader import warnings  # noqa: PLC0415 - as in `Place.settings`

    for each in warnings(environ):
        logging.getLogger("holdfast").warning("%s", each)


def open_place(
    path: StrPath,
    *,
    create: bool = False,
    clock: Clock | None = None,
    command: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Place:
    """Open the place that a path or an agent's name means, and check that there is a home with a
    valid configuration."""
    root = find_home(path, environ)
    place = Place(root, clock=clock, command=command, environ=environ)
    if create:
        place.create()
    try:
        place.checked()
    except NotAHomeError as error:
        if os.path.lexists(root):
            raise
        kind = agent_named(path)
        if kind is not None and kind.name != KIND:
            raise NotAHomeError(
                f"There is no home of {kind.agent} here: nothing is at {root}.",
                hint=f"{kind.agent} makes its home when it first runs. If that is in another "
                "folder, open that folder.",
            ) from None
        if kind is None and (near := similar_name(path)) is not None:
            error.hint = f"Did you mean {near!r}? {error.hint or ''}".rstrip()
        raise
    place.check_settings()
    _ = place.home
    return place
