"""`holdfast log`: what was done to a home."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation

if TYPE_CHECKING:
    from holdfast.model.operation import LogView, Operation


@click.command(cls=Command, example="holdfast log\nholdfast log --limit 5 --json")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="The latest N only.",
)
@click.pass_obj
def log(invocation: Invocation, *, limit: int) -> int:
    """List operations, the latest first: what they removed, and what undo can bring back."""
    from holdfast.errors import DamageError

    view = invocation.open_place().home.log.read()
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(
            {
                "operations": [each.to_json() for each in view.operations[::-1][:limit]],
                "problems": [{"path": p.path, "reason": p.reason} for p in view.problems],
            }
        )
    else:
        _show(view, limit)
    return DamageError.exit_code if view.problems else 0


def _show(view: LogView, limit: int) -> None:
    from rich.text import Text

    from holdfast.cli.output import name, note, say, table, when
    from holdfast.model.text import format_bytes

    if not view.operations:
        say("Nothing was ever removed here by Holdfast.")
    else:
        rows = table("id", "when", "command", "did", "in trash", right=("id", "in trash"))
        for operation in view.operations[::-1][:limit]:
            rows.add_row(
                operation.id,
                when(operation.started_at),
                name(operation.command),
                _did(operation),
                format_bytes(operation.trash_bytes) if operation.trash_bytes else "",
            )
        say(rows)
        hidden = len(view.operations) - limit
        if hidden > 0:
            say(Text(f"… and {hidden:,} older; --limit shows more.", style="dim"))
    for problem in view.problems:
        note(f"warning: damaged: {problem.reason}")


def _did(operation: Operation) -> str:
    """`412 removed, 3 skipped; undone`."""
    from holdfast.cli.show_plan import archived_words

    archived, files = operation.archived, operation.archived_files
    counts = (
        (archived, archived_words(archived, files)),
        (operation.removed - archived - files, "removed"),
        (operation.rolled_back, "rolled back"),
        (operation.ended, "ended as abandoned"),
        (operation.brought_back, "brought back"),
        (operation.skipped, "skipped"),
        (operation.failed, "failed"),
    )
    did = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing"
    state = operation.state.value
    return did if state == "done" else f"{did}; {state}"
