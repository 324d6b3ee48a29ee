"""`holdfast maintain --install`: have the system run maintenance every day. Shown first."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any, Protocol

import click

from holdfast.cli.errors import print_error
from holdfast.cli.invocation import Invocation
from holdfast.cli.removal import confirmed
from holdfast.errors import DeclinedError
from holdfast.value import dataclass

#: A daily timer is never exact: without this it would come a moment too soon every other day.
EARLY = "2h"
_ID_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Maintenance of one home, as something that a scheduler runs. `id` is the home's own."""

    home: Path
    id: str
    command: tuple[str, ...]

    @property
    def share(self) -> int:
        """A number from the home's name: it spreads the homes of a machine over the night."""
        return int(self.id, 16)


class Scheduler(Protocol):
    """One way to have a job run."""

    def show(self) -> None:
        """What would be written, and where."""

    def install(self) -> int:
        """Write it and turn it on; the exit code."""

    def document(self) -> dict[str, Any]:
        """All of that as JSON."""


def install(invocation: Invocation, name: str, *, dry_run: bool, yes: bool) -> int:
    home = invocation.open_place().home  # a home or a configuration that is wrong would never run
    scheduler = _scheduler(invocation, name, job_of(home.root))
    if not invocation.json:
        scheduler.show()
    declined = None if dry_run or yes else _ask()
    if dry_run or declined is not None:
        _document(invocation, scheduler, installed=False)
        if declined is not None:
            print_error(declined, as_json=False)
            return declined.exit_code
        return 0
    code = scheduler.install()
    _document(invocation, scheduler, installed=code == 0)
    return code


def job_of(home: Path) -> Job:
    digest = hashlib.sha256(str(home).encode("utf-8", "surrogateescape")).hexdigest()
    # -P: a file called holdfast.py, wherever the scheduler runs this, is not meant.
    command = (sys.executable, "-P", "-m", "holdfast", "--home", str(home), "maintain")
    return Job(home=home, id=digest[:_ID_LENGTH], command=(*command, "--early", EARLY))


def _scheduler(invocation: Invocation, name: str, job: Job) -> Scheduler:
    if name == "systemd":
        from holdfast.cli.install_systemd import Systemd

        return Systemd(job, invocation)
    from holdfast.cli.install_cron import Cron

    return Cron(job, invocation)


def _ask() -> DeclinedError | None:
    """None when a person said yes."""
    if not sys.stdin.isatty():
        return DeclinedError(
            "Nothing was installed: there is no terminal to ask on.",
            hint="Look at it with --dry-run, then pass --yes.",
        )
    click.echo(err=True)
    return None if confirmed("Install this?") else DeclinedError("Nothing was installed.")


def _document(invocation: Invocation, scheduler: Scheduler, *, installed: bool) -> None:
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"installed": installed, **scheduler.document()})
