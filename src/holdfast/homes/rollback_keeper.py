"""Projects that are rolled back to a checkpoint, and brought back to where they were.

The undo copy is the safety checkpoint. Going back is a restore between the same two checkpoints,
the other way round: what was changed since the rollback is neither as the one says nor as the
other, so it stays, and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.errors import BusyError, HoldfastError, UnknownCheckpointError
from holdfast.model.checkpoint import RestoreState
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports import CheckpointStore, Clock
from holdfast.services.rollback import left_alone, perform

_NO_STORE = "there is no checkpoint store in this home"
_NOT_REACHED = "the run ended before its turn"


class RollbackKeeper:
    """Keeps the working trees of projects."""

    def __init__(self, store: Callable[[], CheckpointStore | None], clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """A rollback needs nothing."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, lambda store, each: perform(store, each, now=self._clock())[0])

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._settle)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """The safety checkpoint is one like any other: it goes by the rules for those."""
        return [each.end(Result.REMOVED) for each in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._bring_back)

    def _settle(self, store: CheckpointStore, removal: Removal) -> Outcome:
        item = removal.item
        state = store.restore_state(item.target, item.version, paths=item.paths or None)
        if state is RestoreState.CUT:
            return perform(store, removal, now=self._clock())[0]
        if state is RestoreState.DONE:
            return removal.end(Result.ROLLED_BACK)
        return removal.end(Result.SKIPPED, _NOT_REACHED)

    def _bring_back(self, store: CheckpointStore, removal: Removal) -> Outcome:
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
            return [each.end(Result.FAILED, _NO_STORE) for each in batch]
        outcomes = []
        for each in batch:
            try:
                outcomes.append(step(store, each))
            except BusyError:
                raise  # the next run settles it
            except HoldfastError as error:
                hint = "" if error.hint is None else f" {error.hint}"
                outcomes.append(each.end(Result.FAILED, f"{error.message}{hint}"))
        return outcomes
