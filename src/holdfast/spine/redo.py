"""Do again what an undo took back.

A redo is a plan of the items that the undo brought back, with the versions that they had when they
first left. So it goes through `apply` like every removal: it has a number in the log, a killed redo
is settled, it can be undone, and items that changed since stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import CannotUndoError, DamageError, NothingToUndoError, UsageError
from holdfast.model.item import PROJECT
from holdfast.model.operation import (
    MAINTAIN,
    UNASKED,
    LogView,
    Operation,
    OperationAction,
    OperationState,
    Removal,
)
from holdfast.model.plan import Action, Plan
from holdfast.ports.home import Home
from holdfast.spine.undo import Foreseen, expect_whole, foreseen, is_cut


def plan_redo(home: Home, operation_id: str | None, *, now: float) -> tuple[Operation, Plan]:
    """Return the operation to redo (default: the one that was undone last) and the plan for it."""
    view = home.log.read()
    target = choose(view, operation_id)
    plan = Plan(
        home=str(home.root),
        command=f"redo {target.id}",
        made_at=now,
        items=tuple(each.item for each in _of(view, target.id)),
        redoes=target.id,
    )
    return target, plan


def first_command(log: LogView, operation: Operation) -> str:
    """Return the command that the user typed: a redo of a redo repeats the first operation."""
    by_id = {each.id: each for each in log.operations}
    while operation.redoes is not None and operation.redoes in by_id:
        operation = by_id[operation.redoes]
    return operation.command


def foresee(home: Home, plan: Plan) -> Mapping[str, Foreseen]:
    """Return what redoing restores would do to their projects, by project id."""
    projects = {each.id: each for each in plan.steps if each.kind == PROJECT}
    return foreseen(home, projects, undoing=False)


def choose(log: LogView, operation_id: str | None) -> Operation:
    """Return the requested operation, or the operation of the latest undo that has not been redone.

    The latest is tried only once: if part of it could not be redone, the next plain redo moves on
    to the undo before it. With its number, an operation can be redone for what is left of it. A
    redo that was killed is finished first.
    """
    if operation_id is not None:
        chosen = _meant(log, operation_id)
        _check(log, chosen)
        return chosen
    cut = [each for each in log.operations if each.own and each.finished_at is None]
    by_id = {each.id: each for each in log.operations}
    killed = [by_id[each.redoes] for each in cut if each.redoes in by_id]
    if killed:
        return killed[-1]
    found = expect_undos(log)
    undoing = [each for each in cut if each.undoes is not None]
    if undoing and found and int(found[-1][0].id) <= int(undoing[-1].id):
        raise _unfinished(undoing[-1], [each for each, _ in found if each not in undoing])
    if found:
        return found[-1][1]
    if cut:
        raise _nothing_but(cut[-1])
    tried = [each.operation for each in log.undone if each.item.action is not Action.RECLAIM]
    if tried:
        raise NothingToUndoError(
            f"There is nothing else to redo in this home: operation {tried[-1]} is still undone, "
            "and a redo of it was tried.",
            hint=f"To try it once more: holdfast redo {tried[-1]}",
        )
    raise NothingToUndoError(_why_nothing(log), hint="`holdfast log` lists what was done.")


def _why_nothing(log: LogView) -> str:
    by_id = {each.id: each for each in log.operations}
    tried = [each for each in log.operations if (each.undoes or each.redoes) in by_id]
    if not tried:
        return "There is nothing to redo: nothing was undone in this home."
    last = tried[-1]
    target = by_id[last.undoes or last.redoes or ""]
    what = f"operation {target.id} ({first_command(log, target)})"
    if last.redoes:
        return (
            "There is nothing left to redo: everything that was undone was redone. "
            f"The last was {what}, redone by operation {last.id}."
        )
    return f"There is nothing left to redo: what came back of {what} has left or changed since."


def _unfinished(cut: Operation, before: Sequence[Operation]) -> NothingToUndoError:
    """The error when the latest undo was killed: the user did not mean the one before it."""
    hint = f"To finish it: holdfast undo {cut.undoes}. After that, `holdfast redo` does it again."
    if before:
        hint += f" To redo the one before it: holdfast redo {before[-1].undoes}"
    return NothingToUndoError(
        f"The latest undo, operation {cut.id} ({cut.command}), was interrupted and is not "
        "finished.",
        hint=hint,
    )


def _nothing_but(cut: Operation) -> NothingToUndoError:
    """The error when there is nothing to redo, possibly because a killed run is unfinished."""
    hint = "The next command that changes this home settles it."
    if cut.undoes is not None:
        hint = (
            f"To finish it: holdfast undo {cut.undoes}. After that, `holdfast redo` does it again."
        )
    elif cut.action is OperationAction.RESTORE:
        hint = "The same command again finishes it."
    elif cut.command not in UNASKED and cut.command != MAINTAIN:
        hint = f"The same command again finishes it. To undo it instead: holdfast undo {cut.id}"
    return NothingToUndoError(
        f"There is nothing to redo in this home, but operation {cut.id} ({cut.command}) was "
        "interrupted and is not finished.",
        hint=hint,
    )


def to_redo(log: LogView) -> Sequence[tuple[Operation, Operation]]:
    """Return the undos of this home that have not been redone, each with the operation that it
    undid, the latest last. A killed redo does not count: it still has to be finished."""
    by_id = {each.id: each for each in log.operations}
    left = {each.operation for each in log.undone}
    killed = {each.id for each in log.operations if each.own and each.finished_at is None}
    return [
        (undo, target)
        for undo in log.operations
        if undo.action is OperationAction.UNDO
        and undo.own
        and (target := by_id.get(undo.undoes or "")) is not None
        and target.id in left
        and all(int(redo) < int(undo.id) for redo in target.redone_by if redo not in killed)
    ]


def expect_undos(log: LogView) -> Sequence[tuple[Operation, Operation]]:
    """Return `to_redo`. Raise if the record of a later operation is damaged: it may be the latest
    undo."""
    found = to_redo(log)
    undo, target = found[-1] if found else (None, None)
    tried = [each for each in log.operations if each.undoes or each.redoes]
    expect_whole(log, undo or (tried[-1] if tried else None), target, verb="redo")
    return found


def _meant(log: LogView, operation_id: str) -> Operation:
    """Find the operation by its own number or by the number of its undo."""
    by_id = {each.id: each for each in log.operations}
    found = by_id.get(operation_id)
    if found is None:
        if any(Path(each.path).stem == operation_id for each in log.problems):
            raise DamageError(f"Operation {operation_id} cannot be redone, its record is damaged.")
        raise UsageError(
            f"There is no operation {operation_id!r} in this home.",
            hint="`holdfast log` lists them.",
        )
    return by_id.get(found.undoes or "", found)


def _check(log: LogView, operation: Operation) -> None:
    if any(_of(log, operation.id)) or is_cut(log, operation.redone_by):
        return
    number = operation.id
    if operation.redone_by:
        by = operation.redone_by[-1]
        raise CannotUndoError(f"Operation {number} was already redone, by operation {by}.")
    if operation.undone_by:
        since = "was changed" if operation.changed else "has left"
        raise CannotUndoError(
            f"Operation {number} was undone, and what came back {since} again since.",
            hint="`holdfast log` lists what was done.",
        )
    if operation.state is OperationState.UNFINISHED:
        raise CannotUndoError(
            f"Operation {number} did not finish, and was not undone.",
            hint="The next command that changes this home settles it.",
        )
    raise CannotUndoError(
        f"Operation {number} was not undone, so there is nothing to do again.",
        hint=f"To undo it: holdfast undo {number}",
    )


def _of(log: LogView, operation: str) -> Sequence[Removal]:
    return [each for each in log.undone if each.operation == operation]
