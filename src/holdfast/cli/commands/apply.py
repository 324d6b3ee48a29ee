"""`holdfast apply`: carry out a saved plan."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation, quoted
from holdfast.cli.removal import RemovalFlags, remove
from holdfast.errors import PlanFileError


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
    from holdfast.stores.plan_file import load

    plan = load(plan_file)
    home, _ = invocation.open_home()
    if plan.home != str(home.root):  # said before anything of a strange plan is shown
        raise PlanFileError(
            f"{plan_file} was made for {plan.home}, not for {home.root}.",
            hint=f"Pick its home with --home {quoted(Path(plan.home))}, or make a new plan.",
        )
    return remove(
        invocation, home, plan, RemovalFlags(dry_run=dry_run, yes=yes, all_items=all_items)
    )
