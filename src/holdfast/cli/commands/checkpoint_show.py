"""`holdfast checkpoints show`: what one checkpoint holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.checkpoint_options import chosen, id_argument
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation

if TYPE_CHECKING:
    from rich.text import Text

    from holdfast.model.checkpoint import Captured, Checkpoint, Entry


@click.command(
    "show",
    cls=Command,
    example="holdfast checkpoints show 3f2a1b9c\nholdfast checkpoints show 3f2a1b9c --all",
)
@id_argument
@click.option("--all", "all_items", is_flag=True, help="List every path.")
@click.pass_obj
def command(invocation: Invocation, checkpoint: str, *, all_items: bool) -> int:
    """Say what a checkpoint holds: when and why it was taken, its files, what was left out.

    The id may be shortened while it is unique.
    """
    checkpoints = invocation.checkpoints()
    found, captured = checkpoints.show(chosen(checkpoints, checkpoint))
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(_document(found, captured))
        return 0
    from holdfast.cli.show_checkpoints import show_checkpoint, show_not_captured, show_paths
    from holdfast.model.text import format_count

    show_checkpoint(found)
    paths = _entries(captured)
    show_paths(
        f"Captured ({format_count(len(captured.files), 'file')})",
        [_line(path, entry) for path, entry in paths],
        style="green",
        all_items=all_items,
    )
    show_not_captured(found.not_captured, all_items=all_items)
    return 0


def _entries(captured: Captured) -> list[tuple[str, Entry]]:
    return sorted({**captured.directories, **captured.files}.items())


def _line(path: str, entry: Entry) -> Text:
    from rich.text import Text

    from holdfast.cli.output import name

    return Text(f"{entry.mode:06o}  ", style="dim").append_text(
        name(path + ("/" if entry.is_directory else ""), "default")
    )


def _document(checkpoint: Checkpoint, captured: Captured) -> dict[str, Any]:
    from holdfast.cli.show_checkpoints import checkpoint_json, not_captured_json

    return {
        "checkpoint": checkpoint_json(checkpoint),
        "captured": [
            {"path": path, "mode": f"{entry.mode:06o}", "oid": entry.oid or None}
            for path, entry in _entries(captured)
        ],
        "not_captured": not_captured_json(checkpoint.not_captured),
    }
