"""Sessions whose process died: given the end that they never had.

That removes nothing, so there is nothing to bring back: whoever wants to go on with such a session
reopens it.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import BusyError, HoldfastError
from holdfast.homes.session_engine import Engines
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.sqlite.removing import Found


class AbandonedKeeper:
    """Ends abandoned sessions, at their last activity."""

    def __init__(self, engine: Engines) -> None:
        self._engine = engine

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Ending needs nothing."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        store = self._engine()
        if store is None:
            return [each.end(Result.FAILED, "there is no session store") for each in batch]
        try:
            with store.database.write() as db:
                # Once more inside the transaction: one may have come back to life, or to an end.
                found = store.look(db, [each.item.id for each in batch])
                outcomes = [_judged(each, found.get(each.item.id)) for each in batch]
                ended = [found[each.id].number for each in outcomes if each.result is Result.ENDED]
                store.end_abandoned(db, ended)
        except BusyError:
            raise  # each batch to come would wait as long
        except HoldfastError as error:
            return [each.end(Result.FAILED, error.message) for each in batch]
        return outcomes

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.SKIPPED, "the run ended before its turn") for each in batch]

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.REMOVED) for each in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [each.end(Result.FAILED, "an end is not undone: reopen it") for each in batch]


def _judged(removal: Removal, found: Found | None) -> Outcome:
    if found is None:
        return removal.end(Result.SKIPPED, "already gone")
    obstacle = found.obstacle(removal.item.version)
    return removal.end(Result.SKIPPED if obstacle else Result.ENDED, obstacle or "")
