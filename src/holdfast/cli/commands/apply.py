"""`holdfast apply`: carry out a saved plan."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.removal import RemovalFlags, remove


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
    """Carry out a plan that --plan-out saved.

    Everything is checked again at the moment of removal: an item that changed, or came to life,
    since the plan was made is skipped and reported. A plan works only on the home it was made
    for, and only as it was saved.
    """
    planned = invocation.open_home().load_plan(plan_file)
    return remove(invocation, planned, RemovalFlags(dry_run=dry_run, yes=yes, all_items=all_items))
