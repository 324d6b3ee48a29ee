"""`holdfast undo`: bring back what an operation removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import exit_code
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.model.plan import PlanItem
    from holdfast.model.report import Report


@click.command(cls=Command, example="holdfast undo\nholdfast undo 12 --dry-run")
@click.argument("operation", required=False)
@click.option("--dry-run", "-n", is_flag=True, help="Show what would come back and stop there.")
@click.option("--all", "all_items", is_flag=True, help="With --dry-run, list every item.")
@click.pass_obj
def undo(invocation: Invocation, operation: str | None, *, dry_run: bool, all_items: bool) -> int:
    """Bring back what an operation removed, or reopen the sessions that it ended: by default, the
    latest one.

    Files come back to their places with their times and modes. Nothing is ever overwritten: where
    a place was taken again, the copy stays in the trash and the report says so; move the newer
    file away and undo once more. Undoing a checkpoint's restore leaves files that changed since,
    and names them. `holdfast log` lists the operations. What an agent did on its own is
    passed over unless you give its number: resets, limits, delivered cron sessions, sessions it
    ended as abandoned, checkpoints beyond their bounds.
    """
    from holdfast.services.undo import preview, undo_latest
    from holdfast.services.undo import undo as bring_back

    home, _ = invocation.open_home()
    if dry_run:
        target, removals = preview(home, operation)
        items = [removal.item for removal in removals]
        _show_preview(invocation, target.id, items, all_items=all_items)
        return 0
    with progress(stoppable=True) as shown:
        if operation is None:
            target, report = undo_latest(home, clock=invocation.clock, progress=shown)
        else:
            target, report = bring_back(home, operation, clock=invocation.clock, progress=shown)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"undone": target.id, "applied": True, "report": report.to_json()})
    else:
        from holdfast.cli.output import name, say
        from holdfast.cli.show_plan import show_report

        say(name(f"Undoing operation {target.id}: {target.command}"))
        show_report(report, home_flag=invocation.home_flag)
    return exit_code(report) or _in_part(report)


def _in_part(report: Report) -> int:
    """1 when a restore could be taken back only in part: some of its files changed since."""
    from holdfast.model.item import PROJECT
    from holdfast.model.report import Result

    left = (
        each.kind == PROJECT and each.result is Result.BROUGHT_BACK and each.reason
        for each in report.outcomes
    )
    return HoldfastError.exit_code if any(left) else 0


def _show_preview(
    invocation: Invocation, operation: str, items: list[PlanItem], *, all_items: bool
) -> None:
    from holdfast.cli.output import print_json, say

    if invocation.json:
        document = {
            "undone": operation,
            "applied": False,
            "items": [
                {"kind": item.kind, "id": item.id, "bytes": item.bytes, "reason": item.reason}
                for item in items
            ],
        }
        print_json(document)
        return
    from holdfast.cli.show_plan import amount, show_items
    from holdfast.model.plan import Action
    from holdfast.model.units import format_count

    if all(item.action is Action.END for item in items):
        what = f"reopen {format_count(len(items), 'session')}"
    else:
        what = f"bring back {amount(items)}"
    say(f"Undoing operation {operation} would {what}.")
    show_items(items, invocation.now, all_items=all_items)
