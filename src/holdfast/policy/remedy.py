"""Which measure frees most space, by bytes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from holdfast.value import dataclass


class Remedy(StrEnum):
    """What the user can do. A command removes what the policy would remove; leftovers go only once
    the user sets how long they are to stay."""

    PRUNE = "prune"
    TRASH = "trash"
    LEFTOVERS = "leftovers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeable:
    """Bytes that could be freed, and those of sessions, for comparison."""

    policy: int = 0
    trash: int = 0
    leftovers: int = 0
    sessions: int = 0

    @property
    def best(self) -> Remedy | None:
        """The measure that frees most; None if there is nothing to free. Leftovers count only if
        they are more than all sessions: otherwise the agent may need them more than the user needs
        the space."""
        left = self.leftovers if self.leftovers > self.sessions else 0
        sizes = {Remedy.PRUNE: self.policy, Remedy.TRASH: self.trash, Remedy.LEFTOVERS: left}
        most = max(sizes, key=lambda each: sizes[each])
        return most if sizes[most] else None

    def bytes_of(self, remedy: Remedy) -> int:
        return {
            Remedy.PRUNE: self.policy,
            Remedy.TRASH: self.trash,
            Remedy.LEFTOVERS: self.leftovers,
        }[remedy]


def together(homes: Iterable[Freeable]) -> Freeable:
    found = list(homes)
    return Freeable(
        policy=sum(each.policy for each in found),
        trash=sum(each.trash for each in found),
        leftovers=sum(each.leftovers for each in found),
        sessions=sum(each.sessions for each in found),
    )
