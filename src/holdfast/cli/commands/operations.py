"""`holdfast apply`, `log`, `undo` and `trash`: plans carried out, and what was done to a home."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Command, Group, run_default
from holdfast.cli.homes import all_homes_option, each_home
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, note, print_json, say, styled, suggest, table, when
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, exit_code, removal_options, remove
from holdfast.cli.show_checkpoints import not_captured_json, show_foreseen, show_paths
from holdfast.cli.show_plan import amount, show_items, show_report
from holdfast.errors import DamageError, HoldfastError, UsageError
from holdfast.model.item import PROJECT
from holdfast.model.plan import Action
from holdfast.model.report import Result, archived_words
from holdfast.model.text import format_bytes, format_count

if TYPE_CHECKING:
    from holdfast.api.archive import Trash
    from holdfast.api.home import Home, UndoPlan
    from holdfast.api.plan import HomeReport
    from holdfast.api.values import Foreseen
    from holdfast.model.operation import LogView, Operation, TrashEntry
    from holdfast.model.plan import PlanItem
    from holdfast.model.report import Report


@click.command(
    cls=Command,
    example="holdfast sessions prune --plan-out plan.json\nholdfast apply plan.json",
)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--all", "all_items", is_flag=True, help="List every item with its reason.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", "-n", is_flag=True, help="Show the plan and stop there.")
@click.pass_obj
def apply(
    invocation: Invocation, plan_file: Path, *, all_items: bool, yes: bool, dry_run: bool
) -> int:
    """Apply a plan that --plan-out saved.

    Every item is checked again at the moment of removal: an item that changed or came into use
    since the plan was made is skipped and reported. A plan works only for its own home, and only
    as it was saved.
    """
    planned = _home_of_plan(invocation, plan_file).load_plan(plan_file)
    return remove(invocation, planned, RemovalFlags(dry_run=dry_run, yes=yes, all_items=all_items))


def _home_of_plan(invocation: Invocation, plan_file: Path) -> Home:
    """The home that was named, or the only one, or that for which the plan was made."""
    machine = invocation.several()
    if machine is None:
        return invocation.open_home()
    from holdfast.api.plan import planned_home

    root = planned_home(plan_file)
    for each in machine.homes:
        if each.path.resolve() == root:
            invocation.choose(each)
    return invocation.open_home(root)


@click.command(cls=Command, example="holdfast log\nholdfast log --limit 5 --json")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Show the latest N.",
)
@click.pass_obj
def log(invocation: Invocation, *, limit: int) -> int:
    """List operations, the latest first: what they removed, and what undo can bring back."""
    if (machine := invocation.several()) is not None:
        return each_home(
            invocation,
            machine.homes,
            lambda child, _: _log(child, limit=limit),
            unread=machine.unread,
        )
    return _log(invocation, limit=limit)


def _log(invocation: Invocation, *, limit: int) -> int:
    view = invocation.open_home().log.read()
    if invocation.json:
        print_json(
            {
                "operations": [each.to_json() for each in view.operations[::-1][:limit]],
                "problems": [{"path": p.path, "reason": p.reason} for p in view.problems],
            }
        )
    else:
        _show_log(view, limit)
    return DamageError.exit_code if view.problems else 0


def _show_log(view: LogView, limit: int) -> None:
    if not view.operations:
        say("The log is empty: Holdfast has not changed this home yet.")
    else:
        rows = table(
            "id",
            "when",
            "command",
            "did",
            "in trash",
            right=("id", "in trash"),
            whole=("when",),
            drops=("in trash",),
        )
        for operation in view.operations[::-1][:limit]:
            rows.add_row(
                operation.id,
                when(operation.started_at),
                name(operation.command),
                _did(operation),
                format_bytes(operation.trash_bytes) if operation.trash_bytes else "",
            )
        say(rows)
        hidden = len(view.operations) - limit
        if hidden > 0:
            say(styled(f"… and {hidden:,} older; --limit shows more.", style="dim"))
    for problem in view.problems:
        note(f"warning: damaged: {problem.reason}")


def _did(operation: Operation) -> str:
    """`412 removed, 3 skipped; undone`."""
    archived, files = operation.archived, operation.archived_files
    counts = (
        (archived, archived_words(archived, files)),
        (operation.removed - archived - files, "removed"),
        (operation.rolled_back, "rolled back"),
        (operation.ended, "ended as abandoned"),
        (operation.brought_back, "brought back"),
        (operation.skipped, "skipped"),
        (operation.failed, "failed"),
    )
    did = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing"
    state = operation.state.value
    return did if state == "done" else f"{did}; {state}"


@click.command(cls=Command, example="holdfast undo\nholdfast undo 12 --dry-run")
@click.argument("operation", required=False)
@click.option("--dry-run", "-n", is_flag=True, help="Show what would come back and stop there.")
@click.option("--all", "all_items", is_flag=True, help="List every item and path.")
@click.pass_obj
@all_homes_option(operation="The number of an operation")
def undo(invocation: Invocation, operation: str | None, *, dry_run: bool, all_items: bool) -> int:
    """Bring back what an operation removed, or reopen the sessions that it ended. The default is
    the latest operation.

    Files come back to their places with their times and modes. Nothing is ever overwritten: where
    a new file has the name of an old one, the old one stays in the trash and the report says so;
    move the new file away and undo again. Undoing the restore of a checkpoint leaves files that
    changed since, and names them. `holdfast log` lists the operations. Without a number, undo skips
    what agents did on their own: resets, limits, delivered cron sessions, sessions that ended as
    abandoned, checkpoints beyond their limits.
    """
    home = invocation.one_home()
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
        print_json({"undone": target.id, "applied": True, "report": report.to_json()})
    else:
        say(name(f"Undoing operation {target.id}: {target.command}"))
        show_report(report, home_flag=invocation.home_flag)
        _show_changed(report, all_items=all_items)
    return exit_code(report) or _in_part(report)


def _in_part(report: Report) -> int:
    """1 when a restore could be undone only in part: some of its files changed since."""
    left = (
        each.kind == PROJECT and each.result is Result.BROUGHT_BACK and each.reason
        for each in report.outcomes
    )
    return HoldfastError.exit_code if any(left) else 0


def _show_preview(invocation: Invocation, planned: UndoPlan, *, all_items: bool) -> None:
    target, removals, foreseen = planned.operation, planned.removals, planned.foreseen
    if invocation.json:
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
    if all(item.action is Action.END for item in items):
        what = f"reopen {format_count(len(items), 'session')}"
    else:
        what = f"bring back {amount(items)}"
    say(f"Undoing operation {operation} would {what}.")
    show_items(items, invocation.now, all_items=all_items)


def _show_project(operation: str, project: Foreseen, *, all_items: bool) -> None:
    """The files of a project that a restore changed: the same screen as that restore had."""
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
    for outcome in report.outcomes:
        for word, paths, style in (
            ("Written", outcome.written, "cyan"),
            ("Deleted", outcome.deleted, "red"),
        ):
            title = f"{word} ({len(paths):,})"
            show_paths(title, [name(path) for path in paths], style=style, all_items=all_items)


@click.group(
    cls=Group,
    invoke_without_command=True,
    example="holdfast trash list\nholdfast trash empty --older-than 2d",
)
@click.pass_context
def trash(ctx: click.Context) -> int | None:
    """See or empty what undo can bring back. Without a command, this is `trash list`."""
    return run_default(ctx, trash, "list") if ctx.invoked_subcommand is None else None


@trash.command("list", cls=Command, example="holdfast trash list --json")
@click.pass_obj
def list_trash(invocation: Invocation) -> int:
    """List what is in the trash, by the operation that put it there."""
    if (machine := invocation.several()) is not None:
        return each_home(
            invocation, machine.homes, lambda child, _: _list_trash(child), unread=machine.unread
        )
    return _list_trash(invocation)


def _list_trash(invocation: Invocation) -> int:
    trash = invocation.open_home().trash
    entries = trash.list()
    if invocation.json:
        print_json(
            {
                "trash": [
                    {
                        "operation": entry.removal.operation,
                        "kind": entry.removal.item.kind,
                        "id": entry.removal.item.id,
                        "session": entry.removal.item.session,
                        "bytes": entry.bytes,
                        "reason": entry.removal.item.reason,
                        "removed_at": entry.removed_at,
                        "expires_at": trash.expires_at(entry),
                    }
                    for entry in entries
                ],
                "bytes": sum(entry.bytes for entry in entries),
            }
        )
    else:
        _show_trash(invocation, trash, entries)
    return 0


def _show_trash(invocation: Invocation, trash: Trash, entries: Sequence[TrashEntry]) -> None:
    if not entries:
        say("The trash is empty.")
        return
    groups: dict[str, list[TrashEntry]] = defaultdict(list)
    for entry in entries:
        groups[entry.removal.operation].append(entry)
    rows = table(
        "operation",
        "removed",
        "goes after",
        "items",
        "size",
        right=("operation", "items", "size"),
        whole=("removed", "goes after"),
        drops=("removed",),
    )
    for operation, members in groups.items():
        rows.add_row(
            operation,
            when(members[0].removed_at),
            when(trash.expires_at(members[0])),
            f"{len(members):,}",
            format_bytes(sum(entry.bytes for entry in members)),
        )
    say(rows)
    say()
    total = format_bytes(sum(entry.bytes for entry in entries))
    flag = invocation.home_flag
    say(f"{format_count(len(entries), 'item')}, {total}. After that time, a prune removes them.")
    say("To undo an operation, or to free the space now:")
    suggest(f"holdfast {flag}undo OPERATION")
    suggest(f"holdfast {flag}trash empty")


@trash.command(
    "empty",
    cls=Command,
    example="holdfast trash empty\nholdfast trash empty 12 --yes",
)
@click.argument("operations", nargs=-1, metavar="[OPERATION]...")
@click.option("--older-than", metavar="WHEN", help="Only what was removed before: 2d, 2026-03-25.")
@removal_options
@click.pass_obj
@all_homes_option(operations="The number of an operation")
def empty(
    invocation: Invocation,
    operations: tuple[str, ...],
    *,
    older_than: str | None,
    how: RemovalFlags,
) -> int:
    """Empty the trash: of the given operations, or all of it. This cannot be undone."""
    planned = invocation.one_home().trash.plan_empty(operations, older_than=older_than)
    return remove(invocation, planned, how)
