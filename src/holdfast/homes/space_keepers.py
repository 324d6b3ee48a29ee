"""Space of several stores, each with its own keeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome
from holdfast.ports import Keeper


class SpaceKeepers:
    """Passes each item on to the keeper that its id says."""

    def __init__(self, keepers: Mapping[str, Keeper]) -> None:
        self._keepers = keepers

    def prepare(self, items: Sequence[PlanItem]) -> None:
        for name, keeper in self._keepers.items():
            mine = [item for item in items if item.id == name]
            if mine:
                keeper.prepare(mine)

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [outcome for each in batch for outcome in self._of(each).remove((each,))]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [outcome for each in batch for outcome in self._of(each).settle((each,))]

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [outcome for each in batch for outcome in self._of(each).discard((each,))]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [outcome for each in batch for outcome in self._of(each).bring_back((each,))]

    def _of(self, removal: Removal) -> Keeper:
        # A saved plan may name what this home does not have; any keeper says so.
        return self._keepers.get(removal.item.id) or next(iter(self._keepers.values()))
