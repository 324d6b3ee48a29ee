"""Restore a project from the tree of one checkpoint to the tree of another.

The starting point is a safety checkpoint of the present state, so everything that is changed or
deleted can be brought back. Paths that the safety checkpoint did not capture are not touched. Two
more rules:

- a record is on disk before the first change and until after the last;
- a path that matches neither checkpoint stays, and is reported.

So repeating an interrupted restore finishes it, and swapping the two checkpoints undoes it.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import DamageError, HoldfastError, StorageError, UnknownCheckpointError
from holdfast.model.checkpoint import (
    WORKTREE,
    Captured,
    ChangeKind,
    Checkpoint,
    CutRestore,
    Entry,
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
from holdfast.stores.checkpoints.databases import kept_whole
from holdfast.stores.checkpoints.default_excludes import TEMPORARY, Ignoring, earlier_text
from holdfast.stores.checkpoints.projects import in_a_home
from holdfast.stores.checkpoints.repository import Layout, opened
from holdfast.stores.checkpoints.restore_plan import (
    Spared,
    Steps,
    above,
    check_paths,
    differing,
    relied_on,
    remaking,
    seen,
    steps,
    without,
)
from holdfast.stores.checkpoints.restore_record import Restoration
from holdfast.stores.checkpoints.restore_run import CHANGED_SINCE_PREVIEW, RestoreRun
from holdfast.stores.checkpoints.working_tree import WorkingTree
from holdfast.stores.files import PRIVATE_DIR, read_file, storage_errors
from holdfast.stores.git.object import Kind
from holdfast.stores.git.program import EXCLUDES, Git
from holdfast.stores.git.trees import TREE, Trees, path_bytes, path_text, read_commit
from holdfast.value import replace

#: Either end of a restore: a tree, and what it does not contain.
Side = Checkpoint | Sight

_WORKTREES = ".worktrees"
_RULES = ".gitignore"
_NOTHING = Captured(files={}, directories={})
_NOT_THEN = "the checkpoint did not capture it: {}"


def finish(layout: Layout, project: str, cut: Restoration) -> CutRestore:
    """Finish an interrupted restore before a checkpoint is taken. The caller holds the locks.

    If that fails, on a full disk for example, this take goes on, and the next one tries again.
    """
    try:
        done = Restorer(layout, project).finish()
    except HoldfastError as error:
        return CutRestore(target=cut.target, problem=error.message)
    return CutRestore(target=cut.target, problem="" if done else "A checkpoint of it is gone.")


class Restorer:
    """Restores checkpoints of one project. The caller holds its lock and shares the store."""

    def __init__(self, layout: Layout, project: str) -> None:
        self._layout = layout
        self._folder = layout.private(project)
        self._trees = Trees(opened(layout))
        self._parts: dict[tuple[str, str], tuple[Captured, Captured]] = {}

    def load(self, checkpoint: str) -> Checkpoint:
        """Return a checkpoint by its full id, even if it was rotated out meanwhile."""
        try:
            found = read_commit(self._trees, checkpoint)
        except (DamageError, ValueError):
            raise UnknownCheckpointError(
                f"Checkpoint {checkpoint} no longer exists.",
                hint="`holdfast checkpoints list` shows those that exist.",
            ) from None
        return parse(found.id, found.tree, found.message)

    def check(self, target: Checkpoint, safety: Checkpoint, paths: Sequence[str]) -> None:
        """Raise `UsageError` for paths that cannot be restored."""
        old, new = self._content(safety.tree), self._content(target.tree)
        check_paths(paths, self._trees, old, new, target)

    def preview(
        self, target: Checkpoint, present: Sight | None, paths: Sequence[str] | None
    ) -> Preview:
        """Return what `restore` would do to the present working tree. `present` is None if the
        directory is gone."""
        todo = self._steps(target, present, paths)
        if present is None:
            return _foreseen(todo, (), frozenset())
        with self._opened(target) as tree:
            todo = self._without_others(tree, todo, present)
            todo = self._with_whole_databases(tree, todo, target)
            run = self._run(tree, present)
            kept = run.foresee(todo)
        return _foreseen(todo, kept, run.untouched())

    def preview_undo(
        self,
        target: Checkpoint,
        safety: Checkpoint,
        paths: Sequence[str] | None,
        *,
        undoing: bool = False,
    ) -> Preview:
        """Return what `restore` between these two checkpoints would do now."""
        asked, cut = self._asked(target, safety, paths, now=0.0, undoing=undoing)
        todo = self._asked_steps(asked, target, safety)
        with self._opened(target) as tree:
            todo = self._without_others(tree, todo, safety)
            asked, todo = _as_shown(asked, todo, None, after_kill=cut is not None)
            todo = self._with_whole_databases(tree, todo, target)
            asked, whole = self._with_parents(tree, asked, todo, target, safety)
            run = self._run(tree, safety, again=cut is not None)
            run.find_changed(whole)
            kept = _named(run.foresee(whole), todo, asked)
        return _foreseen(todo, kept, run.untouched())

    def restore(
        self,
        target: Checkpoint,
        safety: Checkpoint,
        *,
        paths: Sequence[str] | None,
        now: float,
        shown: Preview | None = None,
        undoing: bool = False,
    ) -> Rollback:
        """Restore from the safety checkpoint to the target. Repeated after a kill, it finishes.

        With `shown`, paths that are no longer as the preview saw them are left alone. With
        `undoing`, so are paths that the restore from the target to the safety checkpoint left
        alone.
        """
        asked, cut = self._asked(target, safety, paths, now=now, undoing=undoing)
        if cut is None and restore_record.under_way(self._folder) is not None:
            self.finish()  # another restore that was interrupted
            asked, _ = self._asked(target, safety, paths, now=now, undoing=undoing)
        return self._carry_out(asked, target, safety, after_kill=cut is not None, shown=shown)

    def _asked(
        self,
        target: Checkpoint,
        safety: Checkpoint,
        paths: Sequence[str] | None,
        *,
        now: float,
        undoing: bool,
    ) -> tuple[Restoration, Restoration | None]:
        """Return the record of a restore, including what the previous record knows. Also return the
        record of an interrupted restore, if that is the same or the reverse."""
        asked = _restoration(target, safety, paths, now=now)
        cut = restore_record.under_way(self._folder)
        if cut is not None and not (asked.is_same_as(cut) or asked.is_reverse_of(cut)):
            cut = None
        known = cut or restore_record.latest(self._folder)
        if known is not None:
            asked = asked.following(known, cut=cut is not None)
        # The record only covers the latest restore; an older one may be undone, too.
        return replace(asked, undoes=asked.undoes or undoing), cut

    def finish(self) -> Rollback | None:
        """Finish an interrupted restore; None if there is none."""
        cut = restore_record.under_way(self._folder)
        if cut is None:
            return None
        try:
            target, safety = self.load(cut.target), self.load(cut.safety)
        except (UnknownCheckpointError, DamageError):
            restore_record.end(self._folder)  # a checkpoint is gone, so it cannot be finished
            return None
        return self._carry_out(cut, target, safety, after_kill=True)

    def state(
        self, target: Checkpoint, safety: Checkpoint, paths: Sequence[str] | None
    ) -> RestoreState:
        """Return how far this restore got, if it is the latest."""
        asked = _restoration(target, safety, paths, now=0.0)
        cut = restore_record.under_way(self._folder)
        latest = restore_record.latest(self._folder)
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
        todo = begun = self._asked_steps(asked, target, safety)
        with self._opened(target) as tree:
            todo = self._without_others(tree, todo, safety)
            asked, todo = _as_shown(asked, todo, shown, after_kill=after_kill)
            # Last, because what was left out so far may be a part of a database.
            todo = self._with_whole_databases(tree, todo, target)
            run = self._run(tree, safety, again=after_kill)
            if shown is not None:
                todo = replace(todo, spared=(*todo.spared, *_out_of_reach(tree, todo, shown)))
            asked, whole = self._with_parents(tree, asked, todo, target, safety)
            if after_kill:
                run.clear(begun)  # what must stay now may not have had to before
                run.clear(whole)
            elif not todo:
                return _told(todo, todo.spared, safety.id)
            if not after_kill and not asked.undoes:
                made = self._fresh(tree, target, safety, todo)
                asked = replace(asked, fresh=tuple(sorted({*asked.fresh, *made})))
            # Write-order rule: the record is on disk before the first change and until the last.
            restore_record.begin(self._folder, asked)
            with _half_way(target, run):
                kept = _named(run.perform(whole), todo, asked)
                tree.flush()
        restore_record.end(self._folder)
        return _told(todo, kept, safety.id, run.untouched())

    def _with_parents(
        self,
        tree: WorkingTree,
        asked: Restoration,
        todo: Steps,
        target: Checkpoint,
        safety: Checkpoint,
    ) -> tuple[Restoration, Steps]:
        """Add steps that recreate directories that both checkpoints have but the project has not,
        and name these in the record. They get their permissions from before the restore."""
        gone = {path for path in relied_on(todo) if not tree.is_there(path_bytes(path))}
        gone |= set(asked.remade) & relied_on(todo)
        before = self._content((target if asked.undoes else safety).tree).record
        modes = {path: before.directory(path_bytes(path)).permissions for path in gone}
        return replace(asked, remade=tuple(sorted(gone))), remaking(todo, modes)

    def _fresh(
        self, tree: WorkingTree, target: Checkpoint, present: Side, todo: Steps
    ) -> tuple[str, ...]:
        """Return the paths that this restore will create despite the present rules."""
        added = [each.path for each in todo.written if each.old is None]
        ignored = self._ignored(added, todo.made, present, other=target)
        return tuple(path for path in ignored if tree.look(path_bytes(path), size=-1) is None)

    def _ignored(
        self,
        files: Sequence[str],
        directories: Sequence[str],
        side: Side,
        *,
        other: Side,
    ) -> Mapping[str, str]:
        """Return the paths that the rules of one side exclude, with reasons. If the other side has
        the same rules, no path is excluded on only one side."""
        if not (files or directories):
            return {}
        if side.rules == other.rules:
            sides = self._differing(side, other)
            if _rules(sides[0]) == _rules(sides[1]):
                return {}
        return self._ignored_by(side, files, directories)

    def _ignored_by(
        self, side: Side, files: Sequence[str], directories: Sequence[str] = ()
    ) -> Mapping[str, str]:
        """Return the paths that the rules of a checkpoint exclude: its `.gitignore` files and the
        default excludes of that time.

        Such a path may have existed then: the checkpoint does not show it.
        """
        tree = captured(self._trees, self._content(side.tree))
        with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
            place = Path(made).resolve()
            with storage_errors(f"write ignore rules to {place}"):
                for path, entry in _rules(tree).items():
                    file = place / path
                    file.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
                    file.write_bytes(self._blob(entry.oid))
                for path in directories:  # some rules match only directories
                    (place / path).mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
                standing = place / f"{TEMPORARY.decode()}excludes"
                standing.write_bytes(self._excludes(side))
            git = Git(store=self._layout.store, folder=self._folder, work_tree=place)
            with Ignoring(git, standing) as ignoring:
                left = ignoring.ask(sorted(map(path_bytes, (*files, *directories))))
        return {path_text(path): _NOT_THEN.format("it was ignored") for path in left}

    def _excludes(self, side: Side) -> bytes:
        """Return the default excludes that a checkpoint was taken under."""
        now = read_file(self._layout.store / EXCLUDES)
        if side.rules is None:
            text = earlier_text(now.decode("utf-8", "surrogateescape"))
            return text.encode("utf-8", "surrogateescape")
        if side.rules.isalnum():  # no path out of the folder is possible
            with contextlib.suppress(FileNotFoundError):
                return read_file(self._layout.rules(side.rules))
        return now

    def _without_others(self, tree: WorkingTree, todo: Steps, present: Side) -> Steps:
        """Remove the steps for paths in another worktree or in a home. A checkpoint may have such
        paths from a time before the worktree was added, or from an earlier version, which captured
        homes."""
        touched = seen(todo)
        found = {path: tree.worktree_at(path_bytes(path)) for path in touched}
        others = {path: path_text(folder) for path, folder in found.items() if folder is not None}
        homes = self._in_homes(tree, touched)
        named = [path for path in touched if _WORKTREES in path.split("/") and path not in others]
        if named:
            left = self._ignored_by(present, named)
            others |= {path: path[: path.index(_WORKTREES) + len(_WORKTREES)] for path in left}
        told = [NotCaptured(path=path, reason=WORKTREE) for path in sorted({*others.values()})]
        told += [NotCaptured(path=path, reason=why) for path, why in sorted({*homes.values()})]
        todo = without(todo, dict.fromkeys((*others, *homes), ""))
        return replace(todo, spared=(*todo.spared, *told))

    def _with_whole_databases(self, tree: WorkingTree, todo: Steps, target: Checkpoint) -> Steps:
        """Remove the steps for SQLite databases that are open, or would be torn apart."""
        content = self._content(target.tree)

        def then(path: str) -> Entry | None:
            node = self._trees.at(content.files, path_bytes(path))
            if node is None or node[0] == TREE:
                return None
            return content.record.entry(path_bytes(path), node)

        return without(todo, kept_whole(todo, tree, then, lambda entry: self._blob(entry.oid)))

    @staticmethod
    def _in_homes(
        tree: WorkingTree, touched: Mapping[str, Entry | None]
    ) -> dict[str, tuple[str, str]]:
        """Return the paths that are in a home, each with the home and whose it is."""
        found = {}
        for path, entry in touched.items():
            is_file = entry is not None and not entry.is_directory
            home = tree.home_at(path_bytes(path.rpartition("/")[0] if is_file else path))
            if home is not None:
                found[path] = path_text(home[0]), home[1]
        return found

    def _asked_steps(self, asked: Restoration, target: Checkpoint, safety: Checkpoint) -> Steps:
        """Return the steps of a restore. An undo touches only what the restore itself touches: the
        restore left files alone that the checkpoint had not captured, so they need no undo."""
        todo = self._steps(target, safety, asked.paths, asked.fresh)
        if not asked.undoes:
            return todo
        done = seen(self._steps(safety, target, asked.paths))
        return without(todo, dict.fromkeys(seen(todo).keys() - done.keys(), ""))

    def _steps(
        self,
        target: Checkpoint,
        present: Side | None,
        paths: Sequence[str] | None,
        fresh: Collection[str] = (),
    ) -> Steps:
        then = self._content(target.tree)
        now = None if present is None else self._content(present.tree)
        if paths is not None:
            check_paths(paths, self._trees, now, then, target)
        if present is None or now is None:
            return steps(_NOTHING, captured(self._trees, then), paths=paths)
        old, new = self._differing(present, target)
        why = _not_captured(target)
        todo = steps(old, new, paths=paths, spared=why)
        going = [each.path for each in todo.unlinked if each.kind is ChangeKind.DELETED]
        ignored = self._ignored(going, todo.removed, target, other=present)
        if not ignored.keys() - set(fresh):
            return todo

        def spared(path: str) -> str | None:
            return why(path) or (None if path in fresh else ignored.get(path))

        return steps(old, new, paths=paths, spared=spared)

    def _differing(self, old: Side, new: Side) -> tuple[Captured, Captured]:
        """Return the parts of two trees that differ. Cached: needed more than once."""
        if (turned := self._parts.get((new.tree, old.tree))) is not None:
            return turned[1], turned[0]
        key = old.tree, new.tree
        if key not in self._parts:
            sides = self._content(old.tree), self._content(new.tree)
            self._parts[key] = differing(self._trees, *sides)
        return self._parts[key]

    def _run(self, tree: WorkingTree, present: Side, *, again: bool = False) -> RestoreRun:
        why = {each.path: each.reason for each in present.not_captured}
        return RestoreRun(tree, self._blob, why, again=again)

    def _opened(self, target: Checkpoint) -> WorkingTree:
        workdir = Path(target.workdir)
        with storage_errors(f"open {workdir}"):
            if workdir.resolve() != workdir:
                raise StorageError(
                    f"{workdir} is a link to {workdir.resolve()} now; nothing was restored.",
                    hint="Move the directory back to its original place, then try again.",
                )
            if home := in_a_home(workdir):
                raise StorageError(f"Nothing can be restored in {workdir}: {home}.")
            return WorkingTree(workdir)

    def _content(self, tree: str) -> Content:
        return content_of(self._trees, bytes.fromhex(tree))

    def _blob(self, oid: str) -> bytes:
        return self._trees.raw(bytes.fromhex(oid), Kind.BLOB)


@contextlib.contextmanager
def _half_way(target: Checkpoint, run: RestoreRun) -> Iterator[None]:
    """Add progress and a way out to an error in the middle of a restore. The record stays."""
    try:
        with storage_errors(f"completely restore {target.workdir} to checkpoint {target.id}"):
            yield
    except HoldfastError as error:
        error.message = f"{error.message} ({format_count(len(run.done), 'file')} done)"
        way_out = "Run the same restore again to finish it, or `holdfast undo` to undo it."
        error.hint = way_out if error.hint is None else f"{error.hint} {way_out}"
        raise


def _restoration(
    target: Checkpoint, safety: Checkpoint, paths: Sequence[str] | None, *, now: float
) -> Restoration:
    wanted = None if paths is None else tuple(paths)
    return Restoration(target=target.id, safety=safety.id, paths=wanted, started_at=now)


def _not_captured(target: Checkpoint) -> Spared:
    """Return a function with the reason why a checkpoint did not capture a path or its parent."""
    why = {each.path: each.reason for each in target.not_captured}

    def spared(path: str) -> str | None:
        for place in (path, *above(path)) if why else ():
            if place in why:
                return _NOT_THEN.format(why[place])
        return None

    return spared


def _rules(tree: Captured) -> Mapping[str, Entry]:
    return {
        path: entry
        for path, entry in tree.files.items()
        if path.rpartition("/")[2] == _RULES and not entry.is_link
    }


def _as_shown(
    asked: Restoration, todo: Steps, shown: Preview | None, *, after_kill: bool
) -> tuple[Restoration, Steps]:
    """Limit the steps to what the preview showed, and record the others."""
    if shown is not None and not after_kill:
        asked = replace(asked, held=_held(todo, shown))
    # The undo of a restore leaves alone what the restore left alone, without reporting it.
    todo = without(todo, dict.fromkeys(asked.held, "") if asked.undoes else asked.held)
    if shown is not None and after_kill:
        # The preview does not show steps that are already done.
        todo = without(todo, dict.fromkeys(seen(todo).keys() - shown.seen.keys(), ""))
    return asked, todo


def _held(todo: Steps, shown: Preview) -> Mapping[str, str]:
    """Return the paths that must stay, with reasons: they have changed since the preview, or were
    not part of it."""
    known = {each.path: each.reason for each in shown.kept}
    return {
        path: known.get(path, CHANGED_SINCE_PREVIEW)
        for path, entry in seen(todo).items()
        if path not in shown.seen or shown.seen[path] != entry
    }


def _out_of_reach(tree: WorkingTree, todo: Steps, shown: Preview) -> Iterator[NotCaptured]:
    """Yield the paths that were to be deleted, still exist, and are no longer captured: perhaps a
    new rule ignores them."""
    known = {*seen(todo), *(each.path for each in todo.spared)}
    for path in shown.deleted:
        if path not in known and tree.look(path_bytes(path), size=-1) is not None:
            yield NotCaptured(path=path, reason=CHANGED_SINCE_PREVIEW)


def _named(kept: Sequence[NotCaptured], todo: Steps, asked: Restoration) -> Sequence[NotCaptured]:
    """Return what to report. Directories that cannot be recreated are left out: the paths that were
    to be written below them are reported."""
    quiet = set(asked.remade).difference(todo.written_paths)
    return [each for each in kept if each.path not in quiet]


def was_left(kept: NotCaptured) -> bool:
    """True if an undo left alone what the restore had left alone: there is nothing to undo."""
    return kept.reason.startswith(_NOT_THEN.format(""))


def can_follow(kept: NotCaptured) -> bool:
    """True if a path that an undo left alone can still be undone once it is back as the restore
    left it. Paths that the restore did not touch cannot."""
    return not kept.is_apart and not was_left(kept)


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
