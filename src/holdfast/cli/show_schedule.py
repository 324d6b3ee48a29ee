"""`holdfast maintain --install` and `--uninstall`: the system's scheduler runs maintenance. Both
show what they will do first."""

from __future__ import annotations

import shlex
from typing import Any

from holdfast.api.schedulers.crontab import NoCrontabError
from holdfast.api.schedulers.schedule import Schedule, Scheduled
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, note, print_json, say
from holdfast.cli.removal import asked, print_declined
from holdfast.cli.streams import write


def install(invocation: Invocation, scheduler: str, *, dry_run: bool, yes: bool) -> int:
    """Schedule daily maintenance of the named home or, if none is named, the watch over all
    homes."""
    schedule = _planned(invocation, scheduler)
    if not invocation.json:
        _show(schedule)
    declined = _declined(invocation, schedule, "installed", dry_run=dry_run, yes=yes)
    if declined is not None:
        return declined
    try:
        done = schedule.install()
    except NoCrontabError as error:
        note(error.message)
        note(error.hint or "")
        _document(invocation, schedule, installed=False)
        return error.exit_code
    _tell_installed(invocation, schedule, done)
    turned_on = done.problem is None
    _document(invocation, schedule, installed=True, turned_on=turned_on)
    return 0


def uninstall(invocation: Invocation, scheduler: str, *, dry_run: bool, yes: bool) -> int:
    """Remove what `install` wrote for the same home, or for all of them."""
    schedule = _planned(invocation, scheduler)
    found = schedule.installed()
    if not found:
        _document(invocation, schedule, installed=False)
        if not invocation.json:
            say("There is nothing to remove.")
        return 0
    for each in found:
        note(f"Removes {each}." if schedule.files else f"Removes this line of your crontab: {each}")
    declined = _declined(invocation, schedule, "removed", dry_run=dry_run, yes=yes)
    if declined is not None:
        return declined
    done = schedule.uninstall()
    problem = done.problem
    _tell_kept(done)
    if problem is None:
        note("Removed.")
    else:
        note(f"warning: {problem}")
        note("The files were removed. A process that still runs ends when you log out.")
    _document(invocation, schedule, installed=False)
    return 0


def _planned(invocation: Invocation, scheduler: str) -> Schedule:
    chosen = invocation.chosen_home
    # With a broken home or configuration, it would never run successfully.
    home = None if chosen is None else invocation.open_place(chosen).home.root
    return invocation.machine.plan_schedule(scheduler, home=home)


def _show(schedule: Schedule) -> None:
    if schedule.line is not None:
        say("A line of your crontab:")
        write(f"\n{schedule.line}\n\n")
    there = schedule.installed() if schedule.files else ()
    for path, content in schedule.files.items():
        again = " (replaces the one that is there)" if str(path) in there else ""
        say(name(f"{path}{again}", "bold"))
        write(content.decode() + "\n")


def _declined(
    invocation: Invocation, schedule: Schedule, done: str, *, dry_run: bool, yes: bool
) -> int | None:
    """The exit code if nothing is to be changed; None to continue."""
    question = "Install this?" if done == "installed" else "Remove this?"
    declined = None if dry_run or yes else asked(question, done)
    if not dry_run and declined is None:
        return None
    _document(invocation, schedule, installed=done == "removed")
    if declined is not None:
        return print_declined(declined)
    if not invocation.json:
        say("Nothing was changed.")
    return 0


def _tell_kept(done: Scheduled) -> None:
    for path in done.kept:
        note(
            f"The file that was there had other content than Holdfast writes; it is kept as {path}."
        )


def _tell_installed(invocation: Invocation, schedule: Schedule, done: Scheduled) -> None:
    _tell_kept(done)
    if schedule.line is not None:
        note(f"Installed{', replacing an earlier one' if done.replaced else ''}.")
    elif done.problem is None:
        note(f"Installed: {schedule.name} is enabled.")
    else:
        note(f"warning: {done.problem}")
        note("It is written, but not enabled yet. Enable it with:")
        for words in schedule.turn_on:
            note(f"  {shlex.join(words)}")
    if schedule.advice:
        note(schedule.advice)
    note("To remove it again:")
    note(f"  holdfast {invocation.home_flag}maintain --uninstall {schedule.scheduler}")


def _document(
    invocation: Invocation, schedule: Schedule, *, installed: bool, turned_on: bool = False
) -> None:
    if not invocation.json:
        return
    document: dict[str, Any] = {"installed": installed, "scheduler": schedule.scheduler}
    if schedule.line is not None:
        document["line"] = schedule.line
    else:
        document["files"] = [
            {"path": str(path), "content": content.decode()}
            for path, content in schedule.files.items()
        ]
        document["turned_on"] = turned_on
        document["turn_on"] = [shlex.join(words) for words in schedule.turn_on]
    print_json({**document, "take_away": list(schedule.take_away)})
