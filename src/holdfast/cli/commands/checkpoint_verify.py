"""`holdfast checkpoints verify`: prove that every checkpoint is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.errors import DamageError

if TYPE_CHECKING:
    from holdfast.model.checkup import Damage, Verification

_NAMED = 3


@click.command(
    "verify",
    cls=Command,
    example="holdfast checkpoints verify\nholdfast checkpoints verify --json",
)
@click.pass_obj
def command(invocation: Invocation) -> int:
    """Read everything in the checkpoint store, and name what is damaged and what that costs.

    It only reads; checkpoints may be taken meanwhile. Ends with 5 when it found damage. What it
    does not name is whole, and can be restored.
    """
    found = invocation.checkpoints().verify()
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(found.to_json())
    else:
        _show(found)
    return 0 if found.ok else DamageError.exit_code


def _show(found: Verification) -> None:
    from holdfast.cli.output import say
    from holdfast.model.text import format_count

    if found.problems:
        _show_problems(found)
        say()
    count = format_count(found.checkpoints, "checkpoint")
    if not found.checkpoints and not found.problems:
        say("There are no checkpoints yet, so there is nothing to verify.")
    elif found.ok:
        say(f"{count}: every one is whole.")
    else:
        say("Damage was found. Checkpoints that are not named here are whole.")


def _show_problems(found: Verification) -> None:
    from rich.text import Text

    from holdfast.cli.output import name, say, table

    rows = table("what", "which", "found")
    for each in found.problems:
        style = "yellow" if each.harmless else "bold red"
        rows.add_row(Text(each.kind, style=style), name(each.name), name(_words(each)))
    say(rows)


def _words(damage: Damage) -> str:
    from holdfast.cli.show_checkpoints import short

    if not damage.checkpoints:
        return damage.reason
    named = ", ".join(short(each) for each in damage.checkpoints[:_NAMED])
    more = len(damage.checkpoints) - _NAMED
    return f"{damage.reason}; needed by {named}{f' and {more:,} more' if more > 0 else ''}"
