"""The one keeper: removes and restores items of every kind.

A mover looks, the table of outcomes decides, the mover acts. Write-order rule: the copy is durable
before the item is dropped, and is discarded only after the item is back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.errors import BusyError, HoldfastError
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import UNMOVED, Moved, Outcome, Presence, Result, failed
from holdfast.ports.runs import Mover
from holdfast.spine.outcomes import (
    COPY_WAS_GONE,
    Step,
    Verdict,
    judge_interrupted,
    judge_removal,
    judge_return,
)
from holdfast.value import replace

_Judge = Callable[[Removal, Presence], Verdict]
_Act = Callable[[Sequence[Removal]], Sequence[Moved]]
_Answer = TypeVar("_Answer")


class Keeper:
    """The doer for items that can come back. With `keeps_copies`, copies serve more than undo (the
    archive), so they stay no matter what the plan says."""

    def __init__(self, mover: Mover, *, keeps_copies: bool = False) -> None:
        self._mover = mover
        self._keeps_copies = keeps_copies

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        return self._mover.prepare(items)

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Remove items. The copies of items that are not `undoable` are discarded last."""
        return self._carried_out(batch, lambda _, seen: judge_removal(seen))

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """After a kill inside `do`: remove each item completely, or keep it completely."""
        kept = self._keeps_copies
        return self._carried_out(
            batch,
            lambda each, seen: judge_interrupted(seen, undoable=kept or each.item.undoable),
            unseen=Result.PENDING,
        )

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Put items back from their copies."""
        return self._carried_out(batch, lambda _, seen: judge_return(seen))

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Remove undo copies for good."""
        return [
            each.end(
                moved.result or Result.REMOVED,
                moved.reason if moved.result or moved.copied else COPY_WAS_GONE,
                freed=moved.bytes,
            )
            for each, moved in zip(batch, told(self._mover.discard, batch), strict=True)
        ]

    def _carried_out(
        self, batch: Sequence[Removal], judge: _Judge, *, unseen: Result = Result.FAILED
    ) -> Sequence[Outcome]:
        try:
            seen = self._mover.look(batch)
        except BusyError:
            raise  # every further batch would wait as long; the next run settles this one
        except (HoldfastError, OSError) as error:
            return [each.end(unseen, in_a_word(error)) for each in batch]
        run = _Run(self._mover, batch, seen, [*map(judge, batch, seen)])
        run.leave()
        run.come_back()
        if not self._keeps_copies:
            run.discard_for_good()
        return run.outcomes(kept=self._keeps_copies)


class _Run:
    """Carries out the verdicts on one batch. Items are identified by their index in it."""

    def __init__(
        self,
        mover: Mover,
        batch: Sequence[Removal],
        seen: Sequence[Presence],
        verdicts: Sequence[Verdict],
    ) -> None:
        self._mover = mover
        self._batch = batch
        self._verdicts = verdicts
        #: The current state of each item: first what `look` saw, then the result of the last step.
        self._moved = [
            Moved(copied=each.copied, bytes=each.bytes) if each.copied or each.bytes else UNMOVED
            for each in seen
        ]

    def leave(self) -> None:
        self._act(self._mover.copy, self._asked(Step.GO))
        self._act(self._mover.drop, self._asked(Step.GO, Step.FINISH))

    def come_back(self) -> None:
        self._act(self._mover.put_back, self._asked(Step.PUT_BACK, Step.ROLL_BACK))
        back = self._asked(Step.PUT_BACK, Step.ROLL_BACK, Step.DISCARD)
        copied = [each for each in back if self._moved[each].copied]
        notes = {each: self._moved[each].reason for each in copied}
        # Only now: until the item is back, its copy is all there is.
        for each in self._act(self._mover.discard, copied):
            if self._moved[each].done:
                self._moved[each] = Moved(reason=notes[each])

    def discard_for_good(self) -> None:
        """Discard the copies of items that were removed for good."""
        gone = [
            each
            for each, verdict in enumerate(self._verdicts)
            if verdict.result is Result.REMOVED
            and not self._batch[each].item.undoable
            and self._moved[each].done
            and self._moved[each].copied
        ]
        notes = {each: self._moved[each].reason for each in gone}
        for each in self._act(self._mover.discard, gone):
            moved = self._moved[each]
            if moved.done and notes[each]:  # still true: what stayed behind is still there
                self._moved[each] = replace(moved, reason=notes[each])

    def outcomes(self, *, kept: bool) -> Sequence[Outcome]:
        ended = zip(self._batch, self._verdicts, self._moved, strict=True)
        return [_outcome(*each, kept=kept) for each in ended]

    def _asked(self, *steps: Step) -> list[int]:
        """Return the items whose verdict is one of these steps and that have not failed."""
        asked = [each for each, verdict in enumerate(self._verdicts) if verdict.step in steps]
        return [each for each in asked if self._moved[each].done]

    def _act(self, act: _Act, some: Sequence[int]) -> Sequence[int]:
        if some:
            moved = told(act, [self._batch[each] for each in some])
            for each, one in zip(some, moved, strict=True):
                self._moved[each] = one
        return some


def _outcome(removal: Removal, verdict: Verdict, moved: Moved, *, kept: bool) -> Outcome:
    if moved.result is not None:
        return removal.end(moved.result, moved.reason)
    reason = moved.reason or verdict.reason
    if verdict.result is not Result.REMOVED:
        return removal.end(verdict.result, reason, in_part=moved.in_part)
    if removal.item.undoable and not kept:  # a kept copy is not trash
        return removal.end(Result.REMOVED, reason, in_trash=moved.bytes, of_rows=moved.of_rows)
    return removal.end(
        Result.REMOVED,
        reason,
        freed=moved.bytes,
        of_rows=moved.of_rows,
        in_archive=moved.in_archive,
    )


class OneStepMover:
    """The common part of movers whose `drop` keeps the copy in the same step, such as a rename or a
    moved reference. They need no preparation and no separate copy."""

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        return None

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return [UNMOVED] * len(batch)


def one_by_one(
    batch: Sequence[Removal],
    step: Callable[[Removal], _Answer],
    refuse: Callable[[str], _Answer],
) -> Sequence[_Answer]:
    """Run a step for each item; a failure does not affect the other items."""
    answers = []
    for each in batch:
        try:
            answers.append(step(each))
        except BusyError:
            raise
        except (HoldfastError, OSError) as error:
            answers.append(refuse(in_a_word(error)))
    return answers


def told(act: _Act, batch: Sequence[Removal]) -> Sequence[Moved]:
    """Return the mover's result for each item. If it fails as a whole, every item has failed."""
    try:
        return act(batch)
    except BusyError:
        raise  # every further batch would wait as long; the next run settles this one
    except (HoldfastError, OSError) as error:
        return [failed(in_a_word(error))] * len(batch)


def in_a_word(error: HoldfastError | OSError) -> str:
    """Return the message of an error for the user, with its hint if it has one."""
    if isinstance(error, HoldfastError):
        return error.message if error.hint is None else f"{error.message} {error.hint}"
    return str(error.strerror or error)
