"""What a scheduler of the system is to run: maintenance of one home, or the watch over all.

`holdfast maintain --install` and `--uninstall` have the system run it. Both show it first."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from holdfast.cli.invocation import Invocation
from holdfast.cli.output import print_json, say
from holdfast.cli.removal import asked, print_declined
from holdfast.value import dataclass

SCHEDULERS = ("systemd", "cron", "launchd")
#: A daily timer is never exact: without this it would come a moment too soon every other day.
EARLY = "2h"
TIMEOUT = 60
_ID_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something that a scheduler runs: maintenance of `home` once a day, or all homes when it is
    None. `id` is that of the home."""

    home: Path | None
    id: str
    words: tuple[str, ...]

    def command(self, *more: str) -> tuple[str, ...]:
        # -P: a file called holdfast.py, wherever the scheduler runs this, is not meant.
        return (sys.executable, "-P", "-m", "holdfast", *self.words, *more)

    @property
    def daily(self) -> tuple[str, ...]:
        """For a scheduler that starts it once a day."""
        every = () if self.home is not None else ("--all-homes",)
        return self.command(*every, "--early", EARLY)

    @property
    def standing(self) -> tuple[str, ...]:
        """For a scheduler that keeps it running."""
        return self.command("--watch")

    @property
    def described(self) -> str:
        return "the homes of all agents" if self.home is None else str(self.home)

    @property
    def share(self) -> int:
        """A number from the home's name: it spreads the homes of a machine over the night."""
        return int(self.id, 16)


def job_of(home: Path | None) -> Job:
    name = "" if home is None else str(home)
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    words = ("maintain",) if home is None else ("--home", name, "maintain")
    return Job(home=home, id=digest[:_ID_LENGTH], words=words)


def way_back(invocation: Invocation, scheduler: str) -> str:
    """The command that takes the job away again."""
    return f"holdfast {invocation.home_flag}maintain --uninstall {scheduler}"


class Scheduler(Protocol):
    """One way to have a job run."""

    def show(self) -> None:
        """What would be written, and where."""

    def install(self) -> int:
        """Write it and turn it on; the exit code."""

    def show_removal(self) -> bool:
        """What would be taken away; False when there is nothing."""

    def uninstall(self) -> int:
        """Turn it off and take it away; the exit code."""

    def document(self) -> dict[str, Any]:
        """All of that as JSON."""


def failure(command: list[str]) -> str | None:
    """What went wrong when a command was run, if anything did."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT)
    except FileNotFoundError:
        return f"there is no `{command[0]}` here"
    except (OSError, subprocess.SubprocessError) as error:
        return f"`{' '.join(command)}` failed: {error}"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return f"`{' '.join(command)}` failed: {said[0]}"


def install(invocation: Invocation, name: str, *, dry_run: bool, yes: bool) -> int:
    """For the named home maintenance once a day. With none, the watch over all homes."""
    scheduler = _scheduler(invocation, name)
    if not invocation.json:
        scheduler.show()
    declined = _declined(invocation, scheduler, "installed", dry_run=dry_run, yes=yes)
    if declined is not None:
        return declined
    code = scheduler.install()
    _document(invocation, scheduler, installed=code == 0)
    return code


def uninstall(invocation: Invocation, name: str, *, dry_run: bool, yes: bool) -> int:
    """Take away what `install` wrote for the same home, or for all of them."""
    scheduler = _scheduler(invocation, name)
    if not scheduler.show_removal():
        _document(invocation, scheduler, installed=False)
        if not invocation.json:
            say("There is nothing to remove.")
        return 0
    declined = _declined(invocation, scheduler, "removed", dry_run=dry_run, yes=yes)
    if declined is not None:
        return declined
    code = scheduler.uninstall()
    _document(invocation, scheduler, installed=code != 0)
    return code


def _declined(
    invocation: Invocation, scheduler: Scheduler, done: str, *, dry_run: bool, yes: bool
) -> int | None:
    """The exit code when nothing is to be changed; None to go on."""
    question = "Install this?" if done == "installed" else "Remove this?"
    declined = None if dry_run or yes else asked(question, done)
    if not dry_run and declined is None:
        return None
    _document(invocation, scheduler, installed=done == "removed")
    if declined is not None:
        return print_declined(declined)
    if not invocation.json:
        say("Nothing was changed.")
    return 0


def _scheduler(invocation: Invocation, name: str) -> Scheduler:
    chosen = invocation.chosen_home
    # A home or a configuration that is wrong would never run.
    job = job_of(None if chosen is None else invocation.open_place(chosen).home.root)
    if name == "systemd":
        from holdfast.cli.job_files import Systemd

        return Systemd(job, invocation)
    if name == "launchd":
        from holdfast.cli.job_files import Launchd

        return Launchd(job, invocation)
    from holdfast.cli.cron_job import Cron

    return Cron(job, invocation)


def _document(invocation: Invocation, scheduler: Scheduler, *, installed: bool) -> None:
    if invocation.json:
        print_json({"installed": installed, **scheduler.document()})
