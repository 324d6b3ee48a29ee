"""`holdfast checkpoints`: take, inspect, restore and limit checkpoints."""

from __future__ import annotations

import click

from holdfast.cli.frame import Group, Lazy

_HERE = "holdfast.cli.commands.checkpoint_"

COMMANDS = {
    "status": Lazy(_HERE + "read", "Which projects have checkpoints, and their size.", "status"),
    "list": Lazy(_HERE + "read", "List the checkpoints of a project.", "list_"),
    "take": Lazy(_HERE + "take", "Take a checkpoint now.", "take_checkpoint"),
    "excluded": Lazy(_HERE + "read", "List what checkpoints leave out by default.", "excluded"),
    "show": Lazy(_HERE + "read", "Show what a checkpoint contains.", "show"),
    "diff": Lazy(_HERE + "diff", "Compare a checkpoint with now, or with another one.", "diff"),
    "restore": Lazy(_HERE + "change", "Restore a project to a checkpoint.", "restore"),
    "watch": Lazy(_HERE + "take", "Watch a directory and take checkpoints of changes.", "watch"),
    "import": Lazy(_HERE + "change", "Import the checkpoints that Hermes took.", "import_"),
    "rename": Lazy(_HERE + "change", "Give a checkpoint a name, which protects it.", "rename"),
    "pin": Lazy(_HERE + "change", "Pin checkpoints so that no policy removes them.", "pin"),
    "unpin": Lazy(_HERE + "change", "Remove the pin from checkpoints.", "unpin"),
    "delete": Lazy(_HERE + "removal", "Remove checkpoints by id.", "delete"),
    "prune": Lazy(_HERE + "removal", "Remove what the policy does not keep.", "prune"),
    "clear": Lazy(_HERE + "removal", "Remove all checkpoints.", "clear"),
    "clear-legacy": Lazy(_HERE + "removal", "Remove what an older layout left.", "clear_legacy"),
    "remote": Lazy(_HERE + "remote", "Name git remotes for checkpoints.", "remote"),
    "push": Lazy(_HERE + "remote", "Send checkpoints to a git remote.", "push"),
    "fetch": Lazy(_HERE + "remote", "Fetch checkpoints of other machines.", "fetch"),
    "verify": Lazy(_HERE + "read", "Check that every checkpoint is intact.", "verify"),
}


@click.group(
    cls=Group,
    lazy=COMMANDS,
    default="status",
    example="holdfast checkpoints take --reason 'before the refactoring'\n"
    "holdfast checkpoints list\n"
    "holdfast checkpoints restore 3f2a1b9c --dry-run",
)
def checkpoints() -> None:
    """Capture a project at one moment, and restore it exactly.

    Without a command, this is `holdfast checkpoints status`.
    """
