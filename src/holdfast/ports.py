"""What the services need from the world, in the words of the domain.

`homes` and `stores` implement these; services and the command line depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from holdfast.model.inventory import Inventory
from holdfast.model.operation import LogView, OperationAction, Removal
from holdfast.model.report import Outcome

Clock = Callable[[], float]


class Progress(Protocol):
    """Told how far a long run is; asked, between two batches, whether to stop."""

    def step(self, label: str, done: int, total: int | None) -> None: ...

    def stop_requested(self) -> bool: ...


class Keeper(Protocol):
    """Holds one kind of item. It removes and brings back; it never decides.

    Each call is safe to repeat after a kill at any point inside it. Outcomes come back in the
    order of the batch.
    """

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Re-check version and life, make the undo copy, drop the item.

        Of an item that is not `undoable` the copy is discarded at the very end.
        """

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """After a kill inside `remove`: bring each item to one side, gone or untouched."""

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Remove undo copies for good."""

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Put items back from their undo copies; never over something that is there."""


class Journal(Protocol):
    """The record of one running operation. Every call is durable when it returns."""

    @property
    def operation(self) -> str: ...

    def intend(self, batch: Sequence[Removal]) -> None: ...

    def record(self, batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> None: ...

    def finish(self, *, at: float, stopped: str | None = None) -> None: ...


class Unfinished(Protocol):
    """An operation that a killed process left open."""

    @property
    def operation(self) -> str: ...

    @property
    def action(self) -> OperationAction: ...

    @property
    def pending(self) -> Sequence[Removal]:
        """What was intended and has no recorded outcome."""

    def resume(self) -> AbstractContextManager[Journal]: ...


class LogWriter(Protocol):
    """The log while this process alone may change it."""

    def read(self) -> LogView:
        """The log as it was when the lock was taken."""

    def unfinished(self) -> Sequence[Unfinished]: ...

    def begin(
        self, *, action: OperationAction, command: str, at: float, undoes: str | None = None
    ) -> AbstractContextManager[Journal]: ...


class OperationLog(Protocol):
    """What was done to a home, and what can be undone. Reading creates nothing."""

    def read(self) -> LogView: ...

    def writing(self, command: str) -> AbstractContextManager[LogWriter]:
        """Take the home's lock; raises `BusyError` when another process keeps it."""


class Home(Protocol):
    """The state of one agent on disk."""

    @property
    def kind(self) -> str: ...

    @property
    def root(self) -> Path: ...

    @property
    def log(self) -> OperationLog: ...

    def scan(self, now: float, progress: Progress | None = None) -> Inventory: ...

    def keeper(self, kind: str) -> Keeper:
        """Who holds items of this kind; raises `UsageError` for a kind this home has not."""
