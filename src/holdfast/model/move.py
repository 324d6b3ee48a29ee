"""What a mover sees of an item, and what it did to it."""

from __future__ import annotations

from holdfast.model.report import Result
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Where an item is: in its place, in the trash, in both or in neither.

    `here` is None when nobody can look, and `obstacle` says why. `partly` means that a move began
    and is not complete: some parts have left, or the last check in the trash is missing. `ours`
    says that what is in the place is the item of the plan, and not another one with its name.
    """

    here: bool | None
    copied: bool = False
    partly: bool = False
    ours: bool = True
    #: What is in the place is the item of the plan, in another version.
    changed: bool = False
    #: Why the item may not leave now: somebody changed it, or it is alive.
    obstacle: str = ""
    #: Something else is where the copy of this item would go.
    taken: bool = False
    #: What a person reads when something else is in the place, if there is more to say than usual.
    in_the_way: str = ""
    #: Why nothing can come back from the copy.
    damage: str = ""
    #: The size of the copy. When there is neither item nor copy: what the removal freed.
    bytes: int = 0
    #: The version of a part. Movers of whole items compare it themselves, and set `ours`.
    stamp: str = ""


def unseen(reason: str) -> Presence:
    """Nobody can look at it, for this reason."""
    return Presence(here=None, obstacle=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a mover did to one item. Without a `result` it did what it was asked to."""

    result: Result | None = None
    reason: str = ""
    #: Whether there is a copy in the trash now; after `discard`, whether there was one.
    copied: bool = False
    #: The size of the copy; after `discard`, the bytes that the file system gave back.
    bytes: int = 0

    @property
    def done(self) -> bool:
        return self.result is None


def stayed(reason: str) -> Moved:
    """It was left as it is, because it changed or is alive."""
    return Moved(result=Result.SKIPPED, reason=reason)


def failed(reason: str) -> Moved:
    return Moved(result=Result.FAILED, reason=reason)


def damaged(reason: str) -> Moved:
    return Moved(result=Result.DAMAGED, reason=reason)
