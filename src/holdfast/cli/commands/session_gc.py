"""`holdfast sessions gc`: remove what was never worth keeping."""

from __future__ import annotations

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, removal_options, remove

_TIME = click.FloatRange(min=0, max=1_000_000)


@click.command(
    "gc",
    cls=Command,
    example="holdfast sessions gc --dry-run\n"
    "holdfast sessions gc --source cron --trivial-days 1 --trivial-max 2 --yes",
)
@click.option("--empty-hours", type=_TIME, metavar="H", help="Empty ones go after H hours [24].")
@click.option("--trivial-days", type=_TIME, metavar="D", help="Trivial ones after D days [7].")
@click.option(
    "--trivial-max",
    type=click.IntRange(min=0),
    metavar="N",
    help="Trivial is a session of at most N messages [5].",
)
@click.option("--keep-titled/--titled-too", default=None, help="Keep those that have a title.")
@click.option("--source", "sources", multiple=True, metavar="NAME", help="From this source.")
@click.option("--now", "skip_trash", is_flag=True, help="Skip the trash; this cannot be undone.")
@removal_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    empty_hours: float | None,
    trivial_days: float | None,
    trivial_max: int | None,
    keep_titled: bool | None,
    sources: tuple[str, ...],
    skip_trash: bool,
    how: RemovalFlags,
) -> int:
    """Remove sessions in which nothing was said, or hardly anything.

    Empty ones go after a day without activity, those of up to five messages after a week; 0 turns
    a rule off. Pinned sessions stay, and so does every session that has no end. A title alone does
    not protect, because agents give titles by themselves; --keep-titled makes it do so. A longer
    session that came from one of these stays and loses its parent. Defaults are those of
    config.toml.
    """
    home = invocation.open_home()
    with progress() as shown:
        plan = home.plan_gc(
            empty_hours=empty_hours,
            trivial_days=trivial_days,
            trivial_max=trivial_max,
            keep_titled=keep_titled,
            source=sources or None,
            use_trash=not skip_trash,
            progress=shown,
        )
    return remove(invocation, plan, how)
