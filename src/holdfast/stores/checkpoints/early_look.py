"""Let git compare file times while this process is still loading the code for a take.

The result counts if the private index is still the same file once the take has its locks. Then it
shows what changed since the index was written, up to a moment after the take was requested. What
another take learned meanwhile is in the state file next to the index.
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
        """Return the process, to be read under the lock of the index; None if it compared with
        another index, or was already used."""
        if self._process is None or _seen(self._index) != self._seen:
            return None
        process, self._process = self._process, None
        return process

    def close(self) -> None:
        """Kill it if it was not used."""
        process, self._process = self._process, None
        if process is not None:
            with process:
                process.kill()


def begin_look(folder: Path, workdir: StrPath) -> EarlyLook | None:
    """Start comparing a directory for the store in `folder`. Returns None if there is no index yet
    or git cannot be started; the take will report why."""
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
    """Identify the file. git and Holdfast always replace an index as a whole."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
