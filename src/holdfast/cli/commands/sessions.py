"""`holdfast sessions`: see, find, carry and bound sessions."""

from __future__ import annotations

import click

from holdfast.cli.frame import Group, Lazy

_HERE = "holdfast.cli.commands.session_"

COMMANDS = {
    "list": Lazy(_HERE + "list", "List sessions.", "command"),
    "show": Lazy(_HERE + "read", "Read one like a conversation.", "show"),
    "search": Lazy(_HERE + "read", "Find messages by words.", "search"),
    "stats": Lazy(_HERE + "stats", "Count them, and their bytes.", "stats"),
    "export": Lazy(_HERE + "exchange", "Write them out, for machines or people.", "export"),
    "import": Lazy(_HERE + "exchange", "Take them in from a file.", "import_"),
    "rename": Lazy(_HERE + "edit", "Give one a title.", "rename"),
    "pin": Lazy(_HERE + "edit", "Keep one whatever the policy.", "pin"),
    "end": Lazy(_HERE + "edit", "End one that its agent left open.", "end"),
    "prune": Lazy(_HERE + "removal", "Remove what the policy lets go.", "prune"),
    "gc": Lazy(_HERE + "removal", "Remove empty and trivial ones.", "gc"),
    "delete": Lazy(_HERE + "removal", "Remove some by name.", "delete"),
    "archive": Lazy(_HERE + "archive", "Pack some away, to be found and restored.", "archive"),
    "restore": Lazy(_HERE + "archive", "Bring some back from the archive.", "restore"),
}


@click.group(
    cls=Group,
    lazy=COMMANDS,
    example="holdfast sessions list --source cron\n"
    "holdfast sessions prune --older-than 30d --dry-run",
)
def sessions() -> None:
    """See, find and bound sessions and their files."""
