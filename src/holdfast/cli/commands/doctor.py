"""`holdfast doctor`: checks whether everything in a home is in order, and advises what to do if
not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import command
from holdfast.cli.homes import all_homes_option
from holdfast.cli.invocation import Invocation, here
from holdfast.cli.output import name, nothing_changed, print_json, say, styled, table
from holdfast.cli.progress import progress
from holdfast.cli.removal import asked, print_declined
from holdfast.errors import DamageError, DeclinedError, HoldfastError

if TYPE_CHECKING:
    from holdfast.api.home import Home
    from holdfast.api.values import Diagnosis
    from holdfast.model.checkup import Repair


_STYLES = {"ok": "green", "warning": "yellow", "broken": "bold red", "damage": "bold red"}


@command(example="holdfast doctor --all-homes\nholdfast doctor --home hermes --repair")
@click.option("--repair", is_flag=True, help="Repair what can be repaired, after a backup.")
@click.option("--dry-run", "-n", is_flag=True, help="With --repair, only show what it would do.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@all_homes_option()
def doctor(invocation: Invocation, *, repair: bool, dry_run: bool, yes: bool) -> int:
    """Check a home and say what to do: configuration, access, sessions, log, trash.

    The command reads every page and every message of the session store, its totals, its search
    index and every archived bundle. In a Hermes home it also reads Hermes's own config.yaml and
    .env, and says what is wrong in them. It tests the hook of each agent that is connected to
    the home: it runs the command that the agent starts, on a temporary project and home. It says
    what the hook blocked, and whether a tool would be blocked now. It only reads, so you need not
    close programs that use the home. The exit code is 5 when it finds damage, and 1 when a hook
    does not work.

    With --repair it asks, makes a backup next to the store, and repairs what it can: it gives you
    access to your files and nobody else, rebuilds the search index and the totals, and removes rows
    that belong to no session. It rebuilds a store with damaged pages from every row that can be
    read; close programs that use the store for that. It says what each session lost.
    """
    invocation.choose_to_examine()
    home, found = _examine(invocation)
    mended = None
    declined = None
    if repair and found.repairable and not dry_run:
        if not invocation.json:
            _show(found, repairing=True)
        declined = None if yes else _ask(found)
        if declined is None:
            with progress("repairing", changes=True) as shown:
                mended = home.repair(found, progress=shown)
            home, found = _examine(invocation)
    _tell(invocation, found, mended, shown=declined is not None, repair=repair)
    if dry_run and not invocation.json:
        would = (
            f"This would repair: {_checks(found)}." if found.repairable else "Nothing to repair."
        )
        if repair:
            say(would)
        nothing_changed()
    if declined is not None:
        return print_declined(declined)
    if found.damaged:
        return DamageError.exit_code
    return 0 if found.ok else HoldfastError.exit_code


def _examine(invocation: Invocation) -> tuple[Home, Diagnosis]:
    """Check the home, even if its settings are wrong or it is still empty. Returns it with the
    findings."""
    from holdfast.api.home import Home

    home = Home(invocation.place(invocation.home_path).checked())
    invocation.warn()
    project = here() or invocation.user_home
    hooks = invocation.machine.hook_setup(project=project, home=home.path)
    with progress("checking the home") as shown:
        return home, home.doctor(hooks=hooks, progress=shown)


def _checks(found: Diagnosis) -> str:
    return ", ".join(dict.fromkeys(finding.check for finding in found.repairable))


def _ask(found: Diagnosis) -> DeclinedError | None:
    return asked(
        f"Repair {_checks(found)}?",
        "changed",
        hint="Pass --yes to repair.",
        facts=["A backup is made first."],
    )


def _tell(
    invocation: Invocation, found: Diagnosis, mended: Repair | None, *, shown: bool, repair: bool
) -> None:
    """Report the findings, and what was repaired."""
    if invocation.json:
        document: dict[str, Any] = found.to_json()
        if repair:
            document["repair"] = mended.to_json() if mended else None
        print_json(document)
        return
    if mended is not None:
        _show_repair(mended)
    if not shown:
        lost = mended is not None and bool(mended.losses)
        _show(found, lost=lost, repairing=repair and mended is None)


def _show(found: Diagnosis, *, lost: bool = False, repairing: bool = False) -> None:
    """Show the findings. While `repairing`, the advice to repair is left out."""
    rows = table("check", "result", "found", whole=("check", "result"))
    for finding in found.findings:
        word = finding.severity.value
        rows.add_row(finding.check, styled(word, style=_STYLES[word]), name(finding.message))
    say(rows)
    say()
    told = [each for each in found.findings if not (repairing and each.repairable)]
    advice = dict.fromkeys(finding.advice for finding in told if finding.advice)
    for line in advice:
        say(name(line))
    if lost and not found.damaged:
        say("The home works again, except for what is listed as lost above.")
        say("The backup holds the store as it was.")
    elif not advice and not (repairing and found.repairable):
        say("Damage was found." if found.damaged else "No problems were found.")


def _show_repair(mended: Repair) -> None:
    say()
    for step in mended.steps:
        say(name(f"Done: {step}."))
    for loss in mended.losses:
        say(name(f"Lost: {loss.describe()}.", "bold red"))
    if mended.backup:
        say(name(f"Backup: {Path(mended.backup)}"))
    say()
