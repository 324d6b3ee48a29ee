"""`holdfast checkpoints status`: which projects have checkpoints, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.checkpoint_options import take_command
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.services.checkpoint_status import CheckpointStatus

_FOLDER = "checkpoints"
#: How many projects are shown unless somebody asks for more.
_USUAL_LIMIT = 20


@click.command(
    "status",
    cls=Command,
    example="holdfast checkpoints\nholdfast checkpoints status --limit 50\n"
    "holdfast checkpoints status --json",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Show the N projects used last [{_USUAL_LIMIT}].",
)
@click.option("--all", "all_items", is_flag=True, help="Show every project.")
@click.pass_obj
def command(invocation: Invocation, *, limit: int | None = None, all_items: bool = False) -> int:
    """Say which projects have checkpoints, in what state they are, and what all of it costs.

    The size of a project is what would be free if it went alone: what it shares with others costs
    nothing twice. Archives of an older layout are listed with their size; only you remove them. It
    only reads.
    """
    place = invocation.open_place()
    with progress():
        found = invocation.checkpoints().status()
    base = place.home.root / _FOLDER
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(_document(base, found))
    else:
        _show(invocation, base, found, limit=None if all_items else limit or _USUAL_LIMIT)
    return 0


def _document(base: Path, found: CheckpointStatus) -> dict[str, Any]:
    from holdfast.cli.show_checkpoints import project_json

    return {
        "base": str(base),
        "total_bytes": found.total_bytes,
        "store_bytes": found.store_bytes,
        "legacy_bytes": found.legacy_bytes,
        "project_count": len(found.projects),
        "checkpoint_count": sum(each.checkpoints for each in found.projects),
        "projects": [project_json(each) for each in found.projects],
        "legacy_archives": [
            {
                "name": each.id,
                "bytes": each.bytes,
                "moved_at": each.last_active_at,
                "workdir": found.older[each.id].workdir if each.id in found.older else None,
            }
            for each in found.legacy
        ],
        "problems": [{"path": each.path, "reason": each.reason} for each in found.problems],
    }


def _show(
    invocation: Invocation, base: Path, found: CheckpointStatus, *, limit: int | None
) -> None:
    from rich.text import Text

    from holdfast.cli.output import name, say, suggest
    from holdfast.cli.show_projects import show_older, show_projects

    holdfast = f"holdfast {invocation.home_flag}checkpoints"
    if found.total_bytes:
        say(Text.assemble(("checkpoints in ", "bold"), name(str(base), "bold cyan")))
        say(_figures(found))
        say()
    if found.projects:
        show_projects(found.projects, invocation.now, limit=limit)
        say()
    if found.legacy:
        show_older(found.legacy, found.older, invocation.now)
        say("They can still be read and restored. Archives stay until you clear them; single")
        say("repositories are pruned like projects. To clear all of them:")
        suggest(f"{holdfast} clear-legacy")
        say()
    for problem in found.problems:
        say(name(f"{problem.path}: {problem.reason}", "yellow"))
    if found.problems:
        say()
    if found.projects:
        say("To see what the policy would remove:")
        suggest(f"{holdfast} prune --dry-run")
    elif found.legacy:
        say("There are no checkpoints of the present layout yet. To see those of the older one:")
        suggest(f"{holdfast} list --all-projects")
    else:
        say("There are no checkpoints yet. Take the first of a directory with:")
        suggest(take_command(invocation, None))


def _figures(found: CheckpointStatus) -> str:
    """`12.3 MB: store 10.1 MB, older layouts 2.2 MB; 17 checkpoints of 3 projects`."""
    from holdfast.model.text import format_bytes, format_count

    parts = [f"store {format_bytes(found.store_bytes)}"]
    if found.legacy_bytes:
        parts.append(f"older layouts {format_bytes(found.legacy_bytes)}")
    count = format_count(sum(each.checkpoints for each in found.projects), "checkpoint")
    projects = format_count(len(found.projects), "project")
    trash = f", {format_count(found.trash, 'item')} in the trash" if found.trash else ""
    total = format_bytes(found.total_bytes)
    return f"total {total}: {', '.join(parts)}; {count} of {projects}{trash}"
