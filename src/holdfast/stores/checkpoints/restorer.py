"""Restore a project from the tree of one checkpoint to the tree of another.

The starting point is a safety checkpoint of the present state, so everything that is changed or
deleted can come back. What the safety checkpoint does not hold is not touched. Two more rules:

- a record is on disk before the first change and until after the last;
- a path that is neither as the one checkpoint says nor as the other stays, and is reported.

So repeating an interrupted restore finishes it, and reversing the two checkpoints undoes it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import (
    DamageError,
    HoldfastError,
    StorageError,
    UnknownCheckpointError,
    UsageError,
)
from holdfast.model.checkpoint import (
    Captured,
    ChangeKind,
    Checkpoint,
    NotCaptured,
    Preview,
    RestoreState,
    Rollback,
    Sight,
)
from holdfast.model.text import format_count
from holdfast.stores.checkpoints import restore_record
from holdfast.stores.checkpoints.checkpoint_commit import parse
from holdfast.stores.checkpoints.comparison import captured
from holdfast.stores.checkpoints.content import Content, content_of
from holdfast.stores.checkpoints.ignore_rules import earlier_text
from holdfast.stores.checkpoints.repository import Layout, opened
from holdfast.stores.checkpoints.restore_plan import Steps, seen, steps, without
from holdfast.stores.checkpoints.restore_record import Restoration
from holdfast.stores.checkpoints.restore_run import CHANGED_SINCE_PREVIEW, RestoreRun
from holdfast.stores.checkpoints.restore_scope import Sparing, check_paths, differing, rules
from holdfast.stores.checkpoints.working_tree import WorkingTree
from holdfast.stores.checkpoints.worktrees import WORKTREE
from holdfast.stores.files import read_file, storage_errors
from holdfast.stores.git.object import Kind
from holdfast.stores.git.program import EXCLUDES
from holdfast.stores.git.trees import Trees, path_bytes, path_text, read_commit
from holdfast.value import replace

_WORKTREES = ".worktrees"
_DIGEST = re.compile(r"[0-9a-f]{16}")
_NOTHING = Captured(files={}, directories={})


class Restorer:
    """Restores checkpoints of one project. The caller holds its lock and shares the store."""

    def __init__(self, layout: Layout, project: str) -> None:
        self._layout = layout
        self._project = project
        self._folder = layout.private(project)
        self._trees = Trees(opened(layout))

    def load(self, checkpoint: str) -> Checkpoint:
        """A checkpoint by its whole id, even one that made room for another meanwhile."""
        try:
            found = read_commit(self._trees, checkpoint)
        except (DamageError, ValueError):
            raise UnknownCheckpointError(
                f"There is no checkpoint {checkpoint} any more.",
                hint="`holdfast checkpoints list` shows those that there are.",
            ) from None
        return parse(found.id, found.tree, found.message)

    def check(self, target: Checkpoint, safety: Checkpoint, paths: Sequence[str]) -> None:
        """Raise `UsageError` for paths that cannot be restored."""
        old, new = self._content(safety.tree), self._content(target.tree)
        check_paths(paths, self._trees, old, new, target)

    def preview(
        self, target: Checkpoint, present: Sight | None, paths: Sequence[str] | None
    ) -> Preview:
        """What `restore` would do to the working tree as it is; None is one that is gone."""
        todo = self._steps(target, present, paths)
        if present is None:
            return _foreseen(todo, (), frozenset())
        with self._opened(target) as tree:
            todo = self._beside_worktrees(tree, todo, present)
            run = self._run(tree, present)
            kept = run.foresee(todo)
        return _foreseen(todo, kept, run.untouched())

    def preview_undo(
        self, target: Checkpoint, safety: Checkpoint, paths: Sequence[str] | None
    ) -> Preview:
        """What `restore` between these two checkpoints would do now."""
        asked, cut = self._asked(target, safety, paths, now=0.0)
        present = _as_sight(safety)
        todo = self._steps(target, present, asked.paths, asked.fresh)
        with self._opened(target) as tree:
            todo = self._beside_worktrees(tree, todo, present)
            asked, todo = _as_shown(asked, todo, None, after_kill=cut is not None)
            run = self._run(tree, present, again=cut is not None)
            run.find_changed(todo)
            kept = run.foresee(todo)
        return _foreseen(todo, kept, run.untouched())

    def announce(self, target: Checkpoint, *, now: float) -> None:
        """Keep the target from being pushed out by its own safety checkpoint."""
        coming = Restoration(target=target.id, safety="", paths=None, started_at=now)
        restore_record.announce(self._folder, coming)

    def restore(
        self,
        target: Checkpoint,
        safety: Checkpoint,
        *,
        paths: Sequence[str] | None,
        now: float,
        shown: Preview | None = None,
    ) -> Rollback:
        """From the safety checkpoint to the target; repeated after a kill, it finishes. With
        `shown`, what is no longer as the preview saw it is left alone."""
        asked, cut = self._asked(target, safety, paths, now=now)
        if cut is None and restore_record.under_way(self._folder) is not None:
            self.finish()  # another one, that was cut short
            asked, _ = self._asked(target, safety, paths, now=now)
        return self._carry_out(asked, target, safety, after_kill=cut is not None, shown=shown)

    def _asked(
        self, target: Checkpoint, safety: Checkpoint, paths: Sequence[str] | None, *, now: float
    ) -> tuple[Restoration, Restoration | None]:
        """A restore with what the one before it left to know; and that one, if it was cut short
        and is the same or the reverse."""
        wanted = None if paths is None else tuple(paths)
        asked = Restoration(target=target.id, safety=safety.id, paths=wanted, started_at=now)
        cut = restore_record.under_way(self._folder)
        if cut is not None and not (asked.is_same_as(cut) or asked.is_reverse_of(cut)):
            cut = None
        known = cut or restore_record.latest(self._folder)
        if known is not None:
            asked = asked.following(known, cut=cut is not None)
        return asked, cut

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
        """How far the latest restore came, if it is this one."""
        wanted = None if paths is None else tuple(paths)
        asked = Restoration(target=target.id, safety=safety.id, paths=wanted, started_at=0.0)
        cut, latest = (
            restore_record.under_way(self._folder),
            restore_record.latest(self._folder),
        )
        if cut is not None and asked.is_same_as(cut):
            return RestoreState.CUT
        if latest is not None and asked.is_same_as(latest):
            return RestoreState.DONE
        return RestoreState.NOT_BEGUN

    def _carry_out(
        self,
        asked: Restoration,
        target: Checkpoint,
        safety: Checkpoint,
        *,
        after_kill: bool,
        shown: Preview | None = None,
    ) -> Rollback:
        present = _as_sight(safety)
        todo = self._steps(target, present, asked.paths, asked.fresh)
        with self._opened(target) as tree:
            todo = self._beside_worktrees(tree, todo, present)
            asked, todo = _as_shown(asked, todo, shown, after_kill=after_kill)
            run = self._run(tree, present, again=after_kill)
            if shown is not None:
                todo = replace(todo, spared=(*todo.spared, *_out_of_reach(tree, todo, shown)))
            if after_kill:
                run.clear(todo)
            elif not todo:
                return _told(todo, todo.spared, safety.id)
            if not after_kill and not asked.undoes:
                made = self._fresh(tree, target, present, todo)
                asked = replace(asked, fresh=tuple(sorted({*asked.fresh, *made})))
            # Write-order rule: the record is there before the first change, and until the last.
            restore_record.begin(self._folder, asked)
            with _half_way(target, run):
                kept = run.perform(todo)
                tree.flush()
        restore_record.end(self._folder)
        return _told(todo, kept, safety.id, run.untouched())

    def _fresh(
        self, tree: WorkingTree, target: Checkpoint, present: Sight, todo: Steps
    ) -> tuple[str, ...]:
        """What this restore is about to make although the present rules leave it out."""
        added = [each.path for each in todo.written if each.old is None]
        ignored = self._ignored(added, todo.made, present, other=target)
        return tuple(path for path in ignored if tree.look(path_bytes(path), size=-1) is None)

    def _ignored(
        self,
        files: Sequence[str],
        directories: Sequence[str],
        side: Checkpoint | Sight,
        *,
        other: Checkpoint | Sight,
    ) -> Mapping[str, str]:
        """What the rules of one side leave out. Where the other has the same rules it leaves out
        the same, and nobody needs to be asked."""
        if not (files or directories):
            return {}
        if side.rules == other.rules:
            sides = differing(self._trees, self._content(other.tree), self._content(side.tree))
            if rules(sides[0]) == rules(sides[1]):
                return {}
        whole = captured(self._trees, self._content(side.tree))
        return self._sparing().ignored(files, directories, whole, self._excludes(side))

    def _excludes(self, side: Checkpoint | Sight) -> bytes:
        """The default excludes that a checkpoint was taken under."""
        now = read_file(self._layout.store / EXCLUDES)
        if side.rules is None:
            text = earlier_text(now.decode("utf-8", "surrogateescape"))
            return text.encode("utf-8", "surrogateescape")
        if _DIGEST.fullmatch(side.rules):
            with contextlib.suppress(FileNotFoundError):
                return read_file(self._layout.rules(side.rules))
        return now

    def _beside_worktrees(self, tree: WorkingTree, todo: Steps, present: Sight) -> Steps:
        """Without what lies in another worktree. A checkpoint may have it: of an older version, or
        of a time when there was no worktree."""
        touched = seen(todo)
        found = {path: tree.worktree_at(path_bytes(path)) for path in touched}
        others = {path: path_text(folder) for path, folder in found.items() if folder is not None}
        named = [path for path in touched if _WORKTREES in path.split("/") and path not in others]
        if named:
            whole = captured(self._trees, self._content(present.tree))
            left = self._sparing().ignored(named, (), whole, self._excludes(present))
            others |= {path: path[: path.index(_WORKTREES) + len(_WORKTREES)] for path in left}
        told = [NotCaptured(path=path, reason=WORKTREE) for path in sorted({*others.values()})]
        todo = without(todo, dict.fromkeys(others, ""))
        return replace(todo, spared=(*todo.spared, *told))

    def _sparing(self) -> Sparing:
        return Sparing(self._layout.store, self._folder, self._blob)

    def _steps(
        self,
        target: Checkpoint,
        present: Sight | None,
        paths: Sequence[str] | None,
        fresh: Collection[str] = (),
    ) -> Steps:
        then = self._content(target.tree)
        now = None if present is None else self._content(present.tree)
        if paths is not None:
            check_paths(paths, self._trees, now, then, target)
        if present is None or now is None:
            return steps(_NOTHING, captured(self._trees, then), paths=paths)
        old, new = differing(self._trees, now, then)
        why = self._sparing().not_captured(target)
        todo = steps(old, new, paths=paths, spared=why)
        going = [each.path for each in todo.unlinked if each.kind is ChangeKind.DELETED]
        ignored = self._ignored(going, todo.removed, target, other=present)
        if not ignored.keys() - set(fresh):
            return todo

        def spared(path: str) -> str | None:
            return why(path) or (None if path in fresh else ignored.get(path))

        return steps(old, new, paths=paths, spared=spared)

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

    def _content(self, tree: str) -> Content:
        return content_of(self._trees, bytes.fromhex(tree))

    def _blob(self, oid: str) -> bytes:
        return self._trees.raw(bytes.fromhex(oid), Kind.BLOB)


@contextlib.contextmanager
def _half_way(target: Checkpoint, run: RestoreRun) -> Iterator[None]:
    """An error in the middle of the work: it says how far that came, the record stays, and there
    are two ways out."""
    try:
        with storage_errors(f"restore {target.workdir} to checkpoint {target.id} whole"):
            yield
    except HoldfastError as error:
        error.message = f"{error.message} ({format_count(len(run.done), 'file')} done)"
        way_out = "The same restore again finishes it, `holdfast undo` takes it back."
        error.hint = way_out if error.hint is None else f"{error.hint} {way_out}"
        raise


def check_project(target: Checkpoint, safety: Checkpoint) -> None:
    if target.project != safety.project:
        raise UsageError(f"{safety.id} is no checkpoint of {target.workdir}.")


def _as_sight(checkpoint: Checkpoint) -> Sight:
    return Sight(tree=checkpoint.tree, not_captured=checkpoint.not_captured, rules=checkpoint.rules)


def _as_shown(
    asked: Restoration, todo: Steps, shown: Preview | None, *, after_kill: bool
) -> tuple[Restoration, Steps]:
    """The steps that the preview showed, and what the record keeps of the others."""
    if shown is not None and not after_kill:
        asked = replace(asked, held=_held(todo, shown))
    # What a restore left alone, its undo leaves alone as well, without reporting it.
    todo = without(todo, dict.fromkeys(asked.held, "") if asked.undoes else asked.held)
    if shown is not None and after_kill:
        # The steps that are through already are no part of what was shown.
        todo = without(todo, dict.fromkeys(seen(todo).keys() - shown.seen.keys(), ""))
    return asked, todo


def _held(todo: Steps, shown: Preview) -> Mapping[str, str]:
    """Which paths must stay, and why: they are not as the preview saw them, or not part of it."""
    known = {each.path: each.reason for each in shown.kept}
    return {
        path: known.get(path, CHANGED_SINCE_PREVIEW)
        for path, entry in seen(todo).items()
        if path not in shown.seen or shown.seen[path] != entry
    }


def _out_of_reach(tree: WorkingTree, todo: Steps, shown: Preview) -> Iterator[NotCaptured]:
    """What was to be deleted, is still there, and is no longer captured: perhaps ignored by now."""
    known = {*seen(todo), *(each.path for each in todo.spared)}
    for path in shown.deleted:
        if path not in known and tree.look(path_bytes(path), size=-1) is not None:
            yield NotCaptured(path=path, reason=CHANGED_SINCE_PREVIEW)


def _foreseen(todo: Steps, kept: Sequence[NotCaptured], stays: Collection[str]) -> Preview:
    told = _told(todo, kept, None, stays)
    return Preview(
        written=told.written,
        deleted=told.deleted,
        kept=told.kept,
        safety_checkpoint=None,
        seen={path: entry for path, entry in seen(todo).items() if path not in stays},
    )


def _told(
    todo: Steps, kept: Sequence[NotCaptured], safety: str | None, stays: Collection[str] = ()
) -> Rollback:
    stayed = {*stays, *(each.path for each in kept)}
    return Rollback(
        written=tuple(path for path in todo.written_paths if path not in stayed),
        deleted=tuple(path for path in todo.deleted_paths if path not in stayed),
        kept=tuple(kept),
        safety_checkpoint=safety,
    )
