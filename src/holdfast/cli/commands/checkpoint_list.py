"""`holdfast checkpoints list`: which checkpoints there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.checkpoint_options import (
    directory_argument,
    resolved,
    store_of,
    take_command,
)
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Checkpoint
    from holdfast.ports import CheckpointStore


@click.command(
    "list",
    cls=Command,
    example="holdfast checkpoints list\n"
    "holdfast checkpoints list ~/work/site\n"
    "holdfast checkpoints list --all-projects --session 20260325_112518_6995d1",
)
@directory_argument
@click.option("--all-projects", is_flag=True, help="Of every project, not of one directory.")
@click.option("--session", metavar="ID", help="Only those of this session.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show the newest N.",
)
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    directory: str | None,
    *,
    all_projects: bool,
    session: str | None,
    limit: int | None,
) -> int:
    """List the checkpoints of a directory, the newest first: by default, of the current one.

    Files and lines are those that changed since the checkpoint before.
    """
    if all_projects and directory is not None:
        raise UsageError("--all-projects is every project; it does not go with a directory.")
    workdir = None if all_projects else resolved(directory)
    store = store_of(invocation)
    everything = [] if store is None else [*store.list(workdir), *_older(store, workdir)]
    found = [each for each in everything if session in (None, each.session)][:limit]
    if invocation.json:
        from holdfast.cli.output import print_json
        from holdfast.cli.show_checkpoints import checkpoint_json

        print_json({"checkpoints": [checkpoint_json(each) for each in found]})
    elif not found:
        _say_none(invocation, store, workdir, everything, directory)
    else:
        from holdfast.cli.show_checkpoints import show_list

        show_list(found, invocation.now, places=all_projects)
    return 0


def _older(store: CheckpointStore, workdir: Path | None) -> Sequence[Checkpoint]:
    """Those of an older layout that nobody brought into the store yet."""
    known = {(each.workdir, each.time) for each in store.list(workdir)}
    return [
        replace(each, reason=f"{each.reason} (older layout)")
        for each in store.older(workdir)
        if (each.workdir, each.time) not in known
    ]


def _say_none(
    invocation: Invocation,
    store: CheckpointStore | None,
    workdir: Path | None,
    everything: Sequence[Checkpoint],
    directory: str | None,
) -> None:
    from holdfast.cli.output import name, say, suggest

    if everything:
        say("No checkpoint is of that session.")
        return
    if workdir is None or store is None:
        say("There are no checkpoints yet. Take the first of a directory with:")
    else:
        say(name(f"There are no checkpoints of {workdir} yet. Take the first with:"))
    suggest(take_command(invocation, directory))
    above = [] if store is None or workdir is None else _above(store, workdir)
    for place in above:
        say(name(f"{place}, which it lies in, has some."))


def _above(store: CheckpointStore, workdir: Path) -> list[str]:
    """Projects that a directory lies in: whoever is below one may have meant that."""
    places = {str(place) for place in workdir.parents}
    return [each.workdir for each in store.projects() if each.workdir in places]
