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
_ARCHIVE = "legacy-"


@click.command(
    "status",
    cls=Command,
    example="holdfast checkpoints\nholdfast checkpoints status --all\n"
    "holdfast checkpoints status --json",
)
@click.option("--all", "all_items", is_flag=True, help="List every project.")
@click.pass_obj
def command(invocation: Invocation, *, all_items: bool = False) -> int:
    """Say which projects have checkpoints, in what state they are, and what all of it costs.

    The size of a project is what would be free if it went alone: what it shares with others costs
    nothing twice. It only reads.
    """
    from holdfast.services.checkpoint_status import checkpoint_status

    home, settings = invocation.open_home()
    with progress():
        found = checkpoint_status(
            home.checkpoint_upkeep,
            now=invocation.now,
            stale_after=settings.checkpoint_policy().stale_after,
        )
    base = home.root / _FOLDER
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(_document(base, found))
    else:
        _show(invocation, base, found, all_items=all_items)
    return 0


def _document(base: Path, found: CheckpointStatus) -> dict[str, Any]:
    from holdfast.cli.show_checkpoints import project_json

    return {
        "base": str(base),
        "total_bytes": found.total_bytes,
        "store_bytes": found.store_bytes,
        "legacy_bytes": found.legacy_bytes,
        "projects": [project_json(each) for each in found.projects],
        "legacy_archives": [
            {"name": each.id, "bytes": each.bytes, "moved_at": each.last_active_at}
            for each in found.legacy
        ],
        "problems": [{"path": each.path, "reason": each.reason} for each in found.problems],
    }


def _show(invocation: Invocation, base: Path, found: CheckpointStatus, *, all_items: bool) -> None:
    from rich.text import Text

    from holdfast.cli.output import name, say, suggest
    from holdfast.cli.show_checkpoints import show_projects
    from holdfast.model.units import format_bytes, format_count

    if found.projects or found.legacy:
        total = (f"  {format_bytes(found.total_bytes)}", "bold")
        say(Text.assemble(("checkpoints in ", "bold"), name(str(base), "bold cyan"), total))
        say()
    if found.projects:
        show_projects(found.projects, invocation.now, all_items=all_items)
    for archive in found.legacy:
        size = format_bytes(archive.bytes)
        aside = "moved aside and " if archive.id.startswith(_ARCHIVE) else ""
        say(name(f"{archive.id}: {size} of an older layout, {aside}still readable"))
    for problem in found.problems:
        say(name(f"{problem.path}: {problem.reason}", "yellow"))
    if found.projects or found.legacy or found.problems:
        say()
    if not found.projects and found.legacy:
        say("There are no checkpoints of the present layout yet. To see those of the older one:")
        suggest(f"holdfast {invocation.home_flag}checkpoints list --all-projects")
    elif not found.projects:
        say("There are no checkpoints yet. Take the first of a directory with:")
        suggest(take_command(invocation, None))
    else:
        count = format_count(sum(each.checkpoints for each in found.projects), "checkpoint")
        say(f"{count}, {format_bytes(found.store_bytes)}. To see what the policy would remove:")
        suggest(f"holdfast {invocation.home_flag}checkpoints prune --dry-run")
