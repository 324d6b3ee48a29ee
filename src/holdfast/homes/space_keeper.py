"""Free pages and the write-ahead log as an item: removing it gives the space back.

It stands last in a plan, after everything that makes free pages. What it freed is what the file
system says: the store before the run, less the store and its undo copies after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.sqlite import space
from holdfast.stores.sqlite.sessions import SqliteSessionStore


class SpaceKeeper:
    """Gives back what the session store does not use."""

    def __init__(
        self, store: Callable[[], SqliteSessionStore | None], copies: Callable[[str], Path]
    ) -> None:
        self._store = store
        self._copies = copies
        self._before: int | None = None

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Measure, before the first session goes."""
        store = self._store()
        self._before = None if store is None else space.footprint(store.database)

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._give_back(removal) for removal in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Nothing is half gone: what a killed run did not give back, the next one does."""
        return [_end(removal, Result.SKIPPED, "the run ended before its turn") for removal in batch]

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [_end(removal, Result.REMOVED) for removal in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [_end(removal, Result.FAILED, "there is nothing to bring back") for removal in batch]

    def _give_back(self, removal: Removal) -> Outcome:
        store = self._store()
        if store is None:
            return _end(removal, Result.SKIPPED, "already gone")
        before = space.footprint(store.database) if self._before is None else self._before
        self._before = None
        space.give_back(store.database)
        copied = space.allocated_in(self._copies(removal.operation))
        freed = before - space.footprint(store.database) - copied
        return _end(removal, Result.RECLAIMED, freed=max(0, freed))


def _end(removal: Removal, result: Result, reason: str = "", *, freed: int = 0) -> Outcome:
    return Outcome(
        kind=removal.item.kind,
        id=removal.item.id,
        result=result,
        reason=reason,
        bytes_freed=freed,
    )
