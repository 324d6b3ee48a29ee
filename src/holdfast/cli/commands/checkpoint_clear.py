"""`holdfast checkpoints clear` and `clear-legacy`: remove all of one kind."""

from __future__ import annotations

from dataclasses import replace

import click

from holdfast.cli.checkpoint_options import project_names
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.removal import RemovalFlags, removal_options, remove

_force = click.option("--force", "-f", is_flag=True, help="The same as --yes.")
_now = click.option("--now", "skip_trash", is_flag=True, help="Skip the trash; not undoable.")


@click.command(
    "clear",
    cls=Command,
    example="holdfast checkpoints clear --dry-run\nholdfast checkpoints clear --force",
)
@_force
@_now
@removal_options
@click.pass_obj
def clear(invocation: Invocation, /, *, force: bool, skip_trash: bool, how: RemovalFlags) -> int:
    """Remove the checkpoints of all projects, pinned and named ones too.

    They stay in the trash for a week (trash_days), where `holdfast undo` finds them, unless --now
    is given. Older layouts have a command of their own, `clear-legacy`.
    """
    from holdfast.services.prune_checkpoints import plan_drop

    home, _ = invocation.open_home()
    plan = plan_drop(
        home.checkpoint_upkeep,
        None,
        now=invocation.now,
        command=invocation.command_line,
        undoable=not skip_trash,
    )
    shown = replace(how, yes=how.yes or force, sources=project_names(home))
    return remove(invocation, home, plan, shown)


@click.command(
    "clear-legacy",
    cls=Command,
    example="holdfast checkpoints clear-legacy --dry-run\n"
    "holdfast checkpoints clear-legacy --force",
)
@_force
@_now
@removal_options
@click.pass_obj
def clear_legacy(
    invocation: Invocation, /, *, force: bool, skip_trash: bool, how: RemovalFlags
) -> int:
    """Remove what an older layout left: one repository for each directory, moved aside.

    They stay in the trash for a week (trash_days), where `holdfast undo` finds them, unless --now
    is given.
    """
    from holdfast.services.prune_checkpoints import plan_clear_legacy

    home, _ = invocation.open_home()
    plan = plan_clear_legacy(
        home.checkpoint_upkeep,
        now=invocation.now,
        command=invocation.command_line,
        undoable=not skip_trash,
    )
    return remove(invocation, home, plan, replace(how, yes=how.yes or force))
