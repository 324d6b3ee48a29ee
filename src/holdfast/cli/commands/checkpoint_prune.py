"""`holdfast checkpoints prune`: remove what the policy does not keep, and give space back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, removal_options, remove, size_cap
from holdfast.errors import UsageError
from holdfast.model.text import parse_size

_COUNT = click.IntRange(min=1)
_MEGABYTE = 1_000_000


@click.command(
    "prune",
    cls=Command,
    example="holdfast checkpoints prune --dry-run\n"
    "holdfast checkpoints prune --retention-days 30 --keep-orphans\n"
    "holdfast checkpoints prune --keep-last 5 --keep-daily 14 --yes\n"
    "holdfast checkpoints prune --max-total-size 200MB",
)
@click.option(
    "--retention-days",
    type=click.FloatRange(min=0),
    metavar="N",
    help="Projects untouched for N days go whole; 0 is never.",
)
@click.option(
    "--keep-orphans/--delete-orphans",
    default=None,
    help="Keep projects whose directory is gone, or remove them [as delete_orphans says].",
)
@click.option("--legacy", is_flag=True, help="Remove archives of an older layout, too.")
@click.option("--keep-last", type=_COUNT, metavar="N", help="Keep the last N of each project.")
@click.option("--keep-within", metavar="DURATION", help="Keep what is this close to the newest.")
@click.option("--keep-hourly", type=_COUNT, metavar="N", help="Keep the last of each of N hours.")
@click.option("--keep-daily", type=_COUNT, metavar="N", help="Keep the last of each of N days.")
@click.option("--keep-weekly", type=_COUNT, metavar="N", help="Keep the last of each of N weeks.")
@click.option("--keep-monthly", type=_COUNT, metavar="N", help="Keep the last of N months each.")
@click.option("--max-snapshots", type=_COUNT, metavar="N", help="At most N of each project.")
@click.option("--max-total-size", metavar="SIZE", help="Bound all bytes: 500MB, 2GB.")
@click.option(
    "--max-size-mb",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="The same in MB: --max-size-mb 500.",
)
@click.option("--now", "skip_trash", is_flag=True, help="Skip the trash; this cannot be undone.")
@removal_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    keep_orphans: bool | None,
    legacy: bool,
    skip_trash: bool,
    how: RemovalFlags,
    **flags: Any,
) -> int:
    """Remove checkpoints that the policy does not keep, and give their space back.

    Without rules of its own the command uses [checkpoints] in config.toml: by default, projects
    that nobody touched for 7 days go, those whose directory is gone, the oldest beyond 20 of a
    project, and the fewest oldest that bring everything below 500 MB. Flags replace these one by
    one; any --keep-… flag replaces all keep rules.

    The newest of each project that stays is kept whatever the bounds, and so are pinned and named
    ones. A directory on a disk that is not mounted is not gone. What goes by age or by a rule
    stays in the trash for a week (trash_days), where `holdfast undo` finds it.

    Archives of an older layout wait for you: they go with --legacy, or with `clear-legacy`, and
    never by age or size.
    """
    checkpoints = invocation.checkpoints()
    days = flags.pop("retention_days")
    size = _asked_size(flags)
    with progress():
        planned = checkpoints.plan_prune(
            older_than=None if days is None else _age(days),
            max_total_size=size,
            keep_orphans=keep_orphans,
            legacy=legacy,
            use_trash=not skip_trash,
            pack=not how.dry_run and how.plan_out is None,
            **flags,
        )
    return remove(invocation, planned, how)


def _age(days: float) -> timedelta:
    try:
        return timedelta(days=days)
    except (OverflowError, ValueError):
        raise UsageError(f"--retention-days {days:g} is not a length of time.") from None


def _asked_size(flags: dict[str, Any]) -> int | None:
    text, megabytes = flags.pop("max_total_size"), flags.pop("max_size_mb")
    if text is not None and megabytes is not None:
        raise UsageError("--max-total-size and --max-size-mb are the same bound: give one.")
    instead = "To remove everything: holdfast checkpoints clear"
    if megabytes is not None:
        size = int(megabytes * _MEGABYTE)
        return size_cap("--max-size-mb", f"{megabytes:g}", size, instead=instead)
    if text is None:
        return None
    return size_cap("--max-total-size", text, parse_size(text), instead=instead)
