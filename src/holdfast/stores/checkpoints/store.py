"""The full checkpoint store: one bare git repository for all projects of a home."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile, TemporaryDirectory

from holdfast.errors import DamageError, StorageError, UnknownCheckpointError, UsageError
from holdfast.model.arguments import StrPath, real
from holdfast.model.checkpoint import (
    Captured,
    Change,
    Checkpoint,
    Excluded,
    Preview,
    Project,
    RestoreState,
    Rollback,
    TakeOutcome,
    Taking,
)
from holdfast.stores.checkpoints import finder, projects, restore_record, walk
from holdfast.stores.checkpoints.comparison import captured, changes
from holdfast.stores.checkpoints.content import content_of
from holdfast.stores.checkpoints.creation import prepare
from holdfast.stores.checkpoints.early_look import begin_look
from holdfast.stores.checkpoints.projects import read_record, relative, unmounted
from holdfast.stores.checkpoints.repository import Layout, opened, project_lock, project_of, used
from holdfast.stores.checkpoints.restore import Restorer
from holdfast.stores.checkpoints.writer import CheckpointWriter
from holdfast.stores.files import storage_errors
from holdfast.stores.git.object import Kind
from holdfast.stores.git.program import Git, Said
from holdfast.stores.git.trees import Trees, path_text

_SHORT = 8
_USUAL_DIRECTORY = 0o755
_IN_MEMORY = 1 << 22


class ShadowGitStore(CheckpointWriter):
    """The full store. Besides taking checkpoints, it lists, compares, pins and restores them."""

    def excluded(self, workdir: Path) -> Sequence[Excluded]:
        place, project = self._seen_place(workdir)
        with (
            self._with_rules() as layout,
            used(layout),
            project_lock(layout, project, str(place)),
        ):
            git = Git(store=layout.store, folder=layout.private(project), work_tree=place)
            found = walk.excluded(git, os.fsencode(place), Trees(opened(layout)))
            return sorted(found, key=lambda each: each.path)

    @contextlib.contextmanager
    def _with_rules(self) -> Iterator[Layout]:
        """Provide a store from which git can read the excludes. Looking must not create the home's
        store; a temporary one gives the same result."""
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
        """Return a checkpoint of this store; `get` of a subclass may also find others."""
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

    def projects(self) -> Sequence[Project]:
        with self.reading():
            return finder.projects(self.layout)

    # --- Restoring --------------------------------------------------------------------------------

    def secure(self, target: str, *, paths: Sequence[str] | None = None, now: float) -> str:
        checkpoint = self._stored(target)
        wanted = _inside(checkpoint, paths)
        begun = self._begun(checkpoint, wanted)
        if begun is not None:
            return begun
        self._make_workdir(checkpoint)
        with used(self.layout), project_lock(self.layout, checkpoint.project, checkpoint.workdir):
            # First, because finishing a restore replaces the announcement with its record.
            self._finish_restore(checkpoint.project)
            restore_record.announce(self.layout.private(checkpoint.project), checkpoint.id, now)
            early = begin_look(self.layout.folder, checkpoint.workdir)
        reason = f"before restoring {checkpoint.known_id[:_SHORT]}"
        taking = self.take(Path(checkpoint.workdir), reason=reason, now=now, early=early)
        if taking.outcome is TakeOutcome.SKIPPED or taking.id is None:
            raise StorageError(
                f"Nothing was restored: no safety checkpoint could be taken. {taking.reason}"
            )
        if wanted is not None:
            with used(self.layout):
                restorer = Restorer(self.layout, checkpoint.project)
                restorer.check(checkpoint, restorer.load(taking.id), wanted)
        return taking.id

    def _begun(self, target: Checkpoint, paths: Sequence[str] | None) -> str | None:
        """Return the safety checkpoint of this same restore, if it was interrupted."""
        cut = restore_record.under_way(self.layout.private(target.project))
        wanted = None if paths is None else tuple(paths)
        if cut is None or (cut.target, cut.paths) != (target.id, wanted):
            return None
        if not Path(target.workdir).is_dir():
            return None
        with used(self.layout), contextlib.suppress(UnknownCheckpointError, DamageError):
            return Restorer(self.layout, target.project).load(cut.safety).id
        return None

    def _make_workdir(self, target: Checkpoint) -> None:
        """Recreate a missing working directory, unless it may come back with its disk."""
        record, workdir = read_record(self.layout, target.project), Path(target.workdir)
        why = None if record is None or workdir.is_dir() else unmounted(record)
        if why is not None:
            raise StorageError(
                f"Cannot restore {workdir}: {why}.", hint="Mount the right disk and try again."
            )
        if not os.path.lexists(workdir.parent):
            raise StorageError(
                f"Cannot restore {workdir}: its parent folder {workdir.parent} is gone as well.",
                hint="If it is on a disk, mount that; otherwise create the folder. Then try again.",
            )
        with storage_errors(f"make {workdir} again"):
            if not os.path.lexists(workdir):
                workdir.mkdir(mode=_USUAL_DIRECTORY)

    def preview(self, target: str, *, paths: Sequence[str] | None = None) -> Preview:
        with self.reading():  # otherwise the look's tree is unprotected
            checkpoint = self._stored(target)
            workdir = Path(checkpoint.workdir)
            present = self.look(workdir) if os.path.lexists(workdir) else None
            restorer = Restorer(self.layout, checkpoint.project)
            return restorer.preview(checkpoint, present, _inside(checkpoint, paths))

    def preview_undo(
        self,
        target: str,
        safety: str,
        *,
        paths: Sequence[str] | None = None,
        undoing: bool = False,
    ) -> Preview:
        with self._between(target, safety) as (restorer, one, other):
            return restorer.preview_undo(one, other, _inside(one, paths), undoing=undoing)

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
        with self._between(target, safety) as (restorer, one, other):
            wanted = _inside(one, paths)
            return restorer.restore(one, other, paths=wanted, now=now, shown=shown, undoing=undoing)

    def restore_state(
        self, target: str, safety: str, *, paths: Sequence[str] | None = None
    ) -> RestoreState:
        with self._between(target, safety) as (restorer, one, other):
            return restorer.state(one, other, _inside(one, paths))

    @contextlib.contextmanager
    def _between(
        self, target: str, safety: str
    ) -> Iterator[tuple[Restorer, Checkpoint, Checkpoint]]:
        """Lock and load two checkpoints of one project; no other process can restore it."""
        with used(self.layout):
            restorer = Restorer(self.layout, "")
            one, other = restorer.load(target), restorer.load(safety)
            if one.project != other.project:
                raise UsageError(f"{safety} is not a checkpoint of {one.workdir}.")
            with project_lock(self.layout, one.project, one.workdir):
                yield Restorer(self.layout, one.project), one, other

    # --- Texts and marks --------------------------------------------------------------------------

    def patch(self, old: str, new: str, paths: Sequence[str] = ()) -> Iterator[bytes]:
        return _spooled(self._diff(("-p",), old, new, paths))

    def statistics(
        self, old: str, new: str, paths: Sequence[str] = (), *, width: int
    ) -> Iterator[bytes]:
        return _spooled(self._diff((f"--stat={width}", "--summary"), old, new, paths))

    def _diff(
        self, form: Sequence[str], old: str, new: str, paths: Sequence[str]
    ) -> Iterator[bytes]:
        """Yield the output of `git diff` for two trees, line by line."""
        git = self.layout.git()
        options = ("--find-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        sides = (f"{old}:files", f"{new}:files")
        with git.start("diff-tree", *form, *options, *sides, "--", *paths) as process:
            if process.stdin is None or process.stdout is None or process.stderr is None:
                raise AssertionError("git was started without pipes")
            process.stdin.close()
            try:
                yield from process.stdout
                errors = process.stderr.read()
            except BaseException:
                # The reader stopped early; git would block forever on a full pipe.
                with contextlib.suppress(OSError):
                    process.kill()
                raise
            status = process.wait()
        if status:
            raise git.failed("diff-tree", Said(status=status, output=b"", errors=errors))

    def ready(self, checkpoint: Checkpoint) -> Checkpoint:
        return checkpoint

    def pin(self, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
        return projects.pin(self.layout, checkpoint, pinned)

    def rename(self, checkpoint: Checkpoint, name: str | None) -> Checkpoint:
        return projects.rename(self.layout, checkpoint, name)


def _inside(target: Checkpoint, paths: Sequence[str] | None) -> Sequence[str] | None:
    """Return the paths relative to the project, without duplicates; None for the whole project."""
    if paths is None:
        return None
    workdir = Path(target.workdir)
    wanted = sorted({path_text(relative(workdir, path)) for path in paths})
    return None if "" in wanted else wanted


def _spooled(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Read all lines now, so that a slow reader does not keep the store locked."""
    file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed when read
    with storage_errors("write a difference to the folder for temporary files"):
        file.writelines(lines)
        file.seek(0)
    return _read_spooled(file)


def _read_spooled(file: SpooledTemporaryFile[bytes]) -> Iterator[bytes]:
    with file:
        yield from file


def foresee(
    writer: CheckpointWriter, workdir: StrPath, *, paths: Sequence[str] | None = None
) -> Taking:
    """Return what `writer.take` would do now. A store that does not exist yet is not created."""
    if writer.layout.exists():
        return writer.foresee(workdir, paths=paths)
    why = writer.refusal(workdir)  # a temporary store does not know where the real one would be
    if why is not None:
        return why
    with TemporaryDirectory(prefix="holdfast-") as folder:
        return CheckpointWriter(Path(folder, "checkpoints"), writer.how).foresee(
            workdir, paths=paths
        )
