"""Objects that no checkpoint holds, as an item: removing it gives the space back.

It stands last in a plan, after everything that makes some. What it freed is what the file system
says.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import BusyError, HoldfastError
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.repository import Layout


class CheckpointSpaceKeeper:
    """Gives back what the checkpoint store does not use. `limit` is its cap, in bytes."""

    def __init__(self, layout: Layout, limit: int | None = None) -> None:
        self._layout = layout
        self._limit = limit

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """It measures by itself."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._give_back(removal) for removal in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Nothing is half gone: what a killed run did not give back, the next one does."""
        return [removal.end(Result.SKIPPED, "the run ended before its turn") for removal in batch]

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [removal.end(Result.REMOVED) for removal in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [removal.end(Result.FAILED, "there is nothing to bring back") for removal in batch]

    def _give_back(self, removal: Removal) -> Outcome:
        if not self._layout.exists():
            return removal.end(Result.SKIPPED, "already gone")
        try:
            done = reclaim(self._layout, holder="checkpoints prune", limit=self._limit)
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message)  # the next run gives it back
        except HoldfastError as error:
            hint = f" {error.hint}" if error.hint else ""
            return removal.end(Result.FAILED, error.message + hint)
        return removal.end(Result.RECLAIMED, done.note, freed=done.freed)
