"""Which commands change something, and when one continues although nobody reads its output.

`holdfast sessions prune --yes | head` was told to prune. A reader that has seen enough is no
reason to stop half-way, or before the start. A run that only reads ends with its reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CHANGING = frozenset(
    {
        "sessions export",  # with --output
        "sessions import",
        "sessions rename",
        "sessions pin",
        "sessions unpin",
        "sessions end",
        "sessions prune",
        "sessions gc",
        "sessions delete",
        "sessions archive",
        "sessions restore",
        "checkpoints take",
        "checkpoints restore",
        "checkpoints watch",
        "checkpoints import",
        "checkpoints pin",
        "checkpoints unpin",
        "checkpoints rename",
        "checkpoints delete",
        "checkpoints prune",
        "checkpoints clear",
        "checkpoints clear-legacy",
        "run",
        "maintain",
        "apply",
        "undo",
        "redo",
        "trash empty",
        "vault on",
        "vault off",
        "config init",
        "config set",
        "config edit",
        "store init",
        "doctor",
    }
)
#: These take --yes, so that a script may always pass it, and ask nothing; an undo rarely does.
_ASK_NOTHING = frozenset(
    {
        "sessions import",
        "vault on",
        "vault off",
        "sessions rename",
        "sessions pin",
        "sessions unpin",
        "sessions end",
        "sessions restore",
        "checkpoints take",
        "checkpoints import",
        "checkpoints pin",
        "checkpoints unpin",
        "checkpoints rename",
        "config init",
        "config set",
        "undo",
    }
)
#: A flag that answers yes in advance. A person who is asked must have seen what it is about.
_AGREED = ("yes", "force")


def is_told_to_change(command: str, given: Mapping[str, Any]) -> bool:
    """Whether a command with these parameters changes something without asking."""
    if command not in CHANGING or given.get("dry_run"):
        return False
    if command == "sessions export":
        return given["output"] is not None and str(given["output"]) != "-"
    return not asks_first(command, given)


def asks_first(command: str, given: Mapping[str, Any]) -> bool:
    """Whether a command with these parameters changes something once somebody said yes."""
    if command not in CHANGING or given.get("dry_run") or "yes" not in given:
        return False
    # A doctor asks when it repairs, `maintain` when it installs itself.
    if command in _ASK_NOTHING or not given.get("repair", True) or not given.get("scheduler", True):
        return False
    return not any(given.get(flag) for flag in _AGREED) and not given.get("plan_out")
