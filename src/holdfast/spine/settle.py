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

#: What settling did, item by item, for each operation that it closed.
Settled = Mapping[str, Sequence[Outcome]]


def settle_if_needed(home: Home, *, clock: Clock) -> Settled:
    """Settle what a killed run left; without need, nothing is written and nothing waits. Returns
    what `settle` does."""
    if all(operation.finished_at is not None for operation in home.log.read().operations):
        return {}
    with contextlib.suppress(BusyError), home.log.writing("settle") as log:
        return settle(log, home, clock=clock)
    return {}


def settle(log: LogWriter, home: Home, *, clock: Clock) -> Settled:
    """Bring each announced item of each unfinished operation to one side, and close it.

    What a removal had not announced is left alone: the next plan judges it on fresh knowledge.
    Files whose session has left go after it.
    What an undo or a restore had announced is brought back. An operation stays open while one
    of its items cannot be inspected: the home can still be changed. Returns what became of each
    item that was still open, for every operation that is closed now.
    """
    settled: dict[str, Sequence[Outcome]] = {}
    for unfinished in log.unfinished():
        returning = unfinished.action is not OperationAction.REMOVE
        with unfinished.resume() as journal:
            # What lies on another machine, only that one can look at.
            mine = [each for each in unfinished.pending if not log.elsewhere(each)]
            whole = len(mine) == len(unfinished.pending)
            sides = _Sides(set(unfinished.removed))
            ended: list[Outcome] = []
            for batch in batches(mine):
                doer = doer_of(home, batch)
                if returning:
                    # What a restore finds in its place may be what it had put there itself.
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
    """Record the results of items. False when one of them could not be inspected: then the
    operation stays open, and the next run tries again."""
    ended = zip(batch, outcomes, strict=True)
    known = [each for each in ended if each[1].result is not Result.PENDING]
    if known:
        journal.record([each for each, _ in known], [outcome for _, outcome in known])
    return len(known) == len(batch)


@dataclass(slots=True)
class _Sides:
    """Settles removals, and remembers what is gone and what could not be inspected: a file is on
    the side of its session."""

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
    """The result of each item. One that cannot be read is reported alone: it must not block
    changes to this home forever."""
    if not batch:
        return ()
    try:
        return act(batch)
    except UNREADABLE as error:
        if len(batch) == 1:
            return [batch[0].end(Result.DAMAGED, in_words(error))]
    return [outcome for each in batch for outcome in _settled(act, (each,))]
