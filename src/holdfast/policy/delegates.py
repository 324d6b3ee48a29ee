"""Which delegates are removed together with their parent, whatever was decided about them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from holdfast.model.item import SESSION
from holdfast.policy.decision import Decision


class Delegates:
    """The delegates that are removed with their parent: those with at most `most` messages that
    nothing holds. With an infinite `most`, or for one that `follows`, the size does not matter;
    otherwise a session without a message count may be substantial, and stays.

    Being young, being the newest of its group or being kept by a rule does not save a delegate:
    only its parent needed it. A title saves it only with `keep_titled`. All other children stay
    when their parent goes; they are detached from it.
    """

    def __init__(
        self, decisions: Iterable[Decision], most: float, *, keep_titled: bool = False
    ) -> None:
        self._of: dict[str, list[Decision]] = defaultdict(list)
        for decision in decisions:
            item = decision.item
            titled = keep_titled and item.titled and not item.follows
            if not item.delegate or decision.held is not None or titled:
                continue
            every = item.follows or most == math.inf
            if every or (item.messages is not None and item.messages <= most):
                self._of[item.parent].append(decision)

    def follow(self, gone: Iterable[Decision]) -> list[Decision]:
        """Remove the delegates of these sessions, and in turn their delegates. Returns those that
        would otherwise have stayed."""
        followed: list[Decision] = []
        if not self._of:  # the usual case, and the number of sessions may be very large
            return followed
        waiting = [each for each in gone if each.item.kind == SESSION]
        while waiting:
            parent = waiting.pop()
            staying = [child for child in self._of.get(parent.item.id, ()) if child.kept]
            for child in staying:
                reason = f"delegate of a session that is removed: {parent.item.id}"
                child.remove(reason, undoable=parent.undoable)
            followed += staying
            waiting += staying
        return followed
