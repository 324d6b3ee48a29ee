"""What neither Hermes's checkpoint store nor ours needs, as an item: removing it frees it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import BusyError, HoldfastError
from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.homes.hermes.repository.reclaim import reclaim
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports import Clock, Keeper


class HermesSpaceKeeper:
    """Gives back space of both stores; `own` is who does that for ours."""

    def __init__(self, layout: HermesLayout, own: Keeper, clock: Clock) -> None:
        self._layout = layout
        self._own = own
        self._clock = clock

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """It measures by itself."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._give_back(removal) for removal in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._own.settle(batch)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._own.discard(batch)

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._own.bring_back(batch)

    def _give_back(self, removal: Removal) -> Outcome:
        own = self._own.remove([removal])[0]
        if not self._layout.exists():
            return own
        try:
            done = reclaim(self._layout, now=self._clock(), holder="checkpoints prune")
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message, freed=own.bytes_freed)
        except HoldfastError as error:
            hint = f" {error.hint}" if error.hint else ""
            return removal.end(Result.FAILED, error.message + hint, freed=own.bytes_freed)
        ours = own.reason if own.result is not Result.SKIPPED else ""
        note = "; ".join(each for each in (done.note, ours) if each)
        if own.result is Result.FAILED:
            return removal.end(Result.FAILED, note, freed=done.freed + own.bytes_freed)
        return removal.end(Result.RECLAIMED, note, freed=done.freed + own.bytes_freed)
