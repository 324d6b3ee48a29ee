"""Carrying out a plan, logging it, and undoing it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # only for annotations: a command loads only the values that it uses
    from holdfast.model.operation import LogView, OperationAction, Removal
    from holdfast.model.plan import PlanItem
    from holdfast.model.report import Moved, Outcome, Presence


Clock = Callable[[], float]


class Progress(Protocol):
    """Receives the progress of a long run. Between two batches, the run checks whether to stop."""

    def step(self, label: str, done: int, total: int | None) -> None: ...

    def stop_requested(self) -> bool: ...


class Doer(Protocol):
    """Carries out what a plan contains for items of one kind, and undoes it; it never decides.

    Each call is safe to repeat after a kill at any point inside it. Outcomes are returned in the
    order of the batch.
    """

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        """Called once before the first batch of a run, with everything that the run will do.
        Returns the maximum size of a batch; None for the usual one.

        No item changes here. A doer may drop data that is cheaper to rebuild than to keep up to
        date.
        """

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Check version and life again, then act."""

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """After a kill inside `do`: make each item either done or untouched."""

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Undo it; never overwrites anything."""


class Space(Protocol):
    """The unused space of a store."""

    def measure(self) -> None:
        """Note the size of the store. Called before the first item of a run leaves."""

    def give_back(self, removal: Removal) -> Outcome:
        """Free unused space. The outcome has the number of bytes."""


class Mover(Protocol):
    """How items of one kind leave their place and come back.

    Results are returned in the order of the batch, and each call is safe to repeat after a kill at
    any point inside it. An item that fails does not affect the others: its result has the reason.
    """

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        """Called once before the first batch of a run, with everything that it will move. Returns
        the maximum size of a batch; None for the usual one."""

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]: ...

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Make the undo copies, durable on return. Does nothing if `drop` keeps the copy in the
        same step (a rename, a moved reference)."""

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Remove each item from its place. Checks version and life again in the same atomic step;
        finishes what a killed run began."""

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Restore each item from its copy, durable on return; never overwrites anything. An item
        that was partly restored is completed. A result that is `copied` asks the keeper to discard
        the copy."""

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Remove the undo copies of these items, and no others."""


class Journal(Protocol):
    """The record of one running operation. Every call is durable when it returns."""

    @property
    def operation(self) -> str: ...

    def intend(self, batch: Sequence[Removal]) -> None: ...

    def record(self, batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> None: ...

    def withdraw(self) -> bool:
        """Withdraw the last intent, if nothing of it was done or recorded. Returns False if it
        stays."""

    def finish(self, *, at: float, stopped: str | None = None) -> None: ...

    def bytes(self) -> int:
        """The size of the record on the disk."""


class Unfinished(Protocol):
    """An operation that a killed process left open."""

    @property
    def operation(self) -> str: ...

    @property
    def action(self) -> OperationAction: ...

    @property
    def pending(self) -> Sequence[Removal]:
        """Removals that were intended and have no recorded outcome."""

    @property
    def removed(self) -> Collection[str]:
        """The ids of items recorded as removed."""

    def resume(self) -> AbstractContextManager[Journal]: ...


class LogWriter(Protocol):
    """The log while this process holds the lock and alone may change it."""

    def read(self) -> LogView:
        """The log as it was when the lock was taken."""

    def elsewhere(self, removal: Removal) -> bool:
        """True if only another home that shares the log can deal with it."""

    def unfinished(self) -> Sequence[Unfinished]: ...

    def forget(self, *, before: float) -> int:
        """Drop the oldest operations that ended before this time and cannot be undone any more.
        Returns how many. An operation that a later one refers to stays as long as the later one."""

    def begin(
        self,
        *,
        action: OperationAction,
        command: str,
        at: float,
        undoes: str | None = None,
        redoes: str | None = None,
    ) -> AbstractContextManager[Journal]: ...


class OperationLog(Protocol):
    """What was done to a home, and what can be undone. Reading creates nothing."""

    def read(self) -> LogView: ...

    def writing(self, command: str) -> AbstractContextManager[LogWriter]:
        """Take the home's lock; raises `BusyError` if another process keeps it."""
