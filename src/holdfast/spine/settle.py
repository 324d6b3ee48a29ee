"""Finish what a killed run left open, before anything new begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from holdfast.errors import UNREADABLE, BusyError, in_words
from holdfast.model.operation import INTERRUPTED, OperationAction, Removal
from holdfast.model.report import Outcome, Result
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Doer, Journal, LogWriter
from holdfast.spine.carry_out import batches, doer_of
from holdfast.value import dataclass, field

#: For each operation that settling closed: the outcomes of its items.
Settled = Mapping[str, Sequence[Outcome]]


def settle_if_needed(home: Home, *, clock: Clock) -> Settled:
    """Settle what a killed run left. If there is nothing, do not write or wait. Returns as
    `settle`."""
    if all(operation.finished_at is not None for operation in home.log.read().operations):
        return {}
    with contextlib.suppress(BusyError), home.log.writing("settle") as log:
        return settle(log, home, clock=clock)
    return {}


def settle(log: LogWriter, home: Home, *, clock: Clock) -> Settled:
    """Finish or roll back each announced item of each unfinished operation, and close the
    operation.

    Items that a removal had not announced are left alone: the next plan judges them with fresh
    data. Files whose session has left are removed too. Items that an undo or a restore had
    announced are brought back. If an item cannot be inspected, its operation stays open; the home
    can still be changed. Returns, for each operation that is closed now, the outcomes of the items
    that were still open.
    """
    settled: dict[str, Sequence[Outcome]] = {}
    for unfinished in log.unfinished():
        returning = unfinished.action is not OperationAction.REMOVE
        with unfinished.resume() as journal:
            # Items on another machine can be inspected only there.
            mine = [each for each in unfinished.pending if not log.elsewhere(each)]
            whole = len(mine) == len(unfinished.pending)
            sides = _Sides(set(unfinished.removed))
            ended: list[Outcome] = []
            for batch in batches(mine):
                doer = doer_of(home, batch)
                if returning:
                    # What a restore finds in the item's place may be what it wrote there itself.
                    restores = unfinished.action is OperationAction.RESTORE
                    act = doer.settle if restores else doer.undo
                    outcomes = _settled(act, batch)
                else:
                    outcomes = sides.settled(doer, batch)
                whole &= record_settled(journal, batch, outcomes)
                ended += outcomes
            if whole:
                journal.finish(at=clock(), stopped=INTERRUPTED)
                settled[unfinished.operation] = ended
    return settled


def record_settled(journal: Journal, batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> bool:
    """Record results. Return False if an item could not be inspected: then the operation stays
    open, and the next run tries again."""
    ended = zip(batch, outcomes, strict=True)
    known = [each for each in ended if each[1].result is not Result.PENDING]
    if known:
        journal.record([each for each, _ in known], [outcome for _, outcome in known])
    return len(known) == len(batch)


@dataclass(slots=True)
class _Sides:
    """Settles removals and remembers which items are gone or could not be inspected, because a file
    has to share the fate of its session."""

    gone: set[str]
    unknown: set[str] = field(default_factory=set)

    def settled(self, doer: Doer, batch: Sequence[Removal]) -> Sequence[Outcome]:
        waiting = [each for each in batch if each.item.goes_with in self.unknown]
        ready = [each for each in batch if each.item.goes_with not in self.unknown]
        outcomes = {each.key: each.end(Result.PENDING) for each in waiting}
        outcomes |= _by_key(ready, _settled(doer.settle, ready))
        left = [
            each
            for each in ready
            if each.item.goes_with in self.gone and outcomes[each.key].result is Result.SKIPPED
        ]
        outcomes |= _by_key(left, _settled(doer.do, left))
        found = [outcomes[each.key] for each in batch]
        self.gone |= {each.id for each in found if each.result is Result.REMOVED}
        self.unknown |= {each.id for each in found if each.result is Result.PENDING}
        return found


def _by_key(batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> Mapping[str, Outcome]:
    return {each.key: outcome for each, outcome in zip(batch, outcomes, strict=True)}


def _settled(
    act: Callable[[Sequence[Removal]], Sequence[Outcome]], batch: Sequence[Removal]
) -> Sequence[Outcome]:
    """Return the outcome of each item. An unreadable item is reported on its own: it must not block
    changes to this home forever."""
    if not batch:
        return ()
    try:
        return act(batch)
    except UNREADABLE as error:
        if len(batch) == 1:
            return [batch[0].end(Result.DAMAGED, in_words(error))]
    return [outcome for each in batch for outcome in _settled(act, (each,))]
