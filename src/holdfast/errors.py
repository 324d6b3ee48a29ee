"""Everything Holdfast raises on purpose: one tree, each class with an exit code and a hint.

The command line turns these into a message and an exit code. A library user catches
`HoldfastError`, or the narrower class.
"""

from __future__ import annotations

import struct

#: What code raises that works with bytes somebody else wrote: a number that no system call takes,
#: text that is none, a size that no memory holds. It says something about those bytes and nothing
#: about this machine, so the item that they belong to is damaged and the others go on.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


def in_words(error: Exception) -> str:
    """What went wrong while reading, also where an exception says nothing of its own."""
    return f"it cannot be read: {str(error) or type(error).__name__}"


class HoldfastError(Exception):
    """Something failed, on something, and there is a next step."""

    exit_code = 1
    kind = "failed"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(HoldfastError):
    """The request itself makes no sense: a bad flag, id, time or plan file."""

    exit_code = 2
    kind = "usage"


class ConfigError(UsageError):
    """The configuration is wrong somewhere; nothing ran."""

    kind = "config"


class EmptyPolicyError(UsageError):
    """A policy without a single rule must never read as "remove everything"."""

    kind = "empty_policy"


class PlanFileError(UsageError):
    """A saved plan that is not whole, or does not belong to this home."""

    kind = "plan_file"


class NotAHomeError(UsageError):
    """The path is not the home of an agent that Holdfast knows."""

    kind = "not_a_home"


class DeclinedError(HoldfastError):
    """Nobody said yes."""

    exit_code = 3
    kind = "declined"


class BusyError(HoldfastError):
    """Another process is changing this home."""

    exit_code = 4
    kind = "busy"


class DamageError(HoldfastError):
    """Something that Holdfast wrote is no longer what it wrote."""

    exit_code = 5
    kind = "damage"


class StorageError(HoldfastError):
    """The file system said no: full, read-only, not permitted, gone."""

    kind = "storage"


class FullDiskError(StorageError):
    """There is no room left. What is on the disk is whole."""


class CannotUndoError(HoldfastError):
    """The operation is known, but there is nothing left to bring back."""

    kind = "cannot_undo"


class UnknownSessionError(UsageError):
    """No session has this id."""

    kind = "unknown_session"


class SessionExistsError(UsageError):
    """The id is taken, perhaps by one that differs in case only."""

    kind = "session_exists"


class SessionEndedError(HoldfastError):
    """The session has ended; it takes messages again once it is reopened."""

    kind = "session_ended"


class QueryError(UsageError):
    """The search query cannot be understood; the message points at the place."""

    kind = "query"


class SchemaError(HoldfastError):
    """A database of a newer version, or not one of ours: refused, and left as it is."""

    kind = "schema"


class GitFailedError(StorageError):
    """git could not do what it was asked. `said` is what it wrote about it."""

    kind = "git"

    def __init__(self, message: str, *, said: str = "") -> None:
        # The second is what git says when it writes a pack.
        full = ("No space left on device", "Out of diskspace")
        self.said = said
        self.disk_full = any(words in said for words in full)
        super().__init__(
            message,
            hint="The disk is full. Free some space and try again; nothing was changed."
            if self.disk_full
            else "Run `holdfast checkpoints verify` to see whether the store is whole.",
        )


class UnknownCheckpointError(UsageError):
    """No checkpoint has this id, or several begin so."""

    kind = "unknown_checkpoint"


class BudgetExceededError(HoldfastError):
    """A call would pass a budget of its session: it was not made, and the session has ended.

    `budget` names it as `Budgets` does; `used` counts what is in flight as well.
    """

    kind = "budget"

    def __init__(
        self, message: str, *, session_id: str, budget: str, used: float, limit: float
    ) -> None:
        super().__init__(
            message,
            hint="Raise the budget and reopen the session, or go on in a new one.",
        )
        self.session_id = session_id
        self.budget = budget
        self.used = used
        self.limit = limit


class UnknownCostError(UsageError):
    """A budget of cost cannot be kept: something was used whose cost nobody knows."""

    kind = "unknown_cost"
