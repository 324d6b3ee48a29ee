"""Taking, listing and restoring checkpoints, and keeping them within their limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from holdfast.model.arguments import StrPath

if TYPE_CHECKING:  # only for annotations: a command loads only the values that it uses
    from holdfast.model.checkpoint import (
        Captured,
        Change,
        Checkpoint,
        Preview,
        Project,
        RestoreState,
        Rollback,
        Sight,
        Taking,
    )
    from holdfast.model.checkpoint_inventory import CheckpointInventory
    from holdfast.model.checkup import Verification


class CheckpointTaker(Protocol):
    """The part that an agent calls before it changes something."""

    def take(
        self,
        workdir: StrPath,
        *,
        reason: str,
        now: float,
        session: str | None = None,
        turn: str | None = None,
        paths: Sequence[str] | None = None,
    ) -> Taking:
        """Capture the working tree if it changed. With `paths`, only these paths and everything
        below them are scanned; the rest is taken from the last checkpoint."""


class CheckpointStore(CheckpointTaker, Protocol):
    """Checkpoints of all projects of a home. Reading creates nothing.

    A `tree` is that of a checkpoint (`Checkpoint.tree`) or of the working tree (`Sight.tree`).
    """

    def look(self, workdir: StrPath) -> Sight:
        """The working tree as it is now, to be compared with a checkpoint."""

    def list(self, workdir: StrPath | None = None) -> Sequence[Checkpoint]:
        """The checkpoints of one working directory or of all, the newest first."""

    def get(self, prefix: str) -> Checkpoint:
        """The one checkpoint whose id begins with `prefix`; raises `UnknownCheckpointError`
        otherwise."""

    def reading(self) -> AbstractContextManager[None]:
        """A context for calls that belong together: nothing that a call returned is removed
        meanwhile."""

    def ready(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return the checkpoint in a form that can be compared and restored. For that, one of
        another agent is imported into our store; it keeps its time and reason and gets a new id."""

    def patch(self, old: str, new: str, paths: Sequence[str] = ()) -> Iterator[bytes]:
        """The diff between two trees, as `git apply` reads it, line by line."""

    def statistics(
        self, old: str, new: str, paths: Sequence[str] = (), *, width: int
    ) -> Iterator[bytes]:
        """A summary of the differences, file by file."""

    def pin(self, checkpoint: Checkpoint, pinned: bool) -> Checkpoint: ...

    def rename(self, checkpoint: Checkpoint, name: str | None) -> Checkpoint: ...

    def captured(self, tree: str) -> Captured: ...

    def blob(self, oid: str) -> bytes: ...

    def changes(self, old: str, new: str) -> Sequence[Change]:
        """What differs between two trees, sorted by path."""

    def projects(self) -> Sequence[Project]: ...

    def secure(self, target: str, *, paths: Sequence[str] | None = None, now: float) -> str:
        """Take the safety checkpoint for a restore: the present state of the target's project.

        Returns its id, or that of the latest checkpoint if nothing changed since. If the same
        restore was cut short, returns the safety checkpoint of that attempt, which still holds the
        state before it. Raises `UsageError` for paths that cannot be restored.
        """

    def preview(self, target: str, *, paths: Sequence[str] | None = None) -> Preview:
        """What a restore would do to the working tree as it is. Changes nothing in it."""

    def preview_undo(
        self,
        target: str,
        safety: str,
        *,
        paths: Sequence[str] | None = None,
        undoing: bool = False,
    ) -> Preview:
        """What undoing a restore would do now: `restore` with the same two checkpoints, exchanged.
        Changes nothing in the working tree."""

    def restore(
        self,
        target: str,
        safety: str,
        *,
        paths: Sequence[str] | None = None,
        now: float,
        shown: Preview | None = None,
        undoing: bool = False,
    ) -> Rollback:
        """Bring the working tree from the safety checkpoint to the target, or only the given paths
        and what is below them. Repeating the call finishes an interrupted restore; swapping the two
        undoes it. With `shown` it does only what that preview contains: what changed since is left
        alone and reported. With `undoing`, it leaves alone what the restore it undoes did not
        touch."""

    def restore_state(
        self, target: str, safety: str, *, paths: Sequence[str] | None = None
    ) -> RestoreState:
        """The progress of this restore, if it is the latest of its project."""


class Bounding(Protocol):
    """Brings a checkpoint store back within its limits while an agent works. Never raises."""

    def later(self) -> None:
        """Schedule it. Returns at once."""

    def room_made(self) -> AbstractContextManager[None]:
        """Do it now. No other process does it until the context ends."""


class CheckpointUpkeep(Protocol):
    """Keeps the checkpoint folder of a home within its limits. Scanning creates nothing."""

    def scan(self, now: float) -> CheckpointInventory: ...

    def note(self, now: float) -> None:
        """Record facts that a later run needs. Called before a change."""

    def pack(self) -> int:
        """Repack the store without dropping anything. Returns the bytes freed."""

    def tidy(self) -> bool:
        """The cheap part of `pack`, if it is due."""

    def verify(self) -> Verification: ...
