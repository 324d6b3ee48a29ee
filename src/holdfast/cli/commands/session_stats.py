"""`holdfast sessions stats`: what the sessions of a home add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress

if TYPE_CHECKING:
    from holdfast.model.cost import CostTotals

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
    from holdfast.services.stats import stats

    home, settings = invocation.open_home()
    with progress() as shown:
        seen = stats(
            home,
            settings.policy(),
            settings.gc_rules(),
            prices=settings.prices(),
            now=invocation.now,
            progress=shown,
        )
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(seen.to_json())
    else:
        from holdfast.cli.show_stats import show_stats

        show_stats(seen, invocation.home_flag)
    return 0


def _show_cost(invocation: Invocation) -> int:
    from holdfast.policy.costs import costs

    home, settings = invocation.open_home()
    store = home.session_store()
    totals: CostTotals = costs(store.usage_entries() if store else (), settings.prices())
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"home": str(home.root), "kind": home.kind} | totals.to_json())
        return 0
    if totals.by_source:
        from holdfast.cli.show_usage import show_usage

        show_usage(totals, invocation.home_flag, days=_DAYS)
    else:
        from holdfast.cli.output import say

        say("Nothing was used yet: no message told of tokens or cost.")
    return 0
