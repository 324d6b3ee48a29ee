"""One run of the command: its common flags, its home, its settings, the clock."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import NotAHomeError, UsageError

if TYPE_CHECKING:
    from holdfast.config import Settings
    from holdfast.homes.holdfast import HoldfastHome
    from holdfast.ports import Home

DEFAULT_HOME = ".holdfast"
HomeT = TypeVar("HomeT", bound="Home")


def quoted(path: Path) -> str:
    """A path as a word of a suggested command: no space splits it, no dash makes it a flag."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


@dataclass
class Invocation:
    """What the common flags say. Everything costly is made when it is first asked for."""

    args: tuple[str, ...] = ()
    home: Path | None = None
    json: bool = False
    debug: bool = False
    _homes: list[Home] = field(default_factory=list)

    @cached_property
    def now(self) -> float:
        """One moment for the whole run, so that all its parts agree."""
        return time.time()

    @property
    def clock(self) -> Callable[[], float]:
        return time.time

    def moment(self, text: str) -> float:
        """The time that a flag names: a duration ago, or a date in local time."""
        from holdfast.model.units import parse_moment

        local = datetime.now().astimezone().tzinfo
        return parse_moment(text, now=self.now, local=local)

    @cached_property
    def user_home(self) -> Path:
        try:
            return Path.home()
        except RuntimeError as error:
            raise UsageError(
                "Cannot find your home directory.", hint="Set HOME, or pick a home with --home."
            ) from error

    @cached_property
    def chosen_home(self) -> Path | None:
        """The home that was named by flag or environment, if one was."""
        named = self.home or os.environ.get("HOLDFAST_HOME")
        try:
            return Path(named).expanduser() if named else None
        except RuntimeError as error:
            raise UsageError(
                f"{named}: there is no such user, or its home directory is not known.",
                hint="Write the whole path, or ./~name for a folder of that name.",
            ) from error

    @cached_property
    def home_path(self) -> Path:
        return self.chosen_home or self.user_home / DEFAULT_HOME

    @property
    def home_flag(self) -> str:
        """What a suggested command needs so that it works on the same home."""
        return f"--home {quoted(self.home)} " if self.home is not None else ""

    @property
    def command_line(self) -> str:
        """The command as the log records it: what it does, not on which home or how it prints."""
        words = list(self.args)
        while "--home" in words:
            del words[(at := words.index("--home")) : at + 2]
        noise = ("--json", "--debug", "--yes", "-y")
        kept = [w for w in words if w not in noise and not w.startswith("--home=")]
        return shlex.join(kept)

    def settings(self, home: Path) -> Settings:
        """The settings of a home; raises `ConfigError` when anything in them is wrong."""
        from holdfast import config
        from holdfast.cli.output import note

        for warning in config.warnings(os.environ):
            note(f"warning: {warning}")
        return config.load(self.config_file(home), os.environ)

    def config_file(self, home: Path | None = None) -> Path:
        """Where the settings of a home are, or would be; by default those of the chosen one."""
        from holdfast.homes.registry import config_file

        return config_file(home or self.home_path)

    @cached_property
    def named_homes(self) -> Mapping[str, Path]:
        """Homes of other agents that the environment names, by kind."""
        from holdfast.homes.registry import kinds

        named = {
            kind.name: os.environ.get(kind.environment) for kind in kinds() if kind.environment
        }
        return {name: Path(place).expanduser() for name, place in named.items() if place}

    def open_home(self, path: Path | None = None) -> tuple[Home, Settings]:
        """Open a home, by default the chosen one, with its settings."""
        from holdfast.homes.options import HomeOptions
        from holdfast.homes.registry import check_folder, open_home

        try:
            root = check_folder(path or self.home_path)
        except NotAHomeError as error:
            raise (self._suggest_other(error) if path is None else error) from None
        settings = self.settings(root)
        home = open_home(root, clock=self.clock, options=HomeOptions.of(settings))
        return self.closing(home), settings

    def closing(self, home: HomeT) -> HomeT:
        """The same home, to be closed by `close`."""
        self._homes.append(home)
        return home

    def close(self) -> None:
        """Close every home that was opened. What was done is on the disk by now, so a home that
        cannot be closed changes nothing."""
        while self._homes:
            with contextlib.suppress(Exception):
                self._homes.pop().close()

    def _suggest_other(self, error: NotAHomeError) -> NotAHomeError:
        """Nobody named a home and the usual one is not there: another agent's may be meant."""
        from holdfast.homes.registry import kind_of, usual_places

        if self.chosen_home is None:
            for place in usual_places(self.user_home, self.named_homes):
                kind = kind_of(place) if place.is_dir() else None
                if kind is not None:
                    hint = f"For the home of {kind.agent}, add --home {quoted(place)}."
                    return NotAHomeError(error.message, hint=hint)
        return error

    def create_home(self) -> HoldfastHome:
        """The chosen home as one of ours; it is made when there is none."""
        from holdfast.homes.registry import create_home

        create_home(self.home_path)
        # Whatever is wrong in them is said before anything is made.
        settings = self.settings(self.home_path)
        from holdfast.homes.holdfast import HoldfastHome
        from holdfast.homes.options import HomeOptions

        options = HomeOptions.of(settings)
        home = HoldfastHome(self.home_path.resolve(), clock=self.clock, options=options)
        return self.closing(home)
