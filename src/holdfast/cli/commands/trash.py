"""`holdfast trash`: what undo can still bring back, and giving its space away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command, Group, run_default
from holdfast.cli.invocation import Invocation
from holdfast.cli.removal import RemovalFlags, removal_options, remove

if TYPE_CHECKING:
    from holdfast.api.archive import Trash
    from holdfast.model.operation import TrashEntry


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
    trash = invocation.open_home().trash
    entries = trash.list()
    if invocation.json:
        from holdfast.cli.output import print_json

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
        _show(invocation, trash, entries)
    return 0


def _show(invocation: Invocation, trash: Trash, entries: Sequence[TrashEntry]) -> None:
    from holdfast.cli.output import say, suggest, table, when
    from holdfast.model.text import format_bytes, format_count

    if not entries:
        say("The trash is empty.")
        return
    groups: dict[str, list[TrashEntry]] = defaultdict(list)
    for entry in entries:
        groups[entry.removal.operation].append(entry)
    rows = table(
        "operation", "removed", "goes after", "items", "size", right=("operation", "items", "size")
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
    say(f"{format_count(len(entries), 'item')}, {total}. They go with the first prune after that.")
    say("To bring an operation back, or to free the space now:")
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
def empty(
    invocation: Invocation,
    operations: tuple[str, ...],
    *,
    older_than: str | None,
    how: RemovalFlags,
) -> int:
    """Free the space of the trash: of the given operations, or all of it. Not undoable."""
    planned = invocation.open_home().trash.plan_empty(operations, older_than=older_than)
    return remove(invocation, planned, how)
