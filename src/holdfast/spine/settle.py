"""Finish what a killed run left open, before anything new begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from holdfast.errors import UNREADABLE, BusyError, in_words
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.report import Outcome, Result
from holdfast.ports import Clock, Home, Journal, LogWriter
from holdfast.spine.carry_out import batches, doer_of

INTERRUPTED = "interrupted; settled by a later run"


def settle_if_needed(home: Home, *, clock: Clock) -> None:
    """Settle what a killed run left; without need, nothing is written and nothing waits."""
    if all(operation.finished_at is not None for operation in home.log.read().operations):
        return
    with contextlib.suppress(BusyError), home.log.writing("settle") as log:
        settle(log, home, clock=clock)


def settle(log: LogWriter, home: Home, *, clock: Clock) -> Sequence[str]:
    """Bring each announced item of each unfinished operation to one side, and close it.

    What a removal had not announced is left alone: the next plan judges it on fresh knowledge.
    What an undo or a restore had announced is brought back. An operation stays open while one
    of its items cannot be inspected: the home can still be changed. Returns the operations
    that were settled.
    """
    settled = []
    for unfinished in log.unfinished():
        returning = unfinished.action is not OperationAction.REMOVE
        with unfinished.resume() as journal:
            whole = True
            for batch in batches(unfinished.pending):
                doer = doer_of(home, batch)
                act = doer.undo if returning else doer.settle
                whole &= record_settled(journal, batch, _settled(act, batch))
            if whole:
                journal.finish(at=clock(), stopped=INTERRUPTED)
                settled.append(unfinished.operation)
    return settled


def record_settled(journal: Journal, batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> bool:
    """Record the results of items. False when one of them could not be inspected: then the
    operation stays open, and the next run tries again."""
    ended = zip(batch, outcomes, strict=True)
    known = [each for each in ended if each[1].result is not Result.PENDING]
    if known:
        journal.record([each for each, _ in known], [outcome for _, outcome in known])
    return len(known) == len(batch)


def _settled(
    act: Callable[[Sequence[Removal]], Sequence[Outcome]], batch: Sequence[Removal]
) -> Sequence[Outcome]:
    """The result of each item. One that cannot be read is reported alone: it must not block
    changes to this home forever."""
    try:
        return act(batch)
    except UNREADABLE as error:
        if len(batch) == 1:
            return [batch[0].end(Result.DAMAGED, in_words(error))]
    return [outcome for each in batch for outcome in _settled(act, (each,))]
