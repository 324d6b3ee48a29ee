"""Bring back what an operation removed."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import (
    CannotUndoError,
    DamageError,
    HoldfastError,
    NothingToUndoError,
    UsageError,
)
from holdfast.model.checkpoint import RestoreState
from holdfast.model.operation import (
    MAINTAIN,
    UNASKED,
    LogView,
    Operation,
    OperationAction,
    OperationState,
    Removal,
)
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Report, Result
from holdfast.model.session import SessionFilter
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Progress
from holdfast.spine.carry_out import Silent, batches, carry_out, doer_of
from holdfast.spine.outcomes import BY_AN_IMPORT
from holdfast.spine.settle import Settled, settle
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Preview


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What undoing a restore would do to a project, or why it cannot be determined."""

    workdir: str
    preview: Preview | None = None
    problem: str = ""

    @property
    def seen(self) -> Sequence[object]:
        """The paths that it would touch and their current state, to compare with a later
        preview."""
        return sorted(self.preview.seen.items()) if self.preview else (self.problem,)


def undo_latest(
    home: Home, *, clock: Clock, progress: Progress | None = None
) -> tuple[Operation, Report]:
    """`undo` the latest operation of the home, skipping what an agent or its host did on its own.

    For users, who see which operation it is. A program undoes its own operations, by number.
    """
    return undo(home, None, clock=clock, progress=progress)


def undo(
    home: Home, operation_id: str | None, *, clock: Clock, progress: Progress | None = None
) -> tuple[Operation, Report]:
    """Bring back everything of one operation that is still in the trash.

    Items that cannot be restored (their place is taken, their copy is damaged) stay where they are,
    are named in the report, and can be tried again.
    """
    # Refuse before anything is locked or written. The choice is made now, because settling can
    # change which operation is the latest.
    chosen = choose(home.log.read(), operation_id).id
    with home.log.writing("undo") as writer:
        settled = settle(writer, home, clock=clock)
        finished = _finished(home.log.read(), chosen, settled)
        if finished is not None:
            return finished
        view = home.log.read()
        target = _by_id(view, chosen)
        _check(target, view)
        removals, far = _to_bring_back(view, target), elsewhere(view, target)
        files = archived_files(view, target)
        for batch in batches(removals):
            doer_of(home, batch)  # a home that cannot be changed raises before anything is written
        with writer.begin(
            action=OperationAction.UNDO, command=f"undo {target.id}", at=clock(), undoes=target.id
        ) as journal:
            report = carry_out(
                journal,
                removals,
                lambda doer, batch: doer.undo(batch),
                home,
                label="bringing back",
                clock=clock,
                progress=progress or Silent(),
            )
    back = {each.id for each in report.outcomes if each.result is Result.BROUGHT_BACK}
    files_back = sum(each.goes_with in back for each in files)
    return target, replace(
        report,
        outcomes=(*report.outcomes, *far),
        files_back=files_back,
        settled=tuple(settled),
    )


def preview(home: Home, operation_id: str | None) -> tuple[Operation, Sequence[Removal]]:
    """Return the operation that `undo` would take and what it would bring back, last removed first,
    so that each item returns to the state that it was removed from. This includes restores that
    were killed: they are finished first, then undone."""
    view = home.log.read()
    target = choose(view, operation_id)
    return target, [*_begun_restores(home, view, target), *_to_bring_back(view, target)]


def _to_bring_back(view: LogView, target: Operation) -> Sequence[Removal]:
    entries = [*view.trash, *view.archived, *view.rolled_back, *view.ended, *view.changed]
    mine = [each.removal for each in entries if each.removal.operation == target.id]
    return sorted(mine, key=lambda removal: -removal.number)


def _begun_restores(home: Home, view: LogView, target: Operation) -> Iterator[Removal]:
    mine = [each for each in view.pending if each.operation == target.id]
    rolling = [each for each in mine if each.item.action is Action.ROLL_BACK]
    store = home.checkpoint_store() if rolling else None
    if store is None:
        return
    for removal in rolling:
        item = removal.item
        with contextlib.suppress(HoldfastError):  # settling reports what is wrong with it
            state = store.restore_state(item.target, item.version, paths=item.paths or None)
            if state is not RestoreState.NOT_BEGUN:
                yield removal


def _finished(view: LogView, chosen: str, settled: Settled) -> tuple[Operation, Report] | None:
    """If settling has just finished a killed undo of this operation, return its report: that is
    what the user asked for."""
    mine = [each.id for each in view.operations if each.undoes == chosen and each.id in settled]
    target = next((each for each in view.operations if each.id == chosen), None)
    if not mine or target is None or _to_bring_back(view, target):
        return None
    outcomes = tuple(settled[mine[-1]])
    return target, Report(operation=mine[-1], outcomes=outcomes, settled=tuple(settled))


def elsewhere(log: LogView, target: Operation) -> Sequence[Outcome]:
    """Return outcomes for items that are left alone: they are on the machine that removed them."""
    mine = [each.removal for each in log.elsewhere if each.removal.operation == target.id]
    reason = f"its copy is on {target.machine}; `holdfast undo {target.id}` there brings it back"
    return [each.end(Result.SKIPPED, reason) for each in mine]


def archived_files(log: LogView, target: Operation) -> Sequence[PlanItem]:
    """Return the files that come back with the archived sessions of an operation."""
    return [each.item for each in log.archived_files if each.operation == target.id]


def taken(home: Home, removals: Sequence[Removal]) -> Collection[str]:
    """Return the keys of sessions that cannot come back: an import replaced them, and the imported
    ones are still there."""
    mine = {each.item.session: each.key for each in removals if each.item.reason == BY_AN_IMPORT}
    store = home.session_store() if mine else None
    if store is None:
        return ()
    here = store.find(SessionFilter(ids=tuple(mine)))
    return frozenset(mine[each.id] for each in here)


def foresee(home: Home, removals: Sequence[Removal]) -> Mapping[str, Foreseen]:
    """Return what undoing restores would do to project files, by the key of each removal."""
    return foreseen(home, {each.key: each.item for each in removals}, undoing=True)


def foreseen(home: Home, items: Mapping[str, PlanItem], *, undoing: bool) -> Mapping[str, Foreseen]:
    """Return what undoing restores, or redoing them, would do. The keys are those of `items`."""
    wanted = {key: item for key, item in items.items() if item.action is Action.ROLL_BACK}
    store = home.checkpoint_store() if wanted else None
    if store is None:
        return {}
    known = {each.id: each.workdir for each in store.projects()}
    found = {}
    for key, item in wanted.items():
        workdir = known.get(item.id, item.id)
        ends = (item.version, item.target) if undoing else (item.target, item.version)
        try:
            preview = store.preview_undo(*ends, paths=item.paths or None, undoing=undoing)
        except HoldfastError as error:
            found[key] = Foreseen(workdir=workdir, problem=error.message)
        else:
            found[key] = Foreseen(workdir=workdir, preview=preview)
    return found


def done_since(log: LogView, target: Operation) -> Sequence[Operation]:
    """Return what the user did after an operation, latest first. An undo of that operation that did
    not bring everything back does not count: undoing again only continues it."""
    numbers = [each.id for each in log.operations]
    later = log.operations[numbers.index(target.id) + 1 :] if target.id in numbers else ()
    return [
        each
        for each in later[::-1]
        if each.own
        and each.command not in UNASKED
        and each.command != MAINTAIN
        and each.undoes != target.id
        and (each.removed or each.brought_back or each.rolled_back or each.ended or each.changed)
    ]


def choose(log: LogView, operation_id: str | None) -> Operation:
    """Return the requested operation, or the latest that removed something and is not undone yet.

    If the latest cannot be undone it is not skipped: silently undoing the one before it is not what
    the user asked for. Operations of other machines on a shared store are taken only by number.
    What agents and hosts do on their own is skipped: if an agent resets a chat right after your
    prune, its reset must not be undone in place of your prune.
    """
    chosen = _latest(log) if operation_id is None else _by_id(log, operation_id)
    _check(chosen, log)
    return chosen


def _latest(log: LogView) -> Operation:
    cut = [each.undoes for each in log.operations if each.own and each.finished_at is None]
    killed = [each for each in log.operations if each.id in cut]
    if killed:  # undoing again finishes that undo; it must not take the operation before it
        return killed[-1]
    there = [each for each in log.operations if each.to_undo]
    found = [each for each in there if each.own]
    asked = [each for each in found if each.command not in UNASKED]
    latest = asked[-1] if asked else None
    expect_whole(log, latest, latest, verb="undo")
    if asked:
        return asked[-1]
    if found:
        own = found[-1]
        raise NothingToUndoError(
            "There is nothing to undo in this home, apart from what agents did on their own.",
            hint=f"The latest of those is operation {own.id} ({own.command}): holdfast undo "
            f"{own.id}. `holdfast log` lists the others.",
        )
    if there:
        other = there[-1]
        raise NothingToUndoError(
            "There is nothing to undo that was done in this home.",
            hint=f"The latest that was done elsewhere is operation {other.id} ({other.command}, on "
            f"{other.machine}): holdfast undo {other.id}. `holdfast log` lists the others.",
        )
    undone = [each for each in log.operations if each.undone_by]
    if undone:
        last = undone[-1]
        raise NothingToUndoError(
            "There is nothing left to undo: everything that could be undone has been. The last was "
            f"operation {last.id} ({last.command}), undone by operation {last.undone_by[-1]}.",
            hint="`holdfast log` lists what was done.",
        )
    if not log.operations:
        raise NothingToUndoError(
            "There is nothing to undo: the log of this home is empty.",
            hint="Nothing was removed, archived or changed here yet. An import cannot be undone. "
            "To remove what it stored: holdfast sessions delete ID…",
        )
    raise NothingToUndoError(
        "There is nothing to undo: no operation in the log removed anything.",
        hint="`holdfast log` lists what was done.",
    )


def expect_whole(
    log: LogView, latest: Operation | None, before: Operation | None, *, verb: str
) -> None:
    """Raise if the record of an operation after the `latest` that can be read is damaged: it may be
    the one that is meant. `before` is what the user may take instead."""
    damaged = [Path(each.path).stem for each in log.problems]
    last = max((int(each) for each in damaged if each.isdecimal()), default=0)
    if last > (0 if latest is None else int(latest.id)):
        other = "" if before is None else f"The latest before it: holdfast {verb} {before.id}. "
        raise DamageError(
            f"The record of operation {last} is damaged: it may be the latest, and cannot be"
            f" {verb}ne.",
            hint=f"{other}`holdfast doctor` says what is wrong with the record.",
        )


def _by_id(log: LogView, operation_id: str) -> Operation:
    for operation in log.operations:
        if operation.id == operation_id:
            return operation
    for problem in log.problems:
        if Path(problem.path).stem == operation_id:
            raise DamageError(
                f"Operation {operation_id} cannot be undone, its record is damaged. "
                f"{problem.reason}",
                hint="What it removed is in the trash, by name, until that is emptied.",
            )
    known = f"The latest is {log.operations[-1].id}; " if log.operations else ""
    raise UsageError(
        f"There is no operation {operation_id!r} in this home.",
        hint=f"{known}`holdfast log` lists them.",
    )


def _check(operation: Operation, log: LogView) -> None:
    """Raise unless there is something to bring back, or may be after settling."""
    if operation.action is OperationAction.UNDO:
        raise CannotUndoError(
            f"Operation {operation.id} is itself an undo, of operation {operation.undoes}.",
            hint=f"To redo operation {operation.undoes}: holdfast redo {operation.undoes}",
        )
    if operation.action is OperationAction.RESTORE:
        raise CannotUndoError(
            f"Operation {operation.id} restored sessions and removed nothing: nothing to undo.",
            hint="To take them out of the home again, and keep them in the archive: "
            "holdfast sessions archive ID…",
        )
    if operation.in_trash or operation.state is OperationState.UNFINISHED:
        return
    if is_cut(log, operation.undone_by):
        return
    if operation.elsewhere:
        raise CannotUndoError(
            f"What is left of operation {operation.id} can only be brought back on "
            f"{operation.machine}, where its copies are.",
            hint=f"Run `holdfast undo {operation.id}` there.",
        )
    if operation.undone_by:
        by = " and ".join(operation.undone_by)
        raise CannotUndoError(f"Operation {operation.id} was already undone, by operation {by}.")
    if operation.emptied_by:
        by = _named(log, operation.emptied_by[-1])
        raise CannotUndoError(
            f"Operation {operation.id} cannot be undone: what it removed has left the trash for "
            f"good, through {by}.",
            hint=_what_is_left(log),
        )
    if operation.removed_to_trash:
        raise CannotUndoError(
            f"Operation {operation.id} cannot be undone: what it put into the trash or the "
            "archive has been removed since.",
            hint="`holdfast log` lists what was done; a later removal may have to be undone first.",
        )
    if operation.removed:
        raise CannotUndoError(
            f"Operation {operation.id} cannot be undone: it removed items for good.",
            hint=_why_for_good(operation.command),
        )
    raise CannotUndoError(f"Operation {operation.id} removed nothing, so there is nothing to undo.")


def is_cut(log: LogView, numbers: Collection[str]) -> bool:
    """True if one of these operations was killed. This holds even if only its end was not written:
    the caller who repeats the request cannot know that."""
    return any(each.finished_at is None for each in log.operations if each.id in numbers)


def _named(log: LogView, operation_id: str) -> str:
    command = next((each.command for each in log.operations if each.id == operation_id), "")
    return f"operation {operation_id} ({command})"


def _what_is_left(log: LogView) -> str:
    """Return a hint at what can still be undone, for a user whose first choice cannot be."""
    left = [
        each
        for each in log.operations
        if each.in_trash and each.to_undo and each.command not in UNASKED
    ]
    if not left:
        return "Nothing else in this home can be undone."
    last = left[-1].id
    return f"The latest that can be undone is {_named(log, last)}: holdfast undo {last}"


def _why_for_good(command: str) -> str:
    words = command.split()
    if "--now" in words:
        return "It ran with --now. Without that, what rules remove stays in the trash for a while."
    if words[:2] == ["trash", "empty"]:
        return "It emptied the trash."
    if words[:2] == ["checkpoints", "push"] or words == ["checkpoints.prune_remote"]:
        return (
            "What was removed from a git remote cannot be brought back there. Checkpoints that are "
            "still here can be pushed again."
        )
    return (
        "A size cap removes at once, because the trash counts towards the cap; a program can also "
        "remove without the trash. With --use-trash, what a cap removes goes to the trash."
    )
