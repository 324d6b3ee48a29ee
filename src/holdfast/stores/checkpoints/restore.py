"""Restores as the store offers them, each step under the locks that it needs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.errors import DamageError, HoldfastError, StorageError, UnknownCheckpointError
from holdfast.model.checkpoint import (
    Checkpoint,
    Preview,
    RestoreState,
    Rollback,
    Sight,
    TakeOutcome,
    Taking,
)
from holdfast.stores.checkpoints import restore_record
from holdfast.stores.checkpoints.projects import read_record, relative, unmounted
from holdfast.stores.checkpoints.repository import Layout, project_lock, used
from holdfast.stores.checkpoints.restorer import Restorer, check_project
from holdfast.stores.files import storage_errors
from holdfast.stores.git.trees import path_text

_SHORT = 8
_USUAL_DIRECTORY = 0o755


def safety_reason(target: Checkpoint) -> str:
    """What the list of checkpoints says of a safety checkpoint."""
    return f"before restoring {target.known_id[:_SHORT]}"


def announce(layout: Layout, target: Checkpoint, *, now: float) -> None:
    """Make ready for the safety checkpoint. A working directory that is gone is made again."""
    _check_disk(layout, target)
    workdir = Path(target.workdir)
    with storage_errors(f"make {workdir} again"):
        if not os.path.lexists(workdir):
            workdir.mkdir(mode=_USUAL_DIRECTORY)
    with _restoring(layout, target) as restorer:
        restorer.announce(target, now=now)


def cut_short(layout: Layout, target: Checkpoint, paths: Sequence[str] | None) -> str | None:
    """The safety checkpoint of this very restore, if it was begun and did not get to its end."""
    cut = restore_record.under_way(layout.private(target.project))
    if cut is None or cut.target != target.id:
        return None
    wanted = None if paths is None else tuple(paths)
    if cut.paths != wanted or not Path(target.workdir).is_dir():
        return None
    with used(layout), contextlib.suppress(UnknownCheckpointError, DamageError):
        return Restorer(layout, target.project).load(cut.safety).id
    return None


def _check_disk(layout: Layout, target: Checkpoint) -> None:
    """Raise where the directory may come back with its disk: nothing must be made in its place."""
    record, workdir = read_record(layout, target.project), Path(target.workdir)
    why = None if record is None or workdir.is_dir() else unmounted(record)
    if why is not None:
        raise StorageError(
            f"Cannot restore {workdir}: {why}.", hint="Mount the right one and try again."
        )
    if not os.path.lexists(workdir.parent):
        raise StorageError(
            f"Cannot restore {workdir}: {workdir.parent}, which it lay in, is gone, too.",
            hint="If it is on a disk, mount that; otherwise make the folder. Then try again.",
        )


def secured(layout: Layout, target: Checkpoint, taking: Taking, paths: Sequence[str] | None) -> str:
    """The id of the safety checkpoint; raises when there is none, or for paths that cannot be
    restored from it."""
    if taking.outcome is TakeOutcome.SKIPPED or taking.id is None:
        raise StorageError(
            f"Nothing was restored: no safety checkpoint could be taken. {taking.reason}"
        )
    if paths is not None:
        with used(layout):
            restorer = Restorer(layout, target.project)
            restorer.check(target, restorer.load(taking.id), paths)
    return taking.id


def finish(layout: Layout, project: str) -> None:
    """Finish an interrupted restore before a checkpoint is taken. The caller holds the locks.

    If that fails, on a full disk for example, the next take tries again; this take goes on.
    """
    if restore_record.under_way(layout.private(project)) is not None:
        with contextlib.suppress(HoldfastError):
            Restorer(layout, project).finish()


def preview(
    layout: Layout, target: Checkpoint, present: Sight | None, paths: Sequence[str] | None
) -> Preview:
    wanted = inside(target, paths)
    with used(layout):
        return Restorer(layout, target.project).preview(target, present, wanted)


def preview_undo(layout: Layout, target: str, safety: str, paths: Sequence[str] | None) -> Preview:
    one, other = _ends(layout, target, safety)
    wanted = inside(one, paths)
    with _restoring(layout, one) as restorer:
        return restorer.preview_undo(one, other, wanted)


def restore(
    layout: Layout,
    target: str,
    safety: str,
    *,
    paths: Sequence[str] | None,
    now: float,
    shown: Preview | None = None,
) -> Rollback:
    one, other = _ends(layout, target, safety)
    wanted = inside(one, paths)
    with _restoring(layout, one) as restorer:
        # Since they were read they may have gone.
        one, other = restorer.load(target), restorer.load(safety)
        return restorer.restore(one, other, paths=wanted, now=now, shown=shown)


def state(layout: Layout, target: str, safety: str, *, paths: Sequence[str] | None) -> RestoreState:
    one, other = _ends(layout, target, safety)
    wanted = inside(one, paths)
    with _restoring(layout, one) as restorer:
        return restorer.state(one, other, wanted)


def inside(target: Checkpoint, paths: Sequence[str] | None) -> Sequence[str] | None:
    """The paths as a tree has them, each once; None when that is everything."""
    if paths is None:
        return None
    workdir = Path(target.workdir)
    wanted = sorted({path_text(relative(workdir, path)) for path in paths})
    return None if "" in wanted else wanted


def _ends(layout: Layout, target: str, safety: str) -> tuple[Checkpoint, Checkpoint]:
    with used(layout):
        restorer = Restorer(layout, "")
        one, other = restorer.load(target), restorer.load(safety)
    check_project(one, other)
    return one, other


@contextlib.contextmanager
def _restoring(layout: Layout, target: Checkpoint) -> Iterator[Restorer]:
    with used(layout), project_lock(layout, target.project, target.workdir):
        yield Restorer(layout, target.project)
