"""What carries a plan out, how it is logged, and how it is taken back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # named here only: a command pays for the values that it uses
    from holdfast.model.operation import LogView, OperationAction, Removal
    from holdfast.model.plan import PlanItem
    from holdfast.model.report import Moved, Outcome, Presence


Clock = Callable[[], float]


class Progress(Protocol):
    """Receives the progress of a long run, and is asked between two batches whether to stop."""

    def step(self, label: str, done: int, total: int | None) -> None: ...

    def stop_requested(self) -> bool: ...


class Doer(Protocol):
    """Does to items of one kind what their plan says, and undoes it; it never decides.

    Each call is safe to repeat after a kill at any point inside it. Outcomes come back in the
    order of the batch.
    """

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        """Called once before the first batch of a run, with everything that the run will do.
        Returns how many may be in one batch; None for as many as usual.

        No item changes here. A doer may drop what is cheaper to rebuild than to keep up to date.
        """

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Check version and life again, then act."""

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """After a kill inside `do`: make each item either done or untouched."""

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Undo it; never overwrites anything."""


class Space(Protocol):
    """What a store does not use."""

    def measure(self) -> None:
        """Note the size of the store. Called before the first item of a run leaves."""

    def give_back(self, removal: Removal) -> Outcome:
        """Free unused space. The outcome says how much that was."""


class Mover(Protocol):
    """How items of one kind leave their place and come back.

    Answers come back in the order of the batch, and each call is safe to repeat after a kill at any
    point inside it. One item that fails does not affect the others: its answer says why.
    """

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        """Called once before the first batch of a run, with everything that it will move. Returns
        how many may be in one batch; None for as many as usual."""

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]: ...

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Make the undo copies, durable on return. A mover whose `drop` keeps the copy in the same
        step (a rename, a moved reference) does nothing here."""

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Take each item from its place. Checks version and life again in the same atomic step;
        finishes what a killed run began."""

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Put each item back from its copy, durable on return; never overwrites anything. What is
        back already is completed. An answer that is `copied` asks the keeper to discard the
        copy."""

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Remove the undo copies of these items, and of no others."""


class Journal(Protocol):
    """The record of one running operation. Every call is durable when it returns."""

    @property
    def operation(self) -> str: ...

    def intend(self, batch: Sequence[Removal]) -> None: ...

    def record(self, batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> None: ...

    def withdraw(self) -> bool:
        """Take back the last intent, of which nothing was done or recorded. False if it stays."""

    def finish(self, *, at: float, stopped: str | None = None) -> None: ...

    def bytes(self) -> int:
        """What the record takes on the disk."""


class Unfinished(Protocol):
    """An operation that a killed process left open."""

    @property
    def operation(self) -> str: ...

    @property
    def action(self) -> OperationAction: ...

    @property
    def pending(self) -> Sequence[Removal]:
        """What was intended and has no recorded outcome."""

    @property
    def removed(self) -> Collection[str]:
        """The ids of what is recorded as removed."""

    def resume(self) -> AbstractContextManager[Journal]: ...


class LogWriter(Protocol):
    """The log while this process alone may change it."""

    def read(self) -> LogView:
        """The log as it was when the lock was taken."""

    def elsewhere(self, removal: Removal) -> bool:
        """Whether only another home of those that share the log can deal with it."""

    def unfinished(self) -> Sequence[Unfinished]: ...

    def forget(self, *, before: float) -> int:
        """Drop the oldest operations that ended before this time and cannot be undone any more.
        Returns how many. An operation that a later one refers to stays as long as that one."""

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
        """Take the home's lock; raises `BusyError` when another process keeps it."""
