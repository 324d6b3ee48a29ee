"""Who goes along when a session goes: those that only worked for it.

Everybody else who came from it stays, and is detached from it when it goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model.item import SESSION, Item
from holdfast.policy.decision import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Along:
    """Which delegates go with a session: those with at most `trivial_max` messages, or all."""

    trivial_max: int | None


class Delegates:
    """The delegates that go with their parents: not substantial, not held.

    That they are young, the newest of their group, or kept by a rule does not save them: nobody
    but their parent needed them. Neither does a title, unless `keep_titled` says so. Without
    `trivial_max` every delegate goes, as long as nothing holds it.
    """

    def __init__(
        self, decisions: Iterable[Decision], trivial_max: int | None, *, keep_titled: bool = False
    ) -> None:
        self._of: dict[str, list[Decision]] = defaultdict(list)
        for decision in decisions:
            item = decision.item
            if not item.delegate or decision.held is not None or (keep_titled and item.titled):
                continue
            if _is_small(item, trivial_max):
                self._of[item.parent].append(decision)

    def follow(self, gone: Iterable[Decision]) -> list[Decision]:
        """Let them go as those went, and theirs with them; all that did not go anyway."""
        followed: list[Decision] = []
        if not self._of:  # as a rule, and there may be very many that go
            return followed
        waiting = [each for each in gone if each.item.kind == SESSION]
        while waiting:
            parent = waiting.pop()
            staying = [child for child in self._of.get(parent.item.id, ()) if child.kept]
            for child in staying:
                reason = f"delegate of a session that goes: {parent.item.id}"
                child.remove(reason, undoable=parent.undoable)
            followed += staying
            waiting += staying
        return followed


def _is_small(item: Item, trivial_max: int | None) -> bool:
    """One whose messages nobody counted may be substantial."""
    return trivial_max is None or (item.messages is not None and item.messages <= trivial_max)
