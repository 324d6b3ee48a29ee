"""Which commands change something, and when one continues although nobody reads its output.

`holdfast sessions prune --yes | head` was told to prune. A reader that has seen enough is no
reason to stop half-way, or before the start. A run that only reads ends with its reader.
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
#: These take --yes, so that a script may always pass it, and ask nothing; an undo rarely does.
_ASK_NOTHING = _commands(
    {
        "": "undo",
        "sessions": "import rename pin unpin end restore",
        "checkpoints": "take import pin unpin rename",
        "vault": "on off",
        "config": "init set",
    }
)
#: A flag that answers yes in advance. A person who is asked must have seen what it is about.
_AGREED = ("yes", "force")


def is_told_to_change(command: str, given: Mapping[str, Any]) -> bool:
    """Whether a command with these parameters changes something without asking."""
    if command not in CHANGING or only_looks(given):
        return False
    if command == "sessions export":
        return given["output"] is not None and str(given["output"]) != "-"
    return not asks_first(command, given)


def asks_first(command: str, given: Mapping[str, Any]) -> bool:
    """Whether a command with these parameters changes something once somebody said yes."""
    if command not in CHANGING or only_looks(given) or "yes" not in given:
        return False
    # A doctor asks when it repairs, `maintain` when it installs itself.
    if command in _ASK_NOTHING or not given.get("repair", True) or not given.get("scheduler", True):
        return False
    return not any(given.get(flag) for flag in _AGREED) and not given.get("plan_out")


def only_looks(given: Mapping[str, Any]) -> bool:
    """A dry run, and `connect --status`."""
    return bool(given.get("dry_run") or given.get("status"))
