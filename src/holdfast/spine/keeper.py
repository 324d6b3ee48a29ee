"""The one keeper: removes and restores items of every kind.

A mover looks, the table of outcomes decides, the mover acts. Write-order rule: the copy is durable
before the item is dropped, and goes after the item is back in its place.
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
    """The doer for everything that leaves its place. With `keeps_copies` the copies are not for
    undo alone, as in the archive: they stay whatever a plan says."""

    def __init__(self, mover: Mover, *, keeps_copies: bool = False) -> None:
        self._mover = mover
        self._keeps_copies = keeps_copies

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        return self._mover.prepare(items)

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Remove items. Those that are not `undoable` lose their copies at the very end."""
        return self._carried_out(batch, lambda _, seen: judge_removal(seen))

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """After a kill inside `do`: remove each item whole, or leave it whole in its place."""
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
    """Carries out the verdicts on one batch. Items are numbered by their place in it."""

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
        #: The result of each: until something is done, what was seen.
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
        # Only now: until an item is back in its place, its copy is all there is.
        for each in self._act(self._mover.discard, copied):
            if self._moved[each].done:
                self._moved[each] = Moved(reason=notes[each])

    def discard_for_good(self) -> None:
        """An item that is gone for good needs its copy no longer."""
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
            if moved.done and notes[each]:  # what stayed behind, stayed all the same
                self._moved[each] = replace(moved, reason=notes[each])

    def outcomes(self, *, kept: bool) -> Sequence[Outcome]:
        ended = zip(self._batch, self._verdicts, self._moved, strict=True)
        return [_outcome(*each, kept=kept) for each in ended]

    def _asked(self, *steps: Step) -> list[int]:
        """Those that have to go through one of these steps, and did not fail before."""
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
    if removal.item.undoable and not kept:  # a copy that is kept is no trash
        return removal.end(Result.REMOVED, reason, in_trash=moved.bytes, of_rows=moved.of_rows)
    return removal.end(
        Result.REMOVED,
        reason,
        freed=moved.bytes,
        of_rows=moved.of_rows,
        in_archive=moved.in_archive,
    )


class OneStepMover:
    """What movers share whose `drop` keeps the copy in the same step: a rename, a reference that
    moves. They have nothing to prepare, and need no copy before."""

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        return None

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return [UNMOVED] * len(batch)


def one_by_one(
    batch: Sequence[Removal],
    step: Callable[[Removal], _Answer],
    refuse: Callable[[str], _Answer],
) -> Sequence[_Answer]:
    """Run a step for each item; one that fails does not affect the others."""
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
    """What a mover says about each; when it could not continue, that is said about all of them."""
    try:
        return act(batch)
    except BusyError:
        raise  # every further batch would wait as long; the next run settles this one
    except (HoldfastError, OSError) as error:
        return [failed(in_a_word(error))] * len(batch)


def in_a_word(error: HoldfastError | OSError) -> str:
    """What an error says to a person, with its way out if it names one."""
    if isinstance(error, HoldfastError):
        return error.message if error.hint is None else f"{error.message} {error.hint}"
    return str(error.strerror or error)
