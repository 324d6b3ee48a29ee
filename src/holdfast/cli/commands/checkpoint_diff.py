"""`holdfast checkpoints diff`: what differs between a checkpoint and now, or another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.checkpoint_options import (
    chosen,
    hash_option,
    paths_argument,
    resolved,
    second_id,
)
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation

if TYPE_CHECKING:
    from holdfast.api.checkpoints import Difference


@click.command(
    "diff",
    cls=Command,
    example="holdfast checkpoints diff\n"
    "holdfast checkpoints diff 3f2a1b9c\n"
    "holdfast checkpoints diff 3f2a1b9c 77e0d2aa src --stat\n"
    "holdfast checkpoints diff 3f2a1b9c src/main.py | git apply --reverse",
)
@click.argument("checkpoint", metavar="[ID]", required=False)
@paths_argument
@hash_option
@click.option("--stat", is_flag=True, help="Only how much changed, file by file.")
@click.pass_obj
def command(
    invocation: Invocation,
    checkpoint: str | None,
    paths: tuple[str, ...],
    *,
    hash_all: bool,
    stat: bool,
) -> int:
    """Show what changed since a checkpoint: until now, or until another one.

    Usage: diff [ID] [ID2] [PATH]...  Without an id it is the newest of the current directory. It
    reads like git's, and `git apply` understands it. A path that looks like an id is one if there
    is such a checkpoint; write ./path otherwise.
    """
    checkpoints = invocation.checkpoints()
    old = (
        checkpoints.newest(resolved(None))
        if checkpoint is None
        else chosen(checkpoints, checkpoint)
    )
    other, rest = second_id(checkpoints, paths)
    found = checkpoints.diff(old, other, rest, hash_all=hash_all)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(_document(found))
        return 0
    from holdfast.cli.output import console
    from holdfast.cli.show_diff import show_diff

    lines = found.statistics(width=console().width) if stat else found.patch()
    show_diff(lines, found.changes)
    return 0


def _document(found: Difference) -> dict[str, Any]:
    return {
        "from": found.old.known_id,
        "to": found.new.known_id if found.new else None,
        "workdir": found.old.workdir,
        "changes": [
            {
                "path": each.path,
                "kind": each.kind.value,
                "old_mode": f"{each.old.mode:06o}" if each.old else None,
                "new_mode": f"{each.new.mode:06o}" if each.new else None,
            }
            for each in found.changes
        ],
    }
