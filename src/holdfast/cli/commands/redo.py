"""`holdfast redo`: repeat what was undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.commands.undo import Verb, choose_run
from holdfast.cli.completing import operations
from holdfast.cli.frame import command
from holdfast.cli.homes import all_homes_option
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, nothing_changed, print_json, say, suggest
from holdfast.cli.progress import progress
from holdfast.cli.removal import (
    RemovalFlags,
    applied_json,
    asked,
    exit_code,
    plan_by_number,
    print_declined,
    removal_options,
    remove,
    tell_finished,
)
from holdfast.cli.show_checkpoints import foreseen_json, show_foreseen
from holdfast.errors import DeclinedError, NothingToUndoError, UsageError
from holdfast.model.report import Result
from holdfast.model.text import format_count

if TYPE_CHECKING:
    from typing import Any

    from holdfast.api.redo import RedoPlan
    from holdfast.api.values import Foreseen
    from holdfast.model.report import Report


_REDO = Verb(
    do="redo",
    run="Redoing what the latest undo over several homes took back",
    did="undone",
    apart="The latest undos in these homes come from different runs.",
    alone="No undo over several homes is left to redo, only the undo of one home:",
)


def _choose_run(invocation: Invocation, *, how: RemovalFlags, **_: Any) -> int | None:
    """Which operation of each home `redo --all-homes` takes: those that one `undo --all-homes`
    undid."""
    found = invocation.machine.to_redo()
    return choose_run(invocation, found, _REDO, dry_run=how.dry_run, yes=how.yes)


@command(example="holdfast redo --all-homes --dry-run\nholdfast redo 12 --home codex --yes")
@click.argument("operation", required=False, shell_complete=operations)
@removal_options
@all_homes_option(_choose_run, operation="The number of an operation")
def redo(invocation: Invocation, operation: str | None, *, how: RemovalFlags) -> int:
    """Repeat an operation that was undone: by default, the one that was undone last.

    OPERATION is its number, or the number of its undo. The command shows what it will do and asks.
    It takes exactly what the undo brought back. An item that changed since, or that is in use,
    stays and is reported; restoring a checkpoint again leaves files that changed since. A redo has
    its own number in the log, and `holdfast undo` undoes it.

    With --all-homes it repeats what the latest `undo --all-homes` took back, in each home only what
    that undo brought back there.
    """
    home = invocation.operation_undo(() if operation is None else (operation,))
    if invocation.undoes is not None:
        operation = invocation.undoes.get(invocation.home_path)
        if operation is None:
            home.log.read()  # raises if the log cannot be read
            raise NothingToUndoError("That run has nothing to redo here; nothing was changed.")
    try:
        planned = plan_by_number(home, home.plan_redo, operation, dry_run=how.dry_run, yes=how.yes)
    except DeclinedError as declined:
        if invocation.json:
            raise
        return print_declined(declined)
    if not invocation.json:
        does = "This would redo" if how.dry_run else "Redoing"
        say(name(f"{does} operation {planned.operation.id}: {planned.command}"))
    if not planned.foreseen:
        return remove(invocation, planned.planned, how)
    return _restore(invocation, planned, how)


def _restore(invocation: Invocation, planned: RedoPlan, how: RemovalFlags) -> int:
    """Redo the restore of a checkpoint: it removes no item, but changes files of a project."""
    if not invocation.json:
        for project in planned.foreseen.values():
            _show(project, all_items=how.all_items)
    if how.plan_out is not None:
        raise UsageError("--plan-out saves what a plan removes; restoring files is not saved.")
    if how.dry_run:
        _document(invocation, planned, None)
        if not invocation.json:
            nothing_changed()
        return 0
    declined = None if how.yes else _ask(planned)
    if declined is not None:
        _document(invocation, planned, None)
        return print_declined(declined)
    with progress(stoppable=True) as shown:
        report = planned.apply(progress=shown).report
    _document(invocation, planned, report)
    if not invocation.json:
        _tell(invocation, report)
    if report.operation in report.settled:
        tell_finished([report.operation])
    return exit_code(report)


def _tell(invocation: Invocation, report: Report) -> None:
    written = sum(len(each.written) for each in report.outcomes)
    deleted = sum(len(each.deleted) for each in report.outcomes)
    say(f"{written:,} written, {deleted:,} deleted.")
    for each in report.outcomes:
        if each.reason:
            say(name(f"{each.reason[0].upper()}{each.reason[1:]}."))
    if report.count(Result.ROLLED_BACK):
        undo = f"holdfast {invocation.home_flag}undo {report.operation}"
        suggest("", "To undo this:", undo)


def _ask(planned: RedoPlan) -> DeclinedError | None:
    previews = [each.preview for each in planned.foreseen.values() if each.preview]
    written = sum(len(each.written) for each in previews)
    deleted = sum(len(each.deleted) for each in previews)
    gone = f", deleting {deleted:,} of them" if deleted else ""
    facts = [f"It changes {each.workdir}." for each in planned.foreseen.values()]
    facts.append("It can be undone.")
    paths = format_count(written + deleted, "path")
    return asked(f"Restore {paths} again{gone}?", "restored", facts=facts)


def _show(project: Foreseen, *, all_items: bool) -> None:
    if project.preview is None:
        say(name(f"{project.workdir} cannot be restored again: {project.problem}"))
        return
    show_foreseen(project.workdir, project.preview, all_items=all_items)


def _document(invocation: Invocation, planned: RedoPlan, report: Report | None) -> None:
    if invocation.json:
        projects = [foreseen_json(each) for each in planned.foreseen.values()]
        plan = planned.planned.plan.to_json()
        print_json({"plan": plan, "projects": projects, **applied_json(report)})
