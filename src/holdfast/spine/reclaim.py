"""Freeing the space that a store does not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports.runs import Space
from holdfast.spine.outcomes import ALREADY_GONE, NOT_REACHED

NOTHING_TO_RETURN = "there is nothing to bring back"


class Reclaim:
    """Frees the space that the stores of a home do not use. `spaces` are by the id of their
    item, which is last in a plan: after everything that frees space inside its store."""

    def __init__(self, spaces: Mapping[str, Space]) -> None:
        self._spaces = spaces

    def prepare(self, items: Sequence[PlanItem]) -> None:
        for item in items:
            if item.id in self._spaces:
                self._spaces[item.id].measure()

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._give_back(each) for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Nothing is half gone: the next run frees what a killed run did not."""
        return [each.end(Result.SKIPPED, NOT_REACHED) for each in batch]

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, NOTHING_TO_RETURN) for each in batch]

    def _give_back(self, removal: Removal) -> Outcome:
        space = self._spaces.get(removal.item.id)
        if space is None:  # a saved plan may name a store that this home does not have
            return removal.end(Result.SKIPPED, ALREADY_GONE)
        return space.give_back(removal)
