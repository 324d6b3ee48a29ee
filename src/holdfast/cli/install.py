"""`holdfast maintain --install` and `--uninstall`: have the system run it. Shown first."""

from __future__ import annotations

from holdfast.cli.invocation import Invocation
from holdfast.cli.job import Scheduler, job_of
from holdfast.cli.output import print_json, say
from holdfast.cli.removal import asked, print_declined

SCHEDULERS = ("systemd", "cron", "launchd")


def install(invocation: Invocation, name: str, *, dry_run: bool, yes: bool) -> int:
    """For the named home maintenance once a day. With none, the watch over all homes."""
    scheduler = _scheduler(invocation, name)
    if not invocation.json:
        scheduler.show()
    agreed = dry_run or yes
    declined = _declined(invocation, scheduler, "installed", dry_run=dry_run, agreed=agreed)
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
    agreed = dry_run or yes
    declined = _declined(invocation, scheduler, "removed", dry_run=dry_run, agreed=agreed)
    if declined is not None:
        return declined
    code = scheduler.uninstall()
    _document(invocation, scheduler, installed=code != 0)
    return code


def _declined(
    invocation: Invocation, scheduler: Scheduler, done: str, *, dry_run: bool, agreed: bool
) -> int | None:
    """The exit code when nothing is to be changed; None to go on."""
    question = "Install this?" if done == "installed" else "Remove this?"
    declined = None if agreed else asked(question, done)
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
        from holdfast.cli.systemd_job import Systemd

        return Systemd(job, invocation)
    if name == "launchd":
        from holdfast.cli.launchd_job import Launchd

        return Launchd(job, invocation)
    from holdfast.cli.cron_job import Cron

    return Cron(job, invocation)


def _document(invocation: Invocation, scheduler: Scheduler, *, installed: bool) -> None:
    if invocation.json:
        print_json({"installed": installed, **scheduler.document()})
