"""`holdfast undo`: bring back what an operation removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import exit_code
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.api.home import UndoPlan
    from holdfast.api.plan import HomeReport
    from holdfast.model.plan import PlanItem
    from holdfast.model.report import Report
    from holdfast.spine.undo import Foreseen


@click.command(cls=Command, example="holdfast undo\nholdfast undo 12 --dry-run")
@click.argument("operation", required=False)
@click.option("--dry-run", "-n", is_flag=True, help="Show what would come back and stop there.")
@click.option("--all", "all_items", is_flag=True, help="List every item and path.")
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
    home = invocation.open_home()
    if dry_run:
        _show_preview(invocation, home.plan_undo(operation), all_items=all_items)
        return 0
    with progress(stoppable=True) as shown:
        if operation is None:
            done = home.undo_latest(progress=shown)
        else:
            done = home.undo(operation, progress=shown)
    return _tell(invocation, done, all_items=all_items)


def _tell(invocation: Invocation, done: HomeReport, *, all_items: bool) -> int:
    target, report = done.undone, done.report
    if target is None:
        raise UsageError("Say which operation to undo.")
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"undone": target.id, "applied": True, "report": report.to_json()})
    else:
        from holdfast.cli.output import name, say
        from holdfast.cli.show_plan import show_report

        say(name(f"Undoing operation {target.id}: {target.command}"))
        show_report(report, home_flag=invocation.home_flag)
        _show_changed(report, all_items=all_items)
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


def _show_preview(invocation: Invocation, planned: UndoPlan, *, all_items: bool) -> None:
    target, removals, foreseen = planned.operation, planned.removals, planned.foreseen
    if invocation.json:
        from holdfast.cli.output import print_json

        documents = [_preview_json(each.item, foreseen.get(each.key)) for each in removals]
        print_json({"undone": target.id, "applied": False, "items": documents})
        return
    for project in foreseen.values():
        _show_project(target.id, project, all_items=all_items)
    items = [each.item for each in removals if each.key not in foreseen]
    if items:
        _show_items(invocation, target.id, items, all_items=all_items)


def _show_items(
    invocation: Invocation, operation: str, items: list[PlanItem], *, all_items: bool
) -> None:
    from holdfast.cli.output import say
    from holdfast.cli.show_plan import amount, show_items
    from holdfast.model.plan import Action
    from holdfast.model.text import format_count

    if all(item.action is Action.END for item in items):
        what = f"reopen {format_count(len(items), 'session')}"
    else:
        what = f"bring back {amount(items)}"
    say(f"Undoing operation {operation} would {what}.")
    show_items(items, invocation.now, all_items=all_items)


def _show_project(operation: str, project: Foreseen, *, all_items: bool) -> None:
    """The files of a project that a restore changed: the same screen as that restore had."""
    from holdfast.cli.output import name, say
    from holdfast.cli.show_checkpoints import show_foreseen

    if project.preview is None:
        say(name(f"Undoing operation {operation} would fail: {project.problem}"))
        return
    written, deleted = len(project.preview.written), len(project.preview.deleted)
    say(
        name(
            f"Undoing operation {operation} would bring {project.workdir} back to how it was"
            f" before the restore: {written:,} written, {deleted:,} deleted.",
        )
    )
    show_foreseen(project.workdir, project.preview, all_items=all_items)


def _preview_json(item: PlanItem, project: Foreseen | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": item.kind,
        "id": item.id,
        "bytes": item.bytes,
        "reason": item.reason,
    }
    if project is None:
        return document
    from holdfast.cli.show_checkpoints import not_captured_json

    found = project.preview
    return document | {
        "workdir": project.workdir,
        "written": list(found.written) if found else [],
        "deleted": list(found.deleted) if found else [],
        "kept": not_captured_json(found.kept if found else ()),
        "problem": project.problem or None,
    }


def _show_changed(report: Report, *, all_items: bool) -> None:
    """Which files an undo of a restore wrote and deleted."""
    from holdfast.cli.output import name
    from holdfast.cli.show_checkpoints import show_paths

    for outcome in report.outcomes:
        for word, paths, style in (
            ("Written", outcome.written, "cyan"),
            ("Deleted", outcome.deleted, "red"),
        ):
            title = f"{word} ({len(paths):,})"
            show_paths(title, [name(path) for path in paths], style=style, all_items=all_items)
