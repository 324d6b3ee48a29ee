"""Maintenance that a scheduler of the system starts: systemd, cron or launchd.

`Machine.plan_schedule` makes a `Schedule`. It shows what would be written, writes it, and takes it
away again.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.stores.files import read_file, replace, storage_errors
from holdfast.value import dataclass

#: Daily timers are not exact: without this, every other run would come a moment too early.
EARLY = "2h"
#: Timeout in seconds for a command of the scheduler.
TIMEOUT = 60
_ID_LENGTH = 12
#: In every file that we write for a scheduler.
MARK = b"Written by Holdfast (maintain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of a scheduler: maintenance of `home` once a day, or of all homes if `home` is None.
    `user_home` and `environ` belong to the user whose scheduler it is, and `program` is the
    command that starts Holdfast."""

    home: Path | None
    user_home: Path
    environ: Mapping[str, str]
    program: Sequence[str]

    @property
    def id(self) -> str:
        """Distinguishes the homes of a machine in file names and in a crontab."""
        name = "" if self.home is None else str(self.home)
        return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:_ID_LENGTH]

    @property
    def daily(self) -> tuple[str, ...]:
        """The command for a scheduler that starts it once a day."""
        every = () if self.home is not None else ("--all-homes",)
        return self._command(*every, "--early", EARLY)

    @property
    def standing(self) -> tuple[str, ...]:
        """The command for a scheduler that keeps it running."""
        return self._command("--watch")

    def _command(self, *flags: str) -> tuple[str, ...]:
        home = () if self.home is None else ("--home", str(self.home))
        return (*self.program, *home, "maintain", *flags)

    @property
    def described(self) -> str:
        return "the homes of all agents" if self.home is None else str(self.home)

    @property
    def is_usual(self) -> bool:
        """True if it maintains Holdfast's own home at its usual place."""
        return self.home == (self.user_home / ".holdfast").resolve()

    def at_night(self, hours: int = 6) -> tuple[int, int]:
        """Hour and minute of the daily run, derived from the id, so that the homes of a machine are
        spread over the night."""
        return divmod(int(self.id, 16) % (60 * hours), 60)

    def failure(self, command: Sequence[str]) -> str | None:
        """Run a command, and return why it failed; None if it did not."""
        environ = dict(self.environ)
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=TIMEOUT, env=environ
            )
        except FileNotFoundError:
            return f"there is no `{command[0]}` here"
        except (OSError, subprocess.SubprocessError) as error:
            return f"`{shlex.join(command)}` failed: {error}"
        if done.returncode == 0:
            return None
        said = done.stderr.strip().splitlines() or [f"it exited with code {done.returncode}"]
        return f"`{shlex.join(command)}` failed: {said[0]}"


def this_program() -> tuple[str, ...]:
    """The command that starts this Holdfast."""
    # -P: do not import a holdfast.py from the directory in which the scheduler runs this.
    return (sys.executable, "-P", "-m", "holdfast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """The result of installing or removing. `problem` is why a command of the scheduler failed;
    `replaced` is True if there was an earlier entry. `kept` are the new paths of files of ours that
    had been changed: nothing else has the changes."""

    problem: str | None = None
    replaced: bool = False
    kept: Sequence[str] = ()


class Schedule(ABC):
    """One job and its scheduler. Constructing it reads and writes nothing."""

    scheduler: str
    #: The job's name in the scheduler, and advice for the user after it is installed.
    name = ""
    advice = ""
    #: The files of systemd and launchd, and the line of a crontab.
    files: Mapping[Path, bytes] = {}
    line: str | None = None
    #: The commands that turn it on, and the shell lines that remove everything by hand.
    turn_on: Sequence[Sequence[str]] = ()
    take_away: Sequence[str] = ()

    @abstractmethod
    def install(self) -> Scheduled:
        """Write it, and turn it on."""

    @abstractmethod
    def installed(self) -> Sequence[str]:
        """What is installed and would be removed: file paths, or lines of the crontab."""

    @abstractmethod
    def uninstall(self) -> Scheduled:
        """Turn it off, and remove it."""


class FileSchedule(Schedule):
    """A job as files in a folder of the user, with the commands that turn it on and off."""

    turn_off: Sequence[str]

    def __init__(self, job: Job, files: Mapping[Path, bytes]) -> None:
        self._job = job
        self.files = files

    def install(self) -> Scheduled:
        replaced = bool(self.installed())
        kept: list[str] = []
        for path, content in self.files.items():
            with storage_errors(f"write {path}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                kept += self._kept_aside(path)
                replace(path, content)
        problem = next(filter(None, map(self._job.failure, self.turn_on)), None)
        return Scheduled(problem=problem, replaced=replaced, kept=kept)

    def installed(self) -> Sequence[str]:
        """Raises if somebody else wrote a file with one of our names: nothing may be turned off,
        replaced or removed then."""
        found = [path for path in self.files if os.path.lexists(path)]
        for path in found:
            with storage_errors(f"read {path}"):
                is_ours = not path.is_symlink() and path.is_file() and self.wrote(read_file(path))
            if not is_ours:
                raise StorageError(
                    f"{path} was not written by Holdfast, so it was left alone.",
                    hint="Move it away or rename it if you want Holdfast to have this name, then "
                    "run the command again.",
                )
        return [str(path) for path in found]

    def uninstall(self) -> Scheduled:
        self.installed()
        # Turn it off first: a job without its file runs until the user stops it.
        problem = self._job.failure(self.turn_off)
        kept: list[str] = []
        for path in self.files:
            with storage_errors(f"remove {path}"):
                kept += self._kept_aside(path)
                path.unlink(missing_ok=True)
        return Scheduled(problem=problem, kept=kept)

    def wrote(self, content: bytes) -> bool:
        """True if Holdfast wrote a file: its mark is in it."""
        return MARK in content

    def _kept_aside(self, path: Path) -> Sequence[str]:
        """Copy a file that is not what would be written now: the user may have changed it. No
        scheduler reads files with such a name."""
        if not path.exists():
            return ()
        content = read_file(path)
        if content == self.files[path]:
            return ()
        names = (path.with_name(f"{path.name}.kept-{number}") for number in count(1))
        aside = next(each for each in names if not os.path.lexists(each))
        replace(aside, content)
        return (str(aside),)

    def by_hand(self) -> Sequence[str]:
        files = [f"./{path}" if str(path).startswith("-") else str(path) for path in self.files]
        return [shlex.join(self.turn_off), shlex.join(["rm", *files])]
