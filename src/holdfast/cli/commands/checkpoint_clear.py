"""`holdfast checkpoints clear` and `clear-legacy`: remove all of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.removal import RemovalFlags, removal_options, remove
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.model.item import Item
    from holdfast.model.plan import Plan

_force = click.option("--force", "-f", is_flag=True, help="The same as --yes.")
_now = click.option("--now", "skip_trash", is_flag=True, help="Skip the trash; not undoable.")


@click.command(
    "clear",
    cls=Command,
    example="holdfast checkpoints clear --dry-run\nholdfast checkpoints clear --force\n"
    "holdfast checkpoints clear --legacy --now",
)
@click.option("--legacy", is_flag=True, help="Clear what an older layout left, too: everything.")
@_force
@_now
@removal_options
@click.pass_obj
def clear(
    invocation: Invocation, /, *, legacy: bool, force: bool, skip_trash: bool, how: RemovalFlags
) -> int:
    """Remove the checkpoints of all projects, pinned and named ones too.

    Their history is lost with them: no project can go back to an earlier state any more. They stay
    in the trash for a week (trash_days), where `holdfast undo` finds them, unless --now is given.
    What an older layout left stays unless --legacy is given; `clear-legacy` clears that alone.
    """
    if _has_no_home(invocation):
        return 0
    checkpoints = invocation.checkpoints()
    planned = checkpoints.plan_clear(legacy=legacy, use_trash=not skip_trash)
    if not invocation.json:
        left = () if legacy else checkpoints.status().legacy
        _warn(invocation, planned.plan, left, len(planned.names), skip_trash=skip_trash)
    return remove(invocation, planned, replace(how, yes=how.yes or force))


def _warn(
    invocation: Invocation, plan: Plan, left: Sequence[Item], projects: int, *, skip_trash: bool
) -> None:
    """What is lost, before the plan says it item by item."""
    from rich.text import Text

    from holdfast.cli.output import say
    from holdfast.model.item import CHECKPOINT, LEGACY
    from holdfast.model.text import format_bytes, format_count

    going = [each for each in plan.removals if each.kind == CHECKPOINT]
    older = [each for each in plan.removals if each.kind == LEGACY]
    if going or older:
        parts = []
        if going:
            of = format_count(projects, "project")
            parts.append(f"{format_count(len(going), 'checkpoint')} of {of}")
        if older:
            size = format_bytes(sum(each.bytes for each in older))
            parts.append(f"{size} of an older layout")
        until = "for good" if skip_trash else "until you undo it"
        text = f"Warning: this clears {' and '.join(parts)}. Their history is lost {until}."
        say(Text(text, style="bold red"))
    if left:
        size = format_bytes(sum(each.bytes for each in left))
        command = f"holdfast {invocation.home_flag}checkpoints clear --legacy"
        say(Text(f"{size} of an older layout stay; `{command}` takes them too.", style="dim"))
    if going or older or left:
        say()


def _has_no_home(invocation: Invocation) -> bool:
    """Without a home there is nothing to clear, which is no mistake. Says so."""
    if invocation.home_path.exists():
        return False
    if invocation.json:
        from holdfast.cli.output import print_json
        from holdfast.model.plan import Plan

        none = Plan(
            home=str(invocation.home_path),
            command=invocation.command_line,
            made_at=invocation.now,
            items=(),
        )
        print_json({"plan": none.to_json(), "applied": False, "report": None})
    else:
        from holdfast.cli.output import name, say

        say(name(f"Nothing to clear: there is no home at {invocation.home_path}."))
    return True


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
    """Remove what an older layout left: one repository for each directory, moved aside or not.

    They stay in the trash for a week (trash_days), where `holdfast undo` finds them, unless --now
    is given. Nothing else removes archives of older layouts.
    """
    if _has_no_home(invocation):
        return 0
    planned = invocation.checkpoints().plan_clear_legacy(use_trash=not skip_trash)
    return remove(invocation, planned, replace(how, yes=how.yes or force))
