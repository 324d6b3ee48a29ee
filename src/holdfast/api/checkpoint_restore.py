"""What a restore of a checkpoint would do to a project, and what it did."""

from __future__ import annotations

from holdfast.api.place import Place
from holdfast.api.plan import HomeReport, undo
from holdfast.model.argument_checks import checked
from holdfast.model.checkpoint import Checkpoint, NotCaptured, Preview, Rollback
from holdfast.model.plan import fingerprint
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.ports.runs import Progress
from holdfast.services.rollback import rollback
from holdfast.value import dataclass, field


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointRestorePlan:
    """What a restore would do to a project. `apply` does exactly that."""

    place: Place = field(repr=False)
    store: CheckpointStore = field(repr=False)
    checkpoint: Checkpoint
    paths: tuple[str, ...] | None
    preview: Preview

    @property
    def changes_nothing(self) -> bool:
        """Whether the project already matches the checkpoint, as far as a restore could change
        that."""
        return not (self.preview.written or self.preview.deleted)

    @property
    def fingerprint(self) -> str:
        """Equal for plans that would do the same to the same files."""
        shown = self.preview
        return fingerprint(
            self.checkpoint.id, self.paths, shown.written, shown.deleted, sorted(shown.seen.items())
        )

    def apply(self, *, progress: Progress | None = None) -> RestoreReport:
        """Restore it. What changed since the preview is left as it is, and named in `left`."""
        done = rollback(
            self.place.home,
            self.store,
            self.checkpoint.id,
            self.paths,
            command=self.place.command("checkpoints.restore"),
            clock=self.place.clock,
            progress=progress,
            shown=self.preview,
        )
        expected = set(self.preview.kept)
        left = tuple(each for each in done.kept if each not in expected)
        return RestoreReport(place=self.place, rollback=done, left=left)


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RestoreReport:
    """What a restore did. `left` are paths that changed after the preview and stay as they are."""

    place: Place = field(repr=False)
    rollback: Rollback
    left: tuple[NotCaptured, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        return self.rollback.written

    @property
    def deleted(self) -> tuple[str, ...]:
        return self.rollback.deleted

    @property
    def kept(self) -> tuple[NotCaptured, ...]:
        """Paths that the restore did not touch, each with the reason."""
        return self.rollback.kept

    @property
    def safety_checkpoint(self) -> str | None:
        """The checkpoint of how things were before."""
        return self.rollback.safety_checkpoint

    @property
    def operation(self) -> str | None:
        """Its number in the log; None when nothing was changed."""
        return self.rollback.operation

    def undo(self, *, progress: Progress | None = None) -> HomeReport:
        """Undo exactly this restore. If it changed nothing, nothing happens."""
        return undo(self.place, self.operation, progress=progress)
