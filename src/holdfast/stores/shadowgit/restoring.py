"""Restore: bring a project from the tree of one checkpoint to that of another.

The one it comes from is a safety checkpoint of the present state, so that everything that is
changed or deleted can come back. What that does not hold is not touched. Two further rules:

- a record is on the disk before the first change, and goes after the last one is;
- what is neither as the one checkpoint says nor as the other stays, and is named.

So a restore that was cut short is finished by doing it again, and any restore is undone by doing
it the other way round.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from holdfast.errors import (
    DamageError,
    HoldfastError,
    StorageError,
    UnknownCheckpointError,
    UsageError,
)
from holdfast.model.checkpoint import (
    Captured,
    Checkpoint,
    NotCaptured,
    RestoreState,
    Rollback,
    Sight,
)
from holdfast.stores.files import storage_errors
from holdfast.stores.shadowgit import restore_record
from holdfast.stores.shadowgit.base import content_of
from holdfast.stores.shadowgit.commits import parse
from holdfast.stores.shadowgit.comparing import captured
from holdfast.stores.shadowgit.repository import Layout, git_errors, opened
from holdfast.stores.shadowgit.restore_plan import Steps, check_paths, steps
from holdfast.stores.shadowgit.restore_record import Restoration
from holdfast.stores.shadowgit.restore_run import RestoreRun
from holdfast.stores.shadowgit.sparing import Sparing
from holdfast.stores.shadowgit.trees import Trees
from holdfast.stores.shadowgit.working_tree import WorkingTree

_NOTHING = Captured(files={}, directories={})


class Restorer:
    """Restores checkpoints of one project, for whoever has its lock and shares the store."""

    def __init__(self, layout: Layout, project: str) -> None:
        self._layout = layout
        self._project = project
        self._folder = layout.private(project)
        self._trees = Trees(opened(layout))

    def load(self, checkpoint: str) -> Checkpoint:
        """A checkpoint by its whole id, even one that made room for another meanwhile."""
        try:
            commit = self._trees.repository[checkpoint].peel(pygit2.Commit)
        except (KeyError, ValueError, pygit2.GitError):
            raise UnknownCheckpointError(
                f"There is no checkpoint {checkpoint} any more.",
                hint="`holdfast checkpoints list` shows those that there are.",
            ) from None
        return parse(str(commit.id), str(commit.tree_id), commit.message)

    def check(self, target: Checkpoint, safety: Checkpoint, paths: Sequence[str]) -> None:
        """Raise `UsageError` for paths that cannot be restored."""
        check_paths(paths, self._captured(safety.tree), self._captured(target.tree), target)

    def preview(
        self, target: Checkpoint, present: Sight | None, paths: Sequence[str] | None
    ) -> Rollback:
        """What `restore` would do to the working tree as it is; None is one that is gone."""
        todo = self._steps(target, present, paths)
        if present is None:
            return _told(todo, (), None)
        with self._opened(target) as tree:
            return _told(todo, self._run(tree, present).foresee(todo), None)

    def announce(self, target: Checkpoint, *, now: float) -> None:
        """Keep the target from being pushed out by its own safety checkpoint."""
        coming = Restoration(target=target.id, safety="", paths=None, started_at=now)
        restore_record.announce(self._folder, coming)

    def restore(
        self, target: Checkpoint, safety: Checkpoint, *, paths: Sequence[str] | None, now: float
    ) -> Rollback:
        """From the safety checkpoint to the target; repeated after a kill, it finishes."""
        wanted = None if paths is None else tuple(paths)
        asked = Restoration(target=target.id, safety=safety.id, paths=wanted, started_at=now)
        cut = restore_record.under_way(self._folder)
        if cut is not None and not _same_ends(cut, asked):
            self.finish()
        return self._carry_out(asked, target, safety, after_kill=cut is not None)

    def finish(self) -> Rollback | None:
        """Finish the restore that was cut short here; None when there is none."""
        cut = restore_record.under_way(self._folder)
        if cut is None:
            return None
        try:
            target, safety = self.load(cut.target), self.load(cut.safety)
        except (UnknownCheckpointError, DamageError):
            restore_record.end(self._folder)  # one of its ends is gone: nobody can finish it
            return None
        return self._carry_out(cut, target, safety, after_kill=True)

    def state(
        self, target: Checkpoint, safety: Checkpoint, paths: Sequence[str] | None
    ) -> RestoreState:
        """How far a restore between these two came, as far as that can be seen."""
        cut = restore_record.under_way(self._folder)
        if cut is not None and (cut.target, cut.safety) == (target.id, safety.id):
            return RestoreState.CUT
        present = _as_sight(safety)
        with self._opened(target) as tree:
            begun = self._run(tree, present).is_begun(self._steps(target, present, paths))
        return RestoreState.DONE if begun else RestoreState.NOT_BEGUN

    def _carry_out(
        self, asked: Restoration, target: Checkpoint, safety: Checkpoint, *, after_kill: bool
    ) -> Rollback:
        present = _as_sight(safety)
        todo = self._steps(target, present, asked.paths)
        with self._opened(target) as tree:
            run = self._run(tree, present, again=after_kill)
            if after_kill:
                run.clear(todo)
            elif not todo:
                return _told(todo, todo.spared, safety.id)
            # Write-order rule: the record is there before the first change, and until the last.
            restore_record.begin(self._folder, asked)
            with _half_way(target):
                kept = run.perform(todo)
                tree.flush()
        restore_record.end(self._folder)
        return _told(todo, kept, safety.id)

    def _steps(
        self, target: Checkpoint, present: Sight | None, paths: Sequence[str] | None
    ) -> Steps:
        old = _NOTHING if present is None else self._captured(present.tree)
        new = self._captured(target.tree)
        if paths is not None:
            check_paths(paths, old, new, target)
        sparing = Sparing(self._layout.store, self._folder, self._blob)
        todo = steps(old, new, paths=paths, spared=sparing.not_captured(target))
        going = [each.path for each in todo.unlinked if each.new is None]
        ignored = sparing.ignored(going, old, new)
        if not ignored:
            return todo
        why = sparing.not_captured(target)
        return steps(old, new, paths=paths, spared=lambda path: why(path) or ignored.get(path))

    def _run(self, tree: WorkingTree, present: Sight, *, again: bool = False) -> RestoreRun:
        why = {each.path: each.reason for each in present.not_captured}
        return RestoreRun(tree, self._blob, why, again=again)

    def _opened(self, target: Checkpoint) -> WorkingTree:
        workdir = Path(target.workdir)
        with storage_errors(f"open {workdir}"):
            if workdir.resolve() != workdir:
                raise StorageError(
                    f"{workdir} is a link to {workdir.resolve()} now; nothing was restored.",
                    hint="Put the directory back in its place first.",
                )
            return WorkingTree(workdir)

    def _captured(self, tree: str) -> Captured:
        with git_errors("read the checkpoint store"):
            return captured(self._trees, content_of(self._trees, bytes.fromhex(tree)))

    def _blob(self, oid: str) -> bytes:
        with git_errors("read the checkpoint store"):
            return self._trees.raw(bytes.fromhex(oid), ObjectType.BLOB)


@contextlib.contextmanager
def _half_way(target: Checkpoint) -> Iterator[None]:
    """An error in the middle of the work: the record stays, and there are two ways out."""
    try:
        with storage_errors(f"restore {target.workdir} to checkpoint {target.id} whole"):
            yield
    except HoldfastError as error:
        way_out = "The same restore again finishes it, `holdfast undo` takes it back."
        error.hint = way_out if error.hint is None else f"{error.hint} {way_out}"
        raise


def check_project(target: Checkpoint, safety: Checkpoint) -> None:
    if target.project != safety.project:
        raise UsageError(f"{safety.id} is no checkpoint of {target.workdir}.")


def _as_sight(checkpoint: Checkpoint) -> Sight:
    return Sight(tree=checkpoint.tree, not_captured=checkpoint.not_captured)


def _same_ends(one: Restoration, other: Restoration) -> bool:
    """Whether one is the other, repeated or taken back: then it need not be finished first."""
    ends = {one.target, one.safety}
    return ends == {other.target, other.safety} and one.paths == other.paths


def _told(todo: Steps, kept: Sequence[NotCaptured], safety: str | None) -> Rollback:
    stayed = {each.path for each in kept}
    return Rollback(
        written=tuple(path for path in todo.written_paths if path not in stayed),
        deleted=tuple(path for path in todo.deleted_paths if path not in stayed),
        kept=tuple(kept),
        safety_checkpoint=safety,
    )
