"""The whole checkpoint store: one bare git repository for all projects of a home."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.errors import UsageError
from holdfast.model.arguments import StrPath, real
from holdfast.model.checkpoint import (
    Captured,
    Change,
    Checkpoint,
    Excluded,
    Lines,
    Preview,
    Project,
    RestoreState,
    Rollback,
)
from holdfast.stores.checkpoints import (
    comparison,
    finder,
    projects,
    restore,
    walk,
)
from holdfast.stores.checkpoints.comparison import captured, changes, git_lines
from holdfast.stores.checkpoints.content import content_of
from holdfast.stores.checkpoints.creation import prepare
from holdfast.stores.checkpoints.repository import Layout, opened, project_lock, project_of, used
from holdfast.stores.checkpoints.writer import CheckpointWriter
from holdfast.stores.git.object import Kind
from holdfast.stores.git.program import Git
from holdfast.stores.git.trees import EMPTY, Trees


class ShadowGitStore(CheckpointWriter):
    """The whole store: what `CheckpointWriter` takes, listed, compared, marked and restored."""

    def excluded(self, workdir: Path) -> Sequence[Excluded]:
        place = Path(os.path.realpath(workdir))
        project = project_of(place)
        why = self._why_not(place, project)
        if why is not None:
            raise UsageError(f"Cannot look at {place}: {why}.")
        with (
            self._with_rules() as layout,
            used(layout),
            project_lock(layout, project, str(place)),
        ):
            git = Git(store=layout.store, folder=layout.private(project), work_tree=place)
            found = walk.excluded(git, os.fsencode(place))
            return sorted(found, key=lambda each: each.path)

    @contextmanager
    def _with_rules(self) -> Iterator[Layout]:
        """A store that git can read the excludes from. Looking does not create it: a temporary
        store gives the same answer."""
        if self.layout.exists():
            self.prepare()
            yield self.layout
            return
        with TemporaryDirectory(prefix="holdfast-") as folder:
            layout = Layout(folder=Path(folder) / self.layout.folder.name)
            prepare(layout, self.how.excludes)
            yield layout

    def list(self, workdir: StrPath | None = None) -> Sequence[Checkpoint]:
        project = None if workdir is None else project_of(real(workdir))
        with self.reading():
            return finder.checkpoints(self.layout, project)

    def get(self, prefix: str) -> Checkpoint:
        return self._stored(prefix)

    def _stored(self, prefix: str) -> Checkpoint:
        """A checkpoint of this store itself, whatever else `get` of a subclass finds."""
        finder.check_prefix(prefix)
        with self.reading():
            return finder.get(self.layout, prefix)

    def captured(self, tree: str) -> Captured:
        with self.reading():
            trees = Trees(opened(self.layout))
            return captured(trees, content_of(trees, bytes.fromhex(tree)))

    def blob(self, oid: str) -> bytes:
        with self.reading():
            return Trees(opened(self.layout)).raw(bytes.fromhex(oid), Kind.BLOB)

    def changes(self, old: str, new: str) -> Sequence[Change]:
        with self.reading():
            trees = Trees(opened(self.layout))
            before = content_of(trees, bytes.fromhex(old))
            after = content_of(trees, bytes.fromhex(new))
            return changes(trees, before, after)

    def lines(self, old: str | None, new: str) -> Lines:
        with self.reading():
            trees = Trees(opened(self.layout))
            after = content_of(trees, bytes.fromhex(new)).files
            before = EMPTY if old is None else content_of(trees, bytes.fromhex(old)).files
            return git_lines(self.layout.git(), before.hex(), after.hex())

    def projects(self, *, stale_before: float | None = None) -> Sequence[Project]:
        with self.reading():
            return finder.projects(self.layout, stale_before=stale_before)

    def secure(self, target: str, *, paths: Sequence[str] | None = None, now: float) -> str:
        checkpoint = self._stored(target)
        wanted = restore.inside(checkpoint, paths)
        begun = restore.cut_short(self.layout, checkpoint, wanted)
        if begun is not None:
            return begun
        restore.announce(self.layout, checkpoint, now=now)
        reason = restore.safety_reason(checkpoint)
        taking = self.take(Path(checkpoint.workdir), reason=reason, now=now)
        return restore.secured(self.layout, checkpoint, taking, wanted)

    def preview(self, target: str, *, paths: Sequence[str] | None = None) -> Preview:
        with self.reading():  # what a look finds is held by nothing else
            checkpoint = self._stored(target)
            workdir = Path(checkpoint.workdir)
            present = self.look(workdir) if os.path.lexists(workdir) else None
            return restore.preview(self.layout, checkpoint, present, paths)

    def preview_undo(
        self, target: str, safety: str, *, paths: Sequence[str] | None = None
    ) -> Preview:
        return restore.preview_undo(self.layout, target, safety, paths)

    def restore(
        self,
        target: str,
        safety: str,
        *,
        paths: Sequence[str] | None = None,
        now: float,
        shown: Preview | None = None,
    ) -> Rollback:
        return restore.restore(self.layout, target, safety, paths=paths, now=now, shown=shown)

    def restore_state(
        self, target: str, safety: str, *, paths: Sequence[str] | None = None
    ) -> RestoreState:
        return restore.state(self.layout, target, safety, paths=paths)

    def ready(self, checkpoint: Checkpoint) -> Checkpoint:
        return checkpoint

    def patch(self, old: str, new: str, paths: Sequence[str] = ()) -> Iterator[bytes]:
        return comparison.spooled(comparison.patch(self.layout.store, old, new, paths))

    def statistics(
        self, old: str, new: str, paths: Sequence[str] = (), *, width: int
    ) -> Iterator[bytes]:
        lines = comparison.statistics(self.layout.store, old, new, paths, width=width)
        return comparison.spooled(lines)

    def pin(self, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
        return projects.pin(self.layout, checkpoint, pinned)

    def rename(self, checkpoint: Checkpoint, name: str | None) -> Checkpoint:
        return projects.rename(self.layout, checkpoint, name)
