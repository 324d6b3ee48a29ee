"""`holdfast apply`: carry out a saved plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.api.plan import planned_home
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation
from holdfast.cli.removal import RemovalFlags, remove

if TYPE_CHECKING:
    from holdfast.api.home import Home


@command(
    example="holdfast sessions prune --home codex --plan-out plan.json\nholdfast apply plan.json"
)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--all", "all_items", is_flag=True, help="List every item with its reason.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", "-n", is_flag=True, help="Show the plan and stop there.")
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
    """The home that was named, the only one, or the one for which the plan was made."""
    machine = invocation.several()
    if machine is None:
        return invocation.open_home()
    root = planned_home(plan_file)
    for each in machine.homes:
        if each.path.resolve() == root:
            invocation.choose(each)
            break
    else:  # not one that is found by itself, so `undo` needs its path
        invocation.home = str(root)
        invocation.chosen_home = invocation.home_path = root
    return invocation.open_home(root)
