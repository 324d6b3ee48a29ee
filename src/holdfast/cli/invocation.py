"""One run of the command line: its common flags, its home, its settings, the clock."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from holdfast.config import variables
from holdfast.errors import COMMAND_FLAG, HoldfastError, NotAHomeError, UsageError
from holdfast.value import dataclass, field

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.archive import ArchivedSessions
    from holdfast.api.capture import Capture
    from holdfast.api.checkpoints import Checkpoints
    from holdfast.api.home import Home
    from holdfast.api.machine import Machine
    from holdfast.api.place import Place
    from holdfast.api.retention import SessionRetention
    from holdfast.api.undo import OperationUndo
    from holdfast.model.plan import Plan
    from holdfast.model.report import Report

DEFAULT_HOME = ".holdfast"
OWN_NAME = "holdfast"
#: Characters that have no special meaning in any shell.
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_"


def quoted(path: Path | str) -> str:
    """A path as a word of a suggested command, so that no space splits it and no dash makes it a
    flag."""
    word = f"./{path}" if str(path).startswith("-") else str(path)
    if word and not word.strip(_PLAIN):
        return word  # most are, and `shlex` is slow to load
    import shlex

    return shlex.quote(word)


@dataclass(frozen=True, slots=True)
class Later:
    """A plan that was shown, and what carries it out and returns the exit code."""

    plan: Plan
    run: Callable[[], int]


@dataclass
class Invocation:
    """The common flags. Everything costly is created on first use."""

    args: tuple[str, ...] = ()
    home: str | None = None
    agent: str | None = None
    json: bool = False
    quiet: bool = False
    debug: bool = False
    #: For a command over several homes: the plan and report of each, and which operation of each
    #: home an undo takes.
    together: list[tuple[Plan, Report | None]] | None = None
    undoes: Mapping[Path, str | None] | None = None
    #: In a command over several homes that asks once: what is left to do after a yes.
    later: list[Later] | None = None
    #: If a command runs in several homes: those in which maintenance does not prune sessions.
    unpruned: list[Path] | None = None
    _places: list[Place] = field(default_factory=list)

    @cached_property
    def now(self) -> float:
        """One moment for the whole run, so that all its parts agree."""
        return time.time()

    @property
    def clock(self) -> Callable[[], float]:
        return time.time

    def moment(self, text: str) -> float:
        """The time in a flag: a duration ago, or a date in local time."""
        from datetime import datetime

        from holdfast.model.durations import parse_moment

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
        """The home that was named by flag or environment, if any: by its path, or by the name of
        its agent. For an agent with only one home on this machine, that home."""
        if self.agent is not None:
            return self._home_of_agent(self.agent)
        named = self.home or os.environ.get("HOLDFAST_HOME")
        if not named:
            return None
        from holdfast.api.place import find_home

        # The variable itself may be "holdfast", which then means the usual place.
        others = {} if self.home is None and named == OWN_NAME else os.environ
        return self._labelled(named, find_home(named, others))

    def _labelled(self, named: str, found: Path) -> Path:
        """A home elsewhere, by the label that `status` shows, or by the name of its agent if that
        has no home at its usual place."""
        agent = named.partition("/")[0]
        if agent == OWN_NAME or not agent.replace("-", "_").isidentifier():
            return found
        from holdfast.api.place import is_home

        if is_home(found):
            return found
        homes = [each for each in self.machine.homes if named in (each.label, each.agent)]
        if not homes:
            return found
        if len(homes) > 1:
            raise UsageError(
                "\n  ".join([f"{named!r} could be any of these homes:", *_listed(homes)]),
                hint=f"Pick one by its path: --home {quoted(homes[0].path)}",
            )
        self.home = homes[0].name
        return homes[0].path

    def _home_of_agent(self, agent: str) -> Path | None:
        if self.home is not None:
            raise UsageError(
                "--home and --agent contradict each other.",
                hint="--home names one home, --agent all homes of an agent.",
            )
        homes, unread = self.machine.homes, self.machine.unread
        if not homes and not unread:
            raise NotAHomeError(
                f"There is no home of {agent} here.",
                hint="`holdfast status` lists the homes on this machine.",
            )
        if len(homes) != 1 or unread:
            return None
        self.home = homes[0].name
        return homes[0].path

    @cached_property
    def home_path(self) -> Path:
        if self.chosen_home is None and self.agent is not None:
            self.choose_one()
        return self.chosen_home or self.user_home / DEFAULT_HOME

    @property
    def home_flag(self) -> str:
        """The flag that a suggested command needs to work on the same home."""
        return f"--home {quoted(self.home)} " if self.home is not None else ""

    @property
    def one_home_flag(self) -> str:
        """The same for a command that works on one home only, such as `undo`. Checkpoints and
        settings are those of the usual home when none is named; where there are several homes,
        `undo` has to be told. One that a first checkpoint made a moment ago counts too."""
        takes_usual = self.home is None and "home_path" in self.__dict__
        if not takes_usual or self.chosen_home is not None:
            return self.home_flag
        machine = self.make_machine()
        several = len(machine.homes) + len(machine.unread) > 1
        return f"--home {OWN_NAME} " if several else ""

    @property
    def undo_command(self) -> str:
        """The command that undoes what this command is about to do."""
        if self.together is not None:
            return "holdfast undo --all-homes"
        return f"holdfast {self.one_home_flag}undo"

    @property
    def command_line(self) -> str:
        """The command as the log records it: what it does, not on which home or how it prints.
        After `--`, words that look like options, such as an id, are not options."""
        import shlex

        end = self.args.index("--") if "--" in self.args else len(self.args)
        words, rest = list(self.args[:end]), self.args[end:]
        for flag in ("--home", "--agent"):
            while flag in words:
                del words[(at := words.index(flag)) : at + 2]
        noise = ("--json", "--quiet", "-q", "--debug", "--yes", "-y", "--all-homes")
        kept = [w for w in words if w not in noise and not w.startswith(("--home=", "--agent="))]
        return shlex.join([*kept, *rest])

    def config_file(self) -> Path:
        """The path of the settings of the chosen home, whether or not they exist."""
        return self.place(self.home_path).config_file

    def place(self, root: Path) -> Place:
        """A folder as the place of a home. Nothing is read or created yet."""
        from holdfast.api.place import Place

        made = Place(root, clock=self.clock, command=self.command_line, environ=os.environ)
        self._places.append(made)
        return made

    def open_place(self, path: Path | None = None) -> Place:
        """The place of an existing home, by default the chosen one. Its settings are valid."""
        try:
            root = self.place(path or self.home_path).checked().root
        except NotAHomeError as error:
            if path is None:
                raise self._suggest_other(error) from None
            raise (self._suggest_near(error) if path == self.chosen_home else error) from None
        place = self.checked_place(root)
        _ = place.home  # errors are reported before anything is done
        return place

    def checked_place(self, root: Path) -> Place:
        """The same for a home that may be created later: its settings are valid."""
        place = self.place(root)
        self.warn()
        place.check_settings()
        return place

    def warn(self) -> None:
        """Warn about harmless mistakes in the environment."""
        if not variables(os.environ):
            return
        from holdfast.cli.output import note
        from holdfast.config.reader import warnings

        for warning in warnings(os.environ):
            note(f"warning: {warning}")

    # --- Which home: the one that was named, the one that has an id, or all -----------------------

    @cached_property
    def machine(self) -> Machine:
        """All homes of the user as one."""
        return self.make_machine()

    def make_machine(self, **other: Any) -> Machine:
        """The same with some arguments changed."""
        from holdfast.api.machine import Machine

        usual: dict[str, Any] = {
            "environ": os.environ,
            "overrides": os.environ,
            "clock": self.clock,
            "command": self.command_line,
            "agents": None if self.agent is None else (self.agent,),
        }
        return Machine(self.user_home, **usual | other)

    def several(self) -> Machine | None:
        """All homes, if none is named and there are several; None if one home is meant."""
        if self.chosen_home is not None:
            return None
        machine = self.machine
        if len(machine.homes) + len(machine.unread) > 1:
            self.warn()
            return machine
        if machine.unread:
            raise machine.unread[0].error
        for only in machine.homes:
            if only.path != self.home_path.resolve():
                self.choose(only)
        return None

    @property
    def several_homes(self) -> bool:
        """True if the home was picked from several, so that documents should name it."""
        return "machine" in self.__dict__ and len(self.machine.homes) > 1

    def choose(self, home: AgentHome) -> None:
        """Continue as if this home had been named; suggested commands name it."""
        self.home, self.chosen_home, self.home_path = home.name, home.path, home.path
        if COMMAND_FLAG.get() is not None:
            COMMAND_FLAG.set(self.home_flag)

    def choose_to_examine(self) -> None:
        """Like `choose_one`, but also accepts the only home if it cannot be read."""
        if self.chosen_home is None and not self.machine.homes and len(self.machine.unread) == 1:
            self.chosen_home = self.home_path = self.machine.unread[0].path
            self.home = str(self.home_path)
        self.choose_one()

    def choose_one(
        self, *, alone: bool = False, fits: Callable[[Home], bool] | None = None
    ) -> None:
        """Settle on one home to change: the named one, or the only one. Never guesses. What is
        meant for one home `alone`, such as the number of an operation, has no --all-homes. The
        command that is suggested names a home that it `fits`."""
        machine = self.several()
        if machine is None:
            return
        found = [each.label for each in machine.homes]
        found += [f"{each.path} (cannot be read)" for each in machine.unread]
        example = self._example(machine, fits)
        how = f", `holdfast --home {quoted(example)} {self.command_line}`" if example else ""
        every = "" if alone else ", or take all of them with --all-homes"
        raise UsageError(
            f"There are several homes here, and this command works on one: {', '.join(found)}.",
            hint=f"Pick one by its name or its path{how or ' with --home'}{every}.",
        )

    def _example(self, machine: Machine, fits: Callable[[Home], bool] | None) -> str | None:
        """The name of a home that the command could be meant for."""
        for each in machine.homes:
            with suppress(HoldfastError):
                if fits is None or fits(machine.open(each)):
                    return each.name
        return str(machine.unread[0].path) if fits is None and machine.unread else None

    def one_home(self, *, alone: bool = False, fits: Callable[[Home], bool] | None = None) -> Home:
        """Open the one home to change; see `choose_one`."""
        self.choose_one(alone=alone, fits=fits)
        return self.open_home()

    def choose_one_with(self, operations: Collection[str]) -> None:
        """Settle on one home to change, by operations with these numbers, if some are given."""

        def has_them(home: Home) -> bool:
            return {each.id for each in home.log.read().operations}.issuperset(operations)

        self.choose_one(alone=bool(operations), fits=has_them if operations else None)

    def operation_undo(self, operations: Collection[str]) -> OperationUndo:
        """Undoes and redoes in the one home to change, without the rest of a `Home`; see
        `choose_one_with`."""
        from holdfast.api.undo import OperationUndo

        self.choose_one_with(operations)
        return OperationUndo(self.open_place())

    def retention(self) -> SessionRetention:
        """The session retention of the one home to change, without the rest of a `Home`."""
        from holdfast.api.retention import SessionRetention

        self.choose_one()
        return SessionRetention(self.open_place())

    def archived(self) -> ArchivedSessions:
        """The archive of the one home to change, without the rest of a `Home`."""
        from holdfast.api.archive import ArchivedSessions

        self.choose_one()
        return ArchivedSessions(self.open_place())

    def home_of(self, session: str) -> Home:
        """Open the home that has a session; see `Machine.resolve`."""
        machine = self.several()
        if machine is None:
            return self.open_home()
        found = machine.resolve(session).home
        self.choose(found)
        return machine.open(found)

    def at(self, home: AgentHome) -> Invocation:
        """The same command on one of several homes."""
        made = Invocation(
            args=self.args,
            json=self.json,
            quiet=self.quiet,
            debug=self.debug,
            together=self.together,
            undoes=self.undoes,
            later=self.later,
            unpruned=self.unpruned,
            _places=self._places,
        )
        made.now = self.now
        made.choose(home)
        return made

    def open_home(self, path: Path | None = None) -> Home:
        """Open a home, by default the chosen one."""
        from holdfast.api.home import Home

        return Home(self.open_place(path))

    def create_home(self) -> Home:
        """The chosen home, as one of Holdfast's own; it is created if it does not exist."""
        from holdfast.api.home import Home

        place = self.place(self.home_path)
        place.create_own()
        self.warn()
        _ = place.settings
        return Home(place)

    def capture(self) -> Capture:
        """Takes checkpoints in the chosen home, which is created if it does not exist. Reads the
        settings first, and writes nothing to the log."""
        from holdfast.api.capture import Capture
        from holdfast.api.place import Place

        self.warn()
        place = Place(self.home_path, clock=self.clock, environ=os.environ)
        self._places.append(place)
        return Capture(place, here=here(), user_home=self.user_home)

    def checkpoints(self, *, may_be_new: bool = False) -> Checkpoints:
        """The checkpoints of the chosen home, as seen from the current directory. With
        `may_be_new`, the home need not exist yet."""
        from holdfast.api.checkpoints import Checkpoints

        place = self.checked_place(self.home_path) if may_be_new else self.open_place()
        return Checkpoints(place, here=here(), user_home=self.user_home)

    def own_checkpoints(self) -> Checkpoints | None:
        """The checkpoints in Holdfast's own home, where connected agents take theirs, whichever
        home was chosen; None if that home does not exist."""
        from holdfast.api.checkpoints import Checkpoints
        from holdfast.api.place import has_own_home

        root = self.user_home / DEFAULT_HOME
        return Checkpoints(self.place(root).checked()) if has_own_home(root) else None

    def close(self) -> None:
        """Close every home that was opened."""
        if "machine" in self.__dict__:
            self.machine.close()
        while self._places:
            self._places.pop().close()

    def _suggest_other(self, error: NotAHomeError) -> NotAHomeError:
        """The error if no home was named and the usual one does not exist: suggest another agent's
        home."""
        if self.chosen_home is None:
            for each in self.machine.homes:
                hint = f"For the home of {each.title}, add --home {quoted(each.name)}."
                return NotAHomeError(error.message, hint=hint)
        return self._suggest_near(error)

    def _suggest_near(self, error: NotAHomeError) -> NotAHomeError:
        """The name of an agent may be mistyped; then there is no folder of that name either."""
        from difflib import get_close_matches

        from holdfast.api.place import usual_places_of

        named = self.home or ""
        near = get_close_matches(named, usual_places_of(self.user_home, os.environ), n=1)
        if not near or named in near:
            return error
        return NotAHomeError(error.message, hint=f"Did you mean --home {near[0]}?")


def _listed(homes: Sequence[AgentHome]) -> list[str]:
    longest = max((len(each.label) for each in homes), default=0)
    return [f"{each.label:{longest}}  {each.path}" for each in homes]


def resolved(directory: str | None) -> Path:
    """The working directory that was named, by default the current one."""
    if directory == "":
        raise UsageError("The directory name is empty.")
    try:
        return (Path.cwd() if directory is None else Path(directory)).resolve()
    except FileNotFoundError:
        raise UsageError("The current directory is gone.", hint="Choose another one.") from None
    except (RuntimeError, OSError) as error:
        raise UsageError(f"Cannot resolve {directory}: {error}.") from None


def stored_text(text: str, what: str) -> str:
    """Text that a store can hold; command-line bytes that are not UTF-8 are refused."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} {text!r} is not valid UTF-8 text.") from None
    return text


def here() -> Path | None:
    """The current directory, if it still exists."""
    try:
        return Path.cwd().resolve()
    except OSError:
        return None
