"""`holdfast checkpoints pin` and `name`: what a person says of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.checkpoint_options import chosen, id_argument
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.session_options import stored_text

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Checkpoint


@click.command("pin", cls=Command, example="holdfast checkpoints pin 3f2a1b9c")
@id_argument
@click.option("--off", is_flag=True, help="Take the pin away.")
@click.pass_obj
def pin(invocation: Invocation, checkpoint: str, *, off: bool) -> int:
    """Pin a checkpoint: no rule, no bound and no newer one ever removes it."""
    checkpoints = invocation.checkpoints()
    changed = checkpoints.pin(chosen(checkpoints, checkpoint), not off)
    return _tell(invocation, changed, "is no longer pinned" if off else "is pinned")


@click.command(
    "name", cls=Command, example='holdfast checkpoints name 3f2a1b9c "works on all machines"'
)
@id_argument
@click.argument("text", metavar="TEXT")
@click.pass_obj
def rename(invocation: Invocation, checkpoint: str, text: str) -> int:
    """Give a checkpoint a name; an empty one ("") takes it away. A named one stays, too."""
    wanted = stored_text(text, "The name")
    checkpoints = invocation.checkpoints()
    changed = checkpoints.rename(chosen(checkpoints, checkpoint), wanted)
    named = f"is now called {changed.name!r}" if changed.name else "has no name now"
    return _tell(invocation, changed, named)


def _tell(invocation: Invocation, checkpoint: Checkpoint, what: str) -> int:
    from holdfast.cli.output import print_json, say
    from holdfast.cli.show_checkpoints import checkpoint_json, short

    if invocation.json:
        print_json({"checkpoint": checkpoint_json(checkpoint)})
    else:
        say(f"Checkpoint {short(checkpoint.id)} {what}.")
    return 0
