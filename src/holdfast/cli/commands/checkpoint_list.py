"""`holdfast checkpoints list`: which checkpoints there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.checkpoint_options import (
    directory_argument,
    resolved,
    take_command,
)
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation, quoted
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Project

#: Of other projects, when a directory has no checkpoints.
_FEW = 20


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

    Files and lines are those that changed since the checkpoint before. For a directory without
    checkpoints it lists the projects that have some.
    """
    if all_projects and directory is not None:
        raise UsageError("--all-projects is every project; it does not go with a directory.")
    workdir = None if all_projects else resolved(directory)
    checkpoints = invocation.checkpoints()
    everything = checkpoints.list(workdir)
    found = [each for each in everything if session in (None, each.session)][:limit]
    elsewhere = () if everything or workdir is None else checkpoints.projects()
    if invocation.json:
        from holdfast.cli.output import print_json
        from holdfast.cli.show_checkpoints import checkpoint_json, project_json

        print_json(
            {
                "checkpoints": [checkpoint_json(each) for each in found],
                **({"projects": [project_json(each) for each in elsewhere]} if elsewhere else {}),
            }
        )
    elif everything and not found:
        from holdfast.cli.output import say

        say("No checkpoint is of that session.")
    elif not found:
        _say_none(invocation, workdir, elsewhere, directory)
    else:
        from holdfast.cli.show_checkpoints import show_list

        show_list(found, invocation.now, places=all_projects)
    return 0


def _say_none(
    invocation: Invocation,
    workdir: Path | None,
    elsewhere: Sequence[Project],
    directory: str | None,
) -> None:
    """Whoever asks about a directory without checkpoints may mean another project."""
    from holdfast.cli.output import name, say, suggest

    if workdir is None or not elsewhere:
        say("There are no checkpoints yet. Take the first of a directory with:")
    else:
        say(name(f"There are no checkpoints of {workdir} yet. Take the first with:"))
    suggest(take_command(invocation, directory))
    if not elsewhere:
        return
    places = {str(place) for place in (workdir or Path()).parents}
    for place in (each.workdir for each in elsewhere if each.workdir in places):
        say(name(f"{place}, which it lies in, has some."))
    from holdfast.cli.show_projects import show_projects

    say()
    say("Projects that have checkpoints:")
    show_projects(elsewhere, invocation.now, limit=_FEW)
    say()
    say("To list those of one of them, or of all:")
    suggest(f"holdfast {invocation.home_flag}checkpoints list {quoted(Path(elsewhere[0].workdir))}")
    suggest(f"holdfast {invocation.home_flag}checkpoints list --all-projects")
