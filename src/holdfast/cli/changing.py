"""Which commands change something, and which of them continue when nobody reads their output any
more.

`holdfast sessions prune --yes | head` was told to prune. A reader that exits early is no reason to
stop half-way, or before the start. A command that only reads ends with its reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _commands(by_group: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        f"{group} {name}".strip() for group, names in by_group.items() for name in names.split()
    )


#: An export changes something with --output.
CHANGING = _commands(
    {
        "": "run maintain apply undo redo doctor connect disconnect",
        "sessions": "export import rename pin unpin end prune gc delete archive restore",
        "checkpoints": "take restore watch import pin unpin rename delete prune clear clear-legacy",
        "trash": "empty",
        "vault": "on off",
        "config": "init set edit",
        "store": "init",
    }
)
#: These accept --yes, so that scripts can always pass it, but do not ask; an undo rarely does.
_ASK_NOTHING = _commands(
    {
        "": "undo",
        "sessions": "import rename pin unpin end restore",
        "checkpoints": "take import pin unpin rename",
        "vault": "on off",
        "config": "init set",
    }
)
#: Flags that answer yes in advance. Without one, the user must have seen what the question is
#: about.
_AGREED = ("yes", "force")


def is_told_to_change(command: str, given: Mapping[str, Any]) -> bool:
    """True if a command with these parameters changes something without asking."""
    if command not in CHANGING or only_looks(given):
        return False
    if command == "sessions export":
        return given["output"] is not None and str(given["output"]) != "-"
    return not asks_first(command, given)


def asks_first(command: str, given: Mapping[str, Any]) -> bool:
    """True if a command with these parameters changes something after the user has confirmed."""
    if command not in CHANGING or only_looks(given) or "yes" not in given:
        return False
    # `doctor` asks if it repairs, `maintain` if it installs itself.
    if command in _ASK_NOTHING or not given.get("repair", True) or not given.get("scheduler", True):
        return False
    return not any(given.get(flag) for flag in _AGREED) and not given.get("plan_out")


def only_looks(given: Mapping[str, Any]) -> bool:
    """True for a dry run, and for `connect --status`."""
    return bool(given.get("dry_run") or given.get("status"))
