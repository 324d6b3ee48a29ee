"""The checkpoints from before runs.

A run holds the checkpoint that it started from: a file with its id and that of the session, which
the run keeps locked. While the lock is held, nothing removes the checkpoint. Afterwards it still
does not count as the oldest of its project, until the next run there: what a run takes while it
works must never push out the way back, and nor must the next change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import UnknownCheckpointError
from holdfast.model.checkpoint import Checkpoint
from holdfast.stores import lock
from holdfast.stores.checkpoints.checkpoint_commit import project_refs
from holdfast.stores.checkpoints.repository import Layout, project_lock, used
from holdfast.stores.files import make_private_dir, storage_errors

_FOLDER = "runs"
RUNNING = "the run that began with it is not over"


@contextlib.contextmanager
def held_by_run(layout: Layout, checkpoint: Checkpoint, session: str) -> Iterator[None]:
    """Hold a checkpoint for a run; raises `UnknownCheckpointError` when it is gone already."""
    folder = layout.private(checkpoint.project) / _FOLDER
    path = folder / f"{checkpoint.id}.{session}"
    with contextlib.ExitStack() as stack:
        with used(layout), project_lock(layout, checkpoint.project, checkpoint.workdir):
            there = {ref.checkpoint for ref in project_refs(layout, checkpoint.project)}
            if checkpoint.id not in there:
                raise UnknownCheckpointError(f"Checkpoint {checkpoint.id} was removed.")
            with storage_errors(f"write {path}"):
                make_private_dir(folder)
            stack.enter_context(lock.exclusive(path, holder="run", wait=0.0, inherited=False))
            for name in _names(folder):
                if name != path.name and not lock.is_held(folder / name):
                    with contextlib.suppress(OSError):
                        (folder / name).unlink()
        yield


def kept_for_runs(private: Path) -> frozenset[str]:
    """The checkpoints of a project from before the runs that go on, and before the last one."""
    return frozenset(_checkpoint(name) for name in _names(private / _FOLDER))


def under_a_run(private: Path) -> frozenset[str]:
    """The checkpoints of a project from before the runs that go on."""
    folder = private / _FOLDER
    return frozenset(_checkpoint(name) for name in _names(folder) if lock.is_held(folder / name))


def _checkpoint(name: str) -> str:
    return name.partition(".")[0]


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:
        return []
