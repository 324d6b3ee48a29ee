"""`holdfast sessions`: list, search, export, import and limit sessions."""

from __future__ import annotations

import click

from holdfast.cli.frame import Group, Lazy

_HERE = "holdfast.cli.commands.session_"

COMMANDS = {
    "list": Lazy(_HERE + "list", "List sessions.", "command"),
    "show": Lazy(_HERE + "show", "Read a session like a conversation.", "show"),
    "search": Lazy(_HERE + "search", "Find messages by words.", "search"),
    "stats": Lazy(_HERE + "stats", "Count sessions, sizes, tokens and cost.", "stats"),
    "export": Lazy(_HERE + "exchange", "Write sessions to a file, as JSONL or Markdown.", "export"),
    "import": Lazy(_HERE + "exchange", "Store sessions from an export or an agent.", "import_"),
    "rename": Lazy(_HERE + "edit", "Give a session a title.", "rename"),
    "pin": Lazy(_HERE + "edit", "Pin sessions so that no policy removes them.", "pin"),
    "unpin": Lazy(_HERE + "edit", "Remove the pin from sessions.", "unpin"),
    "end": Lazy(_HERE + "edit", "End sessions that their agent left open.", "end"),
    "prune": Lazy(_HERE + "removal", "Remove what the policy does not keep.", "prune"),
    "gc": Lazy(_HERE + "removal", "Remove empty and trivial sessions.", "gc"),
    "delete": Lazy(_HERE + "removal", "Remove sessions by id.", "delete"),
    "archive": Lazy(_HERE + "archive", "Move sessions into the archive.", "archive"),
    "restore": Lazy(_HERE + "archive", "Bring archived and vaulted sessions back.", "restore"),
}


@click.group(
    cls=Group,
    lazy=COMMANDS,
    example="holdfast sessions list --source cron\nholdfast sessions prune --all-homes --dry-run",
)
def sessions() -> None:
    """List, search and limit sessions and their files."""
