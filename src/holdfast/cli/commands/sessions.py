"""`holdfast sessions`: see, find, carry and bound sessions."""

from __future__ import annotations

import click

from holdfast.cli.frame import Group, Lazy

_HERE = "holdfast.cli.commands.session_"

COMMANDS = {
    "list": Lazy(_HERE + "list", "List sessions.", "command"),
    "show": Lazy(_HERE + "show", "Read one like a conversation.", "command"),
    "search": Lazy(_HERE + "search", "Find messages by words.", "command"),
    "stats": Lazy(_HERE + "stats", "Count them, and their bytes.", "command"),
    "export": Lazy(_HERE + "export", "Write them out, for machines or people.", "command"),
    "import": Lazy(_HERE + "import", "Take them in from a file.", "command"),
    "rename": Lazy(_HERE + "edit", "Give one a title.", "rename"),
    "pin": Lazy(_HERE + "edit", "Keep one whatever the policy.", "pin"),
    "end": Lazy(_HERE + "edit", "End one that its agent left open.", "end"),
    "prune": Lazy(_HERE + "prune", "Remove what the policy lets go.", "command"),
    "gc": Lazy(_HERE + "gc", "Remove empty and trivial ones.", "command"),
    "delete": Lazy(_HERE + "delete", "Remove some by name.", "command"),
    "archive": Lazy(_HERE + "archive", "Pack some away, to be found and restored.", "command"),
    "restore": Lazy(_HERE + "restore", "Bring some back from the archive.", "command"),
}


@click.group(
    cls=Group,
    lazy=COMMANDS,
    example="holdfast sessions list --source cron\n"
    "holdfast sessions prune --older-than 30d --dry-run",
)
def sessions() -> None:
    """See, find and bound sessions and their files."""
