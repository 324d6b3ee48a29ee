"""Older repositories of Hermes, one for each directory: whether one may go now.

An older Hermes writes into those that nobody moved aside. So they stay while a Hermes runs that may
be so old.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports import Keeper
from holdfast.stores.checkpoints.repository import LEGACY_PREFIX

_IN_USE = "it may write into repositories of the older layout"


class HermesLegacyKeeper:
    """Asks before it lets `keeper` remove something. `running` says who may be writing."""

    def __init__(
        self, layout: HermesLayout, keeper: Keeper, running: Callable[[], str | None]
    ) -> None:
        self._layout = layout
        self._keeper = keeper
        self._running = running

    def prepare(self, items: Sequence[PlanItem]) -> None:
        self._keeper.prepare(items)

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._remove(each) for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._keeper.settle(batch)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._keeper.discard(batch)

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._keeper.bring_back(batch)

    def _remove(self, removal: Removal) -> Outcome:
        why = self._why_not(removal)
        if why is not None:
            return removal.end(Result.SKIPPED, why)
        return self._keeper.remove([removal])[0]

    def _why_not(self, removal: Removal) -> str | None:
        if removal.item.id.startswith(LEGACY_PREFIX) or self._layout.exists():
            return None  # no Hermes writes there any more
        why = self._running()
        return None if why is None else f"{why}; {_IN_USE}"
