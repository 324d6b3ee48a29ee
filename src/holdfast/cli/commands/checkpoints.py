"""`holdfast checkpoints`: take the tree of a project, look at it, go back to it, bound it all."""

from __future__ import annotations

import click

from holdfast.cli.frame import Group, Lazy, run_default

_HERE = "holdfast.cli.commands.checkpoint_"

COMMANDS = {
    "status": Lazy(_HERE + "read", "Which projects have some, and what they cost.", "status"),
    "list": Lazy(_HERE + "read", "List those of a project.", "list_"),
    "take": Lazy(_HERE + "take", "Take one now.", "command"),
    "excluded": Lazy(_HERE + "read", "List what is left out by default.", "excluded"),
    "show": Lazy(_HERE + "read", "Say what one holds.", "show"),
    "diff": Lazy(_HERE + "diff", "Compare one with now, or with another.", "diff"),
    "restore": Lazy(_HERE + "change", "Go back to one.", "restore"),
    "watch": Lazy(_HERE + "watch", "Follow a directory and take them by itself.", "command"),
    "import": Lazy(_HERE + "change", "Bring in those that Hermes took.", "import_"),
    "pin": Lazy(_HERE + "change", "Keep one whatever the policy.", "pin"),
    "name": Lazy(_HERE + "change", "Give one a name; it stays, too.", "rename"),
    "prune": Lazy(_HERE + "removal", "Remove what the policy lets go.", "prune"),
    "clear": Lazy(_HERE + "removal", "Remove all of them.", "clear"),
    "clear-legacy": Lazy(_HERE + "removal", "Remove what an older layout left.", "clear_legacy"),
    "verify": Lazy(_HERE + "read", "Prove that every one is whole.", "verify"),
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
