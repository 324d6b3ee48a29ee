"""`holdfast sessions gc`: remove what was never worth keeping."""

from __future__ import annotations

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, removal_options, remove
from holdfast.cli.session_options import tell_unknown_sources
from holdfast.model.session import SessionFilter

_HOUR = 3_600.0
_DAY = 24 * _HOUR
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
    from dataclasses import replace

    from holdfast.services.plans import plan_home_gc

    home, settings = invocation.open_home()
    rules = settings.gc_rules()
    if empty_hours is not None:
        rules = replace(rules, empty_after=empty_hours * _HOUR)
    if trivial_days is not None:
        rules = replace(rules, trivial_after=trivial_days * _DAY)
    if trivial_max is not None:
        rules = replace(rules, trivial_max=trivial_max)
    if keep_titled is not None:
        rules = replace(rules, keep_titled=keep_titled)
    with progress() as shown:
        plan, _ = plan_home_gc(
            home,
            rules,
            settings.policy(use_trash=not skip_trash),
            now=invocation.now,
            command=invocation.command_line,
            wanted=SessionFilter(sources=sources or None),
            progress=shown,
        )
    store = home.session_store()
    tell_unknown_sources(sources, store.sources() if store else ())
    return remove(invocation, home, plan, how)
