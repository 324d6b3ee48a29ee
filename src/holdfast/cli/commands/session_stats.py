"""`holdfast sessions stats`: what the sessions of a home add up to."""

from __future__ import annotations

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress

_DAYS = 14


@click.command(
    "stats",
    cls=Command,
    example="holdfast sessions stats --json\nholdfast sessions stats --cost",
)
@click.option("--cost", is_flag=True, help="Only tokens and cost, by day, source and model.")
@click.pass_obj
def command(invocation: Invocation, cost: bool) -> int:
    """Count sessions by source, age and size; show what the database and the files take.

    Usage by day, source and model counts sessions that were removed, too. What came without a cost
    has that of [prices] in the configuration, or is unknown.
    """
    if cost:
        return _show_cost(invocation)
    home = invocation.open_home()
    with progress() as shown:
        seen = home.stats(progress=shown)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(seen.to_json())
    else:
        from holdfast.cli.show_stats import show_stats

        show_stats(seen, invocation.home_flag)
    return 0


def _show_cost(invocation: Invocation) -> int:
    home = invocation.open_home()
    totals = home.costs()
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"home": str(home.path), "kind": home.kind} | totals.to_json())
        return 0
    if totals.by_source:
        from holdfast.cli.show_usage import show_usage

        show_usage(totals, invocation.home_flag, days=_DAYS)
    else:
        from holdfast.cli.output import say

        say("Nothing was used yet: no message told of tokens or cost.")
    return 0
