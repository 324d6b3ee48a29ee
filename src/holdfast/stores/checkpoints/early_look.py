"""git compares the times of files while this process still loads what takes a checkpoint.

The comparison counts if the private index is the same file when the take has its locks: then it
says what changed since the index was written, up to a moment after the take was asked for. What
another take learned meanwhile is in the state that it left beside the index.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.model.arguments import StrPath, real
from holdfast.stores.checkpoints.repository import Layout, project_of
from holdfast.stores.git.program import Git
from holdfast.stores.git.quick_process import QuickProcess


class EarlyLook:
    """A running comparison of one working directory with its index."""

    def __init__(self, process: QuickProcess, index: str, seen: tuple[int, ...]) -> None:
        self._process: QuickProcess | None = process
        self._index = index
        self._seen = seen

    def used(self) -> QuickProcess | None:
        """The process, for whoever holds the lock of the index; None when it compared with another
        index, or was used before."""
        if self._process is None or _seen(self._index) != self._seen:
            return None
        process, self._process = self._process, None
        return process

    def close(self) -> None:
        """End it, if nobody used it."""
        process, self._process = self._process, None
        if process is not None:
            with process:
                process.kill()


def begin_look(folder: Path, workdir: StrPath) -> EarlyLook | None:
    """Begin to compare a directory for the store in `folder`. None where there is no index yet, or
    where git cannot be started: the take says why."""
    layout, place = Layout(folder=folder), real(workdir)
    private = layout.private(project_of(place))
    index = f"{private}/index"
    seen = _seen(index)  # before git reads it
    if seen is None:
        return None
    git = Git(store=layout.store, folder=private, work_tree=place)
    try:
        return EarlyLook(git.comparing(), index, seen)
    except (StorageError, OSError):
        return None


def _seen(path: str) -> tuple[int, ...] | None:
    """Which file it is. git and Holdfast replace an index as a whole."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
