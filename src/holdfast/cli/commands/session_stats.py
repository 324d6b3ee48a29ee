"""`holdfast sessions stats`: what the sessions of a home add up to."""

from __future__ import annotations

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress


@click.command("stats", cls=Command, example="holdfast sessions stats --json")
@click.pass_obj
def command(invocation: Invocation) -> int:
    """Count sessions by source, age and size; show what the database and the files take.

    Usage by day, source and model counts sessions that were removed, too.
    """
    from holdfast.services.stats import stats

    home, settings = invocation.open_home()
    with progress() as shown:
        seen = stats(
            home, settings.policy(), settings.gc_rules(), now=invocation.now, progress=shown
        )
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(seen.to_json())
    else:
        from holdfast.cli.show_stats import show_stats

        show_stats(seen, invocation.home_flag)
    return 0
