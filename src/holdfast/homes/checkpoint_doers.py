"""Doers for checkpoints: they roll projects back, and give back what no checkpoint holds.

The undo copy of a rollback is the safety checkpoint. Going back is a restore between the same two
checkpoints, the other way round: what was changed since the rollback is neither as the one says nor
as the other, so it stays, and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.errors import BusyError, HoldfastError, UnknownCheckpointError
from holdfast.model.checkpoint import RestoreState
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports import CheckpointStore, Clock
from holdfast.services.rollback import left_alone, perform
from holdfast.spine.keeper import in_a_word
from holdfast.spine.outcomes import ALREADY_GONE, NO_CHECKPOINT_STORE, NOT_REACHED
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.repository import Layout
from holdfast.value import replace


class RollBack:
    """The doer for working trees of projects."""

    def __init__(self, store: Callable[[], CheckpointStore | None], clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """A rollback needs nothing."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, lambda store, each: perform(store, each, now=self._clock())[0])

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._settle)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._undo)

    def _settle(self, store: CheckpointStore, removal: Removal) -> Outcome:
        item = removal.item
        state = store.restore_state(item.target, item.version, paths=item.paths or None)
        if state is RestoreState.CUT:
            return perform(store, removal, now=self._clock())[0]
        if state is RestoreState.DONE:
            return removal.end(Result.ROLLED_BACK)
        return removal.end(Result.SKIPPED, NOT_REACHED)

    def _undo(self, store: CheckpointStore, removal: Removal) -> Outcome:
        item = removal.item
        try:
            done = store.restore(
                item.version, item.target, paths=item.paths or None, now=self._clock()
            )
        except UnknownCheckpointError as error:
            return removal.end(Result.FAILED, f"a checkpoint that it needs is gone: {error}")
        if done.kept and not done.written and not done.deleted:
            return removal.end(Result.FAILED, left_alone(done.kept))
        outcome = removal.end(Result.BROUGHT_BACK, left_alone(done.kept))
        return replace(outcome, written=done.written, deleted=done.deleted)

    def _each(
        self,
        batch: Sequence[Removal],
        step: Callable[[CheckpointStore, Removal], Outcome],
    ) -> Sequence[Outcome]:
        """One that fails does not cost the others, and stands in nobody's way: what it left can be
        finished or taken back later."""
        store = self._store()
        if store is None:
            return [each.end(Result.FAILED, NO_CHECKPOINT_STORE) for each in batch]
        outcomes = []
        for each in batch:
            try:
                outcomes.append(step(store, each))
            except BusyError:
                raise  # the next run settles it
            except HoldfastError as error:
                outcomes.append(each.end(Result.FAILED, in_a_word(error)))
        return outcomes


class CheckpointSpace:
    """Objects that no checkpoint holds. `limit` is the cap of the store, in bytes."""

    def __init__(self, layout: Layout, limit: int | None = None) -> None:
        self._layout = layout
        self._limit = limit

    def measure(self) -> None:
        """Reclaiming measures by itself."""

    def give_back(self, removal: Removal) -> Outcome:
        if not self._layout.exists():
            return removal.end(Result.SKIPPED, ALREADY_GONE)
        try:
            done = reclaim(self._layout, holder="checkpoints prune", limit=self._limit)
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message)  # the next run gives it back
        except HoldfastError as error:
            return removal.end(Result.FAILED, in_a_word(error))
        return removal.end(Result.RECLAIMED, done.note, freed=done.freed)
