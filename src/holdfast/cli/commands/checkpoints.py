"""`holdfast checkpoints`: take the tree of a project, look at it, go back to it, bound it all."""

from __future__ import annotations

import click

from holdfast.cli.frame import Group, Lazy, run_default

_HERE = "holdfast.cli.commands.checkpoint_"

COMMANDS = {
    "status": Lazy(_HERE + "status", "Which projects have some, and what they cost.", "command"),
    "list": Lazy(_HERE + "list", "List those of a project.", "command"),
    "take": Lazy(_HERE + "take", "Take one now.", "command"),
    "excluded": Lazy(_HERE + "excluded", "List what is left out by default.", "command"),
    "show": Lazy(_HERE + "show", "Say what one holds.", "command"),
    "diff": Lazy(_HERE + "diff", "Compare one with now, or with another.", "command"),
    "restore": Lazy(_HERE + "restore", "Go back to one.", "command"),
    "watch": Lazy(_HERE + "watch", "Follow a directory and take them by itself.", "command"),
    "import": Lazy(_HERE + "import", "Bring in those that Hermes took.", "command"),
    "pin": Lazy(_HERE + "edit", "Keep one whatever the policy.", "pin"),
    "name": Lazy(_HERE + "edit", "Give one a name; it stays, too.", "rename"),
    "prune": Lazy(_HERE + "prune", "Remove what the policy lets go.", "command"),
    "clear": Lazy(_HERE + "clear", "Remove all of them.", "clear"),
    "clear-legacy": Lazy(_HERE + "clear", "Remove what an older layout left.", "clear_legacy"),
    "verify": Lazy(_HERE + "verify", "Prove that every one is whole.", "command"),
}


@click.group(
    cls=Group,
    lazy=COMMANDS,
    invoke_without_command=True,
    example="holdfast checkpoints take --reason 'before the refactoring'\n"
    "holdfast checkpoints list\n"
    "holdfast checkpoints restore 3f2a1b9c --dry-run",
)
@click.pass_context
def checkpoints(ctx: click.Context) -> int | None:
    """Take the tree of a project at one moment, and go back to it exactly.

    Without a command, this is `holdfast checkpoints status`.
    """
    return run_default(ctx, checkpoints, "status") if ctx.invoked_subcommand is None else None
