"""`holdfast trash`: list or empty what undo can bring back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import completing
from holdfast.cli.frame import Group
from holdfast.cli.homes import all_homes_option, each_or_one
from holdfast.cli.invocation import Invocation
from holdfast.cli.options import Keys, in_order, sort_option
from holdfast.cli.output import print_json, say, suggest, table, when
from holdfast.cli.removal import RemovalFlags, removal_options, remove
from holdfast.model.text import format_bytes, format_count

if TYPE_CHECKING:
    from holdfast.api.plan import HomePlan
    from holdfast.api.trash import Trashed


@click.group(
    cls=Group,
    default="list",
    example="holdfast trash list\nholdfast trash empty --all-homes --older-than 2d",
)
def trash() -> None:
    """See or empty what undo can bring back. Without a command, this is `trash list`."""


_TRASH_KEYS: Keys[Trashed] = {
    "operation": lambda each: int(each.operation),
    "removed": lambda each: each.removed_at,
    "kept-until": lambda each: each.expires_at,
    "items": lambda each: len(each.entries),
    "size": lambda each: each.bytes,
}


@trash.command("list", example="holdfast trash list --json")
@sort_option(_TRASH_KEYS)
def list_trash(invocation: Invocation, *, sort: str | None = None) -> int:
    """List what is in the trash, by the operation that put it there: the oldest first, because
    that is emptied first."""
    return each_or_one(
        invocation,
        lambda here: _list_trash(here, sort),
        what="The trash",
        is_empty=lambda home: not home.trash.by_operation(),
    )


def _list_trash(invocation: Invocation, sort: str | None) -> int:
    trash = invocation.open_home().trash
    groups = in_order(trash.by_operation(), _TRASH_KEYS, sort)
    entries = [entry for each in groups for entry in each.entries]
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
        _show_trash(invocation, groups)
    return 0


def _show_trash(invocation: Invocation, groups: Sequence[Trashed]) -> None:
    if not groups:
        say("The trash is empty.")
        return
    rows = table(
        "operation",
        "removed",
        "kept until",
        "items",
        "size",
        right=("operation", "items", "size"),
        whole=("removed", "kept until"),
        drops=("removed", "items"),
    )
    for each in groups:
        rows.add_row(
            each.operation,
            when(each.removed_at),
            when(each.expires_at),
            f"{len(each.entries):,}",
            format_bytes(each.bytes),
        )
    say(rows)
    say()
    total = format_bytes(sum(each.bytes for each in groups))
    flag = invocation.home_flag
    items = format_count(sum(len(each.entries) for each in groups), "item")
    say(f"{items}, {total}. The first prune after that time removes them for good.")
    commands = (f"holdfast {flag}undo OPERATION", f"holdfast {flag}trash empty")
    suggest("", "To undo an operation, or to free the space now:", *commands)


def _planned(
    invocation: Invocation, /, *, operations: tuple[str, ...], older_than: str | None
) -> HomePlan:
    invocation.choose_one_with(operations)
    home = invocation.open_home()
    return home.trash.plan_empty(operations, older_than=older_than)


@trash.command(
    "empty", example="holdfast trash empty --all-homes\nholdfast trash empty 12 --home codex --yes"
)
@click.argument(
    "operations", nargs=-1, metavar="[OPERATION]...", shell_complete=completing.operations
)
@click.option(
    "--older-than",
    metavar="WHEN",
    help="Only what was removed before this: 2d (two days ago), 2026-03-25.",
)
@removal_options
@all_homes_option(plan=_planned, operations="The number of an operation")
def empty(invocation: Invocation, /, *, how: RemovalFlags, **given: Any) -> int:
    """Empty the trash: of the given operations, or all of it. This cannot be undone."""
    planned = _planned(invocation, **given)
    is_empty = not planned.plan.items and not invocation.open_home().trash.by_operation()
    return remove(invocation, planned, how, nothing="The trash is empty." if is_empty else "")
