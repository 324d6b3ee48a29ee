"""Operations that are undone, and done again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from holdfast.api.arguments import OperationRef, operation_id
from holdfast.api.place import Place
from holdfast.api.plan import HomeReport, undo
from holdfast.api.redo import RedoPlan, plan_redo
from holdfast.api.trash import Log
from holdfast.errors import CannotUndoError
from holdfast.model.argument_checks import checked
from holdfast.model.operation import MAINTAIN, LogView, Operation, Removal
from holdfast.model.plan import PlanItem, fingerprint
from holdfast.ports.runs import Progress
from holdfast.spine import undo as undoing
from holdfast.spine.redo import first_command, to_redo
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import Foreseen
from holdfast.spine.undo_edit import Edited, look_at_edits
from holdfast.value import dataclass, field

_Asked = TypeVar("_Asked")


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UndoPlan:
    """What undoing an operation would bring back. `command` is what was done; for a redo, what it
    did again. `files` come back with sessions from the archive and are not separate removals.
    `foreseen` says what the undo would do to the files of projects, by the key of each removal;
    `edited` has the names, pins and ends that it would find, by the same key. `since` has the
    user's later operations, the latest first. `unexpected` means that the user did not name the
    operation and a timer may have run it. `taken` are the keys of sessions that an import replaced
    and that cannot come back as long as the imported ones, with the same ids, are there."""

    place: Place = field(repr=False)
    operation: Operation
    command: str
    removals: Sequence[Removal]
    foreseen: Mapping[str, Foreseen]
    edited: Mapping[str, Edited]
    since: Sequence[Operation] = ()
    unexpected: bool = False
    files: Sequence[PlanItem] = ()
    taken: Collection[str] = ()

    @property
    def needs_asking(self) -> bool:
        """Whether to ask the user first: it changes files of a working directory, or undoes
        something other than what they did last."""
        return bool(self.foreseen or self.since or self.unexpected)

    @property
    def fingerprint(self) -> str:
        """Equal for plans that would bring back the same, over the same files."""
        return fingerprint(
            self.operation.id,
            [each.key for each in self.removals],
            [(key, each.seen) for key, each in self.foreseen.items()],
            [(key, each.now) for key, each in self.edited.items()],
            [each.id for each in self.since],
        )

    def apply(self, *, progress: Progress | None = None) -> HomeReport:
        """Undo exactly this operation."""
        return undo(self.place, self.operation.id, progress=progress)


@checked
class OperationUndo:
    """The methods that undo an operation of a home, and do it again. For each there is one that
    only plans."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @cached_property
    def log(self) -> Log:
        """What was done here: read, list, get."""
        return Log(self._place)

    def plan_undo(self, operation: OperationRef | None = None) -> UndoPlan:
        """What undoing an operation would bring back: by default, the latest one that was
        requested. What agents did on their own is skipped. Raises `CannotUndoError` when another
        operation has to be undone before."""
        number = None if operation is None else operation_id(operation)
        target, removals = undoing.preview(self._place.home, number)
        log = self._place.home.log.read()
        again = f" ({first_command(log, target)})" if target.redoes else ""
        return UndoPlan(
            place=self._place,
            operation=target,
            command=f"{target.command}{again}",
            removals=removals,
            foreseen=undoing.foresee(self._place.home, removals),
            edited=look_at_edits(self._place.home, log, target, removals),
            since=undoing.done_since(log, target),
            unexpected=number is None and target.command == MAINTAIN,
            files=undoing.archived_files(log, target),
            taken=undoing.taken(self._place.home, removals),
        )

    def undo(
        self, operation: OperationRef | None, *, progress: Progress | None = None
    ) -> HomeReport:
        """Undo one operation, by its number: `home.undo(report.operation)`.

        The operation of a run that had nothing to do is None: then nothing is done, and the report
        says so. Later operations are not touched.
        """
        if operation is None:
            return undo(self._place, None, progress=progress)
        number = operation_id(operation)
        return self.settled_if_refused(number, lambda: undo(self._place, number, progress=progress))

    def undo_latest(self, *, progress: Progress | None = None) -> HomeReport:
        """Undo the latest operation of the home, no matter who requested it; `report.undone` says
        which one that was. What agents did on their own is skipped."""
        place = self._place
        target, report = undoing.undo_latest(place.home, clock=place.clock, progress=progress)
        return HomeReport(place=place, report=report, undone=target)

    def plan_redo(self, operation: OperationRef | None = None) -> RedoPlan:
        """What doing an undone operation again would do: by default, the one that was undone last.
        `operation` is its number, or that of its undo."""
        return plan_redo(self._place, None if operation is None else operation_id(operation))

    def to_redo(self) -> Sequence[tuple[Operation, Operation]]:
        """Undos that were not redone, each with the operation that it undid; the latest last."""
        return to_redo(self._place.home.log.read())

    def redo(
        self, operation: OperationRef | None = None, *, progress: Progress | None = None
    ) -> HomeReport:
        """Do an undone operation again. What changed since it was undone stays as it is and is
        reported. The redo is an operation of its own, which can be undone."""
        if operation is None:
            return self.plan_redo().apply(progress=progress)
        number = operation_id(operation)
        planned = self.settled_if_refused(number, lambda: self.plan_redo(number))
        return planned.apply(progress=progress)

    def settled_if_refused(
        self,
        operation: OperationRef,
        act: Callable[[], _Asked],
        *,
        before: Callable[[LogView, Sequence[Operation]], None] = lambda *_: None,
        told: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> _Asked:
        """Return what `act` returns, which undoes or redoes an operation, or plans that.

        The operation may be refused because an undo or redo of it was killed: then that is finished
        or rolled back first, and `act` is tried once more. `before` is called before that, with the
        log and the killed operations, and may raise to prevent it; `told` afterwards, with the
        numbers of the operations that were settled.
        """
        number = operation_id(operation)
        try:
            return act()
        except CannotUndoError:
            log = self._place.home.log.read()
            in_the_way = log.in_the_way_of(number)
            if not in_the_way:
                raise
            before(log, in_the_way)
            settled = settle_if_needed(self._place.home, clock=self._place.clock)
            if not settled:
                raise
        told(tuple(settled))
        return act()
