"""Free pages and the write-ahead log as an item: removing it gives the space back.

It stands last in a plan, after everything that makes free pages. What it freed is what the file
system says: the store before the run, less the store and its undo copies after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.errors import BusyError, HoldfastError
from holdfast.homes.session_engine import Engines
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.sqlite import space


class SpaceKeeper:
    """Gives back what the session store does not use."""

    def __init__(self, engine: Engines, copies: Callable[[str], Path]) -> None:
        self._engine = engine
        self._copies = copies
        self._before: int | None = None

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Measure, before the first session goes."""
        store = self._engine()
        self._before = None if store is None else space.footprint(store.database)

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
        store = self._engine()
        if store is None:
            return removal.end(Result.SKIPPED, "already gone")
        before = space.footprint(store.database) if self._before is None else self._before
        self._before = None
        try:
            store.give_back()
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message)  # the next run gives it back
        except HoldfastError as error:
            store.database.truncate_log()  # the operation log needs room too
            return removal.end(Result.FAILED, error.message)
        copied = space.allocated_in(self._copies(removal.operation))
        freed = before - space.footprint(store.database) - copied
        return removal.end(Result.RECLAIMED, freed=max(0, freed))
