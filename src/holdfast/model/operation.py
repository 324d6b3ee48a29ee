"""One applied plan in the log: the unit of undo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

from holdfast.model.item import SESSION, TRASH, Item, Problem
from holdfast.model.json_value import fields_to_json
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.value import dataclass

#: The commands of operations in the log that an agent or its host performed and no person asked
#: for.
BY_ITSELF = "checkpoints take (its bounds)"
RESET = "reset"
DELIVER = "deliver"
END_ABANDONED = "end abandoned"
UNASKED = frozenset({BY_ITSELF, RESET, DELIVER, END_ABANDONED})
#: The command of maintenance in the log: a person may have asked for it, or a timer.
MAINTAIN = "maintain"

#: Why a killed operation ended: a later run settled what it had left.
INTERRUPTED = "interrupted; settled by a later run"
#: Set while one command works in several homes. The log of each home records the run, so that all
#: of it can be undone together.
RUN: ContextVar[str | None] = ContextVar("holdfast_run", default=None)


@contextmanager
def one_run(*, joint: bool = True) -> Iterator[None]:
    """Everything done inside, in several homes, is recorded as one run, unless `joint` is false."""
    import secrets  # noqa: PLC0415 - slow to load, and few runs are over several homes

    token = RUN.set(secrets.token_hex(8) if joint else None)
    try:
        yield
    finally:
        RUN.reset(token)


_LONGEST_NAME = 255  # bytes, on every file system that matters


class OperationAction(StrEnum):
    REMOVE = "remove"
    UNDO = "undo"
    RESTORE = "restore"


class OperationState(StrEnum):
    """The state of an operation. An unfinished one is settled by the next run that writes."""

    UNFINISHED = "unfinished"
    DONE = "done"
    STOPPED = "stopped"
    PARTLY_UNDONE = "partly undone"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One item of one operation: all that is needed to remove it, find its undo copy and restore
    it."""

    operation: str
    number: int
    item: PlanItem

    @property
    def key(self) -> str:
        return f"{self.operation}/{self.number}"

    @property
    def copy_name(self) -> str:
        """The name of its undo copy in the trash of its operation. It follows from the intent
        alone, so after a kill the next run knows where to look. The item's own name is part of it
        for people."""
        name = f"{self.number}-{self.item.id.rpartition('/')[2]}"
        try:
            size = len(name.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:  # no file can have that name
            return str(self.number)
        return name if size <= _LONGEST_NAME else str(self.number)

    def end(
        self,
        result: Result,
        reason: str = "",
        *,
        freed: int = 0,
        in_trash: int = 0,
        of_rows: int = 0,
        in_archive: int = 0,
        in_part: bool = False,
    ) -> Outcome:
        """Return its outcome."""
        return Outcome(
            kind=self.item.kind,
            id=self.item.id,
            result=result,
            reason=reason,
            bytes_freed=freed,
            bytes_in_trash=in_trash,
            bytes_of_rows=of_rows,
            bytes_in_archive=in_archive,
            in_part=in_part,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashEntry:
    """A removal whose undo copy still exists."""

    removal: Removal
    removed_at: float
    bytes: int

    def as_item(self) -> Item:
        """The entry as an item that a policy can judge. Its age is its time in the trash."""
        return Item(
            kind=TRASH,
            id=f"{self.removal.key}/{self.removal.item.id}",
            source=self.removal.item.source,
            session=self.removal.item.session,
            bytes=self.bytes,
            last_active_at=self.removed_at,
            version=self.removal.item.version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the log knows about one operation.

    `removed_to_trash` and `removed_for_good` count items other than trash itself; `in_trash` and
    `trash_bytes` are what undo can still bring back, `undone` what it has brought back, by the
    operations `undone_by`; `emptied_by` removed it from the trash since. Of what was `removed`,
    `archived` went to the archive, `archived_files` went there with it, and `emptied` left the
    trash. `paths` is how many paths of projects a restore or its undo changed. Of what was
    `brought_back`, `changed_back` never left: it got its old name or pin back; `files_back` more
    files came in the bundles of sessions. `redoes` is the operation that this one did again,
    `redone_by` are the operations that did this one again. `run` is the same in all operations that
    one command performed in several homes.

    In a log that several homes share, `machine` is the display name of the machine that performed
    it, `own` is true if this home did, and `elsewhere` counts what only the home that performed it
    can bring back.
    """

    id: str
    action: OperationAction
    command: str
    started_at: float
    finished_at: float | None
    stopped: str | None = None
    undoes: str | None = None
    undone_by: tuple[str, ...] = ()
    emptied_by: tuple[str, ...] = ()
    redoes: str | None = None
    redone_by: tuple[str, ...] = ()
    run: str | None = None
    removed: int = 0
    archived: int = 0
    archived_files: int = 0
    emptied: int = 0
    rolled_back: int = 0
    paths: int = 0
    ended: int = 0
    changed: int = 0
    brought_back: int = 0
    files_back: int = 0
    changed_back: int = 0
    skipped: int = 0
    failed: int = 0
    bytes_freed: int = 0
    bytes_in_trash: int = 0
    bytes_in_archive: int = 0
    in_trash: int = 0
    trash_bytes: int = 0
    removed_to_trash: int = 0
    removed_for_good: int = 0
    undone: int = 0
    machine: str = ""
    own: bool = True
    elsewhere: int = 0

    @property
    def state(self) -> OperationState:
        if self.finished_at is None:
            return OperationState.UNFINISHED
        if self.undone_by:
            whole = self.undone >= self.removed_to_trash
            return OperationState.UNDONE if whole else OperationState.PARTLY_UNDONE
        return OperationState.STOPPED if self.stopped else OperationState.DONE

    @property
    def to_undo(self) -> bool:
        """True if it removed something that has not been brought back."""
        return (
            self.removed_to_trash > self.undone + self.elsewhere
            # Items that it removed for good do not block undoing the operation before it, once its
            # other items were brought back.
            or (self.removed_for_good > 0 and not self.undone_by)
            or (self.action is OperationAction.REMOVE and self.state is OperationState.UNFINISHED)
        )

    @property
    def can_undo(self) -> bool:
        """True if an undo would bring something back: items from the trash, or changes that need no
        undo copy there."""
        leaves_none = (
            self.action is not OperationAction.UNDO and self.removed_to_trash > self.undone
        )
        return self.to_undo and bool(self.in_trash or leaves_none)

    def to_json(self) -> dict[str, Any]:
        sums = ("in_trash", "removed_to_trash", "removed_for_good", "undone", "run")
        back = ("files_back", "changed_back")
        shared = ("machine", "own", "elsewhere")
        return (
            fields_to_json(self, "state", without=(*sums, *back, *shared))
            | {"can_bring_back": self.in_trash}
            | ({name: getattr(self, name) for name in shared} if self.machine else {})
        )


def in_store(item: PlanItem) -> bool:
    """True if the item and its undo copy are in the session store alone, so that every machine
    which shares the store can bring it back. Everything else is a file on one machine."""
    return item.kind == SESSION and item.action is not Action.ARCHIVE


def in_words(operations: Sequence[str]) -> str:
    """`operation 2`, `operations 2 and 4`, `operations 2 to 5`, `6 operations from 2 to 19`."""
    numbers = sorted(map(int, operations))
    first, last = numbers[0], numbers[-1]
    if first == last:
        return f"operation {first}"
    if numbers == [first, last]:
        return f"operations {first} and {last}"
    if last - first + 1 == len(numbers):
        return f"operations {first} to {last}"
    return f"{len(numbers):,} operations from {first} to {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The whole log at one moment: operations and trash, oldest first, and unreadable records.

    `archived` is what undo can bring back from the archive, `rolled_back` the projects that it can
    roll forward again, `ended` the sessions that it can reopen, `changed` what it can give its old
    name or pin. None of these is trash: they do not expire. `undone` is what an undo brought back
    and no redo has removed again, and the space that its operation gave back: the work of a redo.
    `elsewhere` is what undo could bring back only in another of the homes that share the log.
    `pending` is what killed runs announced and no run has settled yet. `archived_files` are files
    in the bundles of `archived` sessions and come back with them.
    """

    operations: tuple[Operation, ...]
    trash: tuple[TrashEntry, ...]
    archived: tuple[TrashEntry, ...]
    rolled_back: tuple[TrashEntry, ...]
    ended: tuple[TrashEntry, ...]
    changed: tuple[TrashEntry, ...]
    undone: tuple[Removal, ...]
    problems: tuple[Problem, ...]
    elsewhere: tuple[TrashEntry, ...] = ()
    archived_files: tuple[Removal, ...] = ()
    pending: tuple[Removal, ...] = ()

    def in_the_way_of(self, operation: str) -> tuple[Operation, ...]:
        """Operations that were killed, and because of which this one may not be undone or redone:
        itself, and its undos and redoes. `operation` may be the number of its undo."""
        undo = next((each for each in self.operations if each.id == operation), None)
        asked = {operation, None if undo is None else undo.undoes} - {None}
        return tuple(
            each
            for each in self.operations
            if each.own
            and each.finished_at is None
            and not asked.isdisjoint((each.id, each.undoes, each.redoes))
        )

    @property
    def redoable(self) -> frozenset[str]:
        """The operations that a redo can do again."""
        return frozenset(each.operation for each in self.undone)
